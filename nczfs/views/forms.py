"""The forms in which elements become bytes of a file."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from nczfs.buffers import Buffer, Flags, Values
from nczfs.errors import BadValue
from nczfs.model.smallnumbers import bits_of, small_number
from nczfs.plaindata import frozen


class Form(ABC):
    """The form in which elements become bytes, the same number for each."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The bytes of one element."""

    @property
    @abstractmethod
    def is_uncopied(self) -> bool:
        """Whether the bytes are those of the element in memory."""

    @property
    @abstractmethod
    def is_binary(self) -> bool:
        """Whether a part of an element's bytes can be written without the rest."""

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether the bytes of an element represent it completely; reading them restores it."""

    @abstractmethod
    def render(self, values: Values) -> Buffer:
        """Return the bytes of a one-dimensional array of elements."""

    @abstractmethod
    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        """Return the elements, of type `dtype`, that the bytes of whole elements stand for.

        Raises
        ------
        BadValue : there are no such elements.
        """

    @abstractmethod
    def restorable(self, values: Values) -> Flags:
        """Return which elements can be restored from their bytes."""


@frozen
class BinaryForm(Form):
    """Elements as they are in memory, or in another byte order.

    Attributes
    ----------
    dtype : of the bytes: that of the elements except for the byte order.
    """

    dtype: np.dtype[Any]

    @property
    def width(self) -> int:
        return self.dtype.itemsize

    @property
    def is_uncopied(self) -> bool:
        return bool(self.dtype.isnative)

    @property
    def is_binary(self) -> bool:
        return True

    @property
    def is_exact(self) -> bool:
        return True

    def render(self, values: Values) -> Buffer:
        return values.astype(self.dtype, copy=False).view(np.uint8).data

    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        # Neither codecs nor numpy's own views take elements at odd addresses.
        values = np.require(np.frombuffer(data, self.dtype), requirements="A")
        if dtype.kind == "b" and (values.view(np.uint8) > 1).any():
            raise BadValue("a bool is the byte 0 or 1")
        bits = bits_of(dtype) if small_number(dtype) is not None else 8
        if bits < 8 and (values.view(np.uint8) >> bits).any():
            raise BadValue(f"{dtype.name} has the lowest {bits} bits of a byte, and no others")
        if dtype.kind == "U":
            points = values.view(np.dtype(np.uint32).newbyteorder(self.dtype.byteorder))
            if (points > sys.maxunicode).any():
                raise BadValue("four bytes are not a Unicode character")
        return values.astype(dtype, copy=False)

    def restorable(self, values: Values) -> Flags:
        return np.ones(len(values), bool)
