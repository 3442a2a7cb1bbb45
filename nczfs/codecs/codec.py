"""The interface of a codec of flat data, and how the settings of codecs are read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import numpy as np

from nczfs.errors import UnknownCodec
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

Flat: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""A contiguous one-dimensional array, in memory order: bytes (u1), numbers or objects."""

Order: TypeAlias = Literal["C", "F"]

# netcdf-c replaces a chunk without truncating it, and netcdf-fortran writes some chunks as long as
# the whole variable: what is a bit too long is cut; what is far too long is refused as hostile.
OVERLONG_LEAST_BYTES = 64 << 10
OVERLONG_MOST_BYTES = 64 << 20

# Filters are for numbers: elements of text would let a configuration claim any memory, and long
# doubles (g, G) are stored differently by every machine.
_NUMBER_KINDS = frozenset("biufcmM")
_LONG_DOUBLES = frozenset("gG")

_INTEGER_MAX = (1 << 63) - 1


@frozen
class Size:
    """The length in bytes of the data between two codecs, as the metadata predict it.

    Attributes
    ----------
    expected : the predicted length; None where it depends on the values (compressed data).
    limit : the largest accepted length; a decoder allocates no more than that for its output.
    """

    expected: int | None
    limit: int

    @classmethod
    def exactly(cls, size: int) -> Size:
        """Return a known length; data that are somewhat longer are accepted."""
        spare = max(OVERLONG_LEAST_BYTES, min(size, OVERLONG_MOST_BYTES))
        return cls(size, size + spare)

    def scaled(self, *, from_bytes: int, to_bytes: int) -> Size:
        """Return the length if each item of `from_bytes` becomes one of `to_bytes`."""
        if self.expected is None:
            return Size(None, math.ceil(self.limit / from_bytes) * to_bytes)
        return Size.exactly(self.expected // from_bytes * to_bytes)

    def plus(self, size: int) -> Size:
        """Return the length with so many bytes added."""
        if self.expected is None:
            return Size(None, self.limit + size)
        return Size.exactly(self.expected + size)

    def compressed(self) -> Size:
        """Return the length of such data after compression: unknown, and hardly more.

        Notes
        -----
        Incompressible data grow by less than 1 % in every compressor; by an eighth where deflate
        uses its fixed codes throughout; and by a fifth, as seen with isal's level 0.
        """
        return Size(None, self.limit + self.limit // 2 + 4096)


class Codec(ABC):
    """A codec of flat data: of a Zarr v2 chain, or from bytes to bytes.

    It is immutable, and safe to use from any number of threads.

    `decode` and `encode` may raise any exception for data that do not fit; the pipeline says which
    codec it was. Third-party codecs implement this class and register, as entry point of the group
    ``nczfs.codec`` under the codec's id, a function that takes the configuration (a mapping) and
    the `ArrayDescription`.
    """

    is_cheap: bool = False
    """Whether it decodes more than about 1 GB/s."""

    @abstractmethod
    def encoded_size(self, size: Size) -> Size:
        """Return the length of the encoded data for decoded data of the length `size`."""

    @abstractmethod
    def decode(self, data: Flat, size: Size) -> Flat:
        """Undo the codec.

        Parameters
        ----------
        data : the result of `encode`, as bytes or as the array from the codec before.
        size : of the decoded data. No more than ``size.limit`` bytes are ever allocated for them.
        """

    @abstractmethod
    def encode(self, data: Flat) -> Flat:
        """Apply the codec. The items of `data` have the dtype that the codec before gave them."""


def as_bytes(data: Flat) -> Flat:
    """Return the same memory as an array of bytes."""
    return data.view(np.uint8)


def as_memory(data: Flat) -> memoryview:
    """Return the same memory for functions that take buffers."""
    return as_bytes(data).data


def from_buffer(data: bytes | bytearray | memoryview) -> Flat:
    """Return the bytes of a buffer, without copying them."""
    return np.frombuffer(data, np.uint8)


class CodecSettings:
    """The members of a codec's JSON object, read leniently because netcdf-c wrote numbers as text.

    Every method raises UnknownCodec for a member that has no usable value.
    """

    def __init__(self, codec: str, members: Mapping[str, Json]) -> None:
        self.codec = codec
        self.members = members

    def refused(self, why: str) -> UnknownCodec:
        """Return the exception for a configuration that cannot be used."""
        return UnknownCodec(f"codec {shown(self.codec)}: {why}")

    def integer(self, name: str, default: int) -> int:
        value = self.optional_integer(name)
        return default if value is None else value

    def optional_integer(self, name: str) -> int | None:
        value = self.members.get(name)
        if value is None:
            return None
        number: int | None = None
        with suppress(ValueError):
            if isinstance(value, int | str) or (isinstance(value, float) and value.is_integer()):
                number = int(value)
        if number is not None and -_INTEGER_MAX <= number <= _INTEGER_MAX:
            return number
        raise self.refused(f"{name} is {shown(value)}, not a whole number")

    def number(self, name: str) -> float | int:
        value = self.members.get(name)
        with suppress(ValueError, OverflowError):
            if isinstance(value, str):
                value = float(value)
            if isinstance(value, int | float) and math.isfinite(value):
                return value
        raise self.refused(f"{name} is {shown(value)}, not a number")

    def text(self, name: str, default: str) -> str:
        value = self.members.get(name, default)
        if isinstance(value, str):
            return value
        raise self.refused(f"{name} is {shown(value)}, not a text")

    def flag(self, name: str, default: bool) -> bool:
        value = self.members.get(name, default)
        if isinstance(value, bool | int):
            return bool(value)
        raise self.refused(f"{name} is {shown(value)}, not true or false")

    def dtype(self, name: str, default: str | None = None) -> np.dtype[Any]:
        """Return the numeric dtype that a type string names."""
        value = self.members.get(name)
        if value is None:
            value = default
        try:
            dtype = np.dtype(value) if isinstance(value, str) else None
        except (TypeError, ValueError, SyntaxError):
            dtype = None
        if dtype is None or dtype.kind not in _NUMBER_KINDS or dtype.char in _LONG_DOUBLES:
            raise self.refused(f"{name} is {shown(value)}, not a type of numbers")
        return dtype
