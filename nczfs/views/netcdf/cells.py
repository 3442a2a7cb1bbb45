"""The forms of elements in netCDF files."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from nczfs.buffers import Buffer, Flags, Values
from nczfs.errors import BadValue
from nczfs.messages import shown
from nczfs.model.printing import encoded
from nczfs.model.smallnumbers import number_kind, small_number
from nczfs.plaindata import frozen
from nczfs.views.forms import BinaryForm, Form

_REPLACEMENT = np.uint32(0xFFFD)


def cell_form(array_dtype: np.dtype[Any], cell: np.dtype[Any]) -> Form:
    """Return the form in which elements of an array are cells of a file.

    Parameters
    ----------
    array_dtype : of the elements in memory.
    cell : as in `Elements`, but in the byte order of the file.

    Notes
    -----
    Most cells have the bytes of the element: a bool is one byte, a time its int64, a complex number
    its two parts, and so on.
    """
    if array_dtype == np.float16 or (
        small_number(array_dtype) is not None and number_kind(array_dtype) != "c"
    ):
        return WideForm(cell)
    if array_dtype.kind == "U":
        return Utf8Form(cell.itemsize)
    assert array_dtype.itemsize == cell.itemsize, f"{array_dtype} is not {cell}"
    is_swapped = not _is_native(cell)
    return BinaryForm(array_dtype.newbyteorder("S" if is_swapped else "="))


def text_cells(texts: tuple[str, ...], width: int) -> bytes:
    """Return texts in UTF-8, each with NULs up to a width in bytes, which none exceeds."""
    return b"".join(encoded(text).ljust(width, b"\0") for text in texts)


@frozen
class WideForm(Form):
    """Elements of float16 or of ml_dtypes as numbers of a type that has all their values.

    Attributes
    ----------
    dtype : float32 or an integer of one byte, in the byte order of the file.
    """

    dtype: np.dtype[Any]

    @property
    def width(self) -> int:
        return self.dtype.itemsize

    @property
    def is_uncopied(self) -> bool:
        return False

    @property
    def is_binary(self) -> bool:
        return False  # half of a float32 may belong to no float16

    @property
    def is_exact(self) -> bool:
        return True

    def render(self, values: Values) -> Buffer:
        return values.astype(self.dtype).view(np.uint8).data

    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        wide = np.require(np.frombuffer(data, self.dtype), requirements="A")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            found = wide.astype(dtype)
            back = found.astype(wide.dtype)
        differing = np.flatnonzero((back != wide) & ((back == back) | (wide == wide)))
        if differing.size:
            raise BadValue(
                f"the array stores {dtype.name}, and {wide[differing[0]]} is none; the nearest is "
                f"{found[differing[0]]}"
            )
        return found

    def restorable(self, values: Values) -> Flags:
        return np.ones(len(values), bool)


@frozen
class Utf8Form(Form):
    """Unicode text of a fixed length as UTF-8, with NULs up to four bytes a character.

    Attributes
    ----------
    width : in bytes.
    """

    width: int

    @property
    def is_uncopied(self) -> bool:
        return False

    @property
    def is_binary(self) -> bool:
        return False  # a part of the bytes may be no UTF-8

    @property
    def is_exact(self) -> bool:
        return False

    def render(self, values: Values) -> Buffer:
        points = _points(values)
        wrong = points > sys.maxunicode
        if wrong.any():
            values = np.where(wrong, _REPLACEMENT, points).view(values.dtype).reshape(-1)
        return text_cells(tuple(values.tolist()), self.width)

    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        cells = np.frombuffer(data, f"S{self.width}").tolist()
        try:
            texts = [cell.decode("utf-8") for cell in cells]
        except UnicodeDecodeError as error:
            raise BadValue(f"a text is not UTF-8: {error}") from None
        room = dtype.itemsize // 4
        for text in texts:
            if len(text) > room:
                raise BadValue(f"{shown(text)} has {len(text)} characters, an element {room}")
        return np.array(texts, dtype)

    def restorable(self, values: Values) -> Flags:
        points = _points(values)
        is_half = (points >= 0xD800) & (points < 0xE000)  # of a surrogate pair: not in UTF-8
        return np.logical_not((is_half | (points > sys.maxunicode)).any(axis=1))


def _points(values: Values) -> Values:
    """Return the characters of texts as numbers, a row for each; not all may be Unicode."""
    return np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)


def _is_native(cell: np.dtype[Any]) -> bool:
    """Return whether all parts of a dtype are in this machine's byte order."""
    return cell == cell.newbyteorder("=")
