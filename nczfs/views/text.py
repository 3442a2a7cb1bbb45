"""Elements as lines of text, all of one width: ``values.txt``."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczfs.engine.cache import Values
from nczfs.model.dtypes import DataType
from nczfs.views.layout import Buffer, Form

# The digits that read back to the same bits, and the widest that such a number can be:
# -6.1035e-05, -1.17549435e-38, -2.2250738585072014e-308.
_FLOAT_FORMS = {2: (".5g", 11), 4: (".9g", 15), 8: (".17g", 24)}
_INT_WIDTHS = {"i1": 4, "u1": 3, "i2": 6, "u2": 5, "i4": 11, "u4": 10, "i8": 20, "u8": 20}
_DATETIME_WIDTH = 20


@dataclass(frozen=True, slots=True)
class TextForm(Form):
    """One element a line.

    Attributes
    ----------
    columns : bytes of a line without its newline.
    lines : the lines of a one-dimensional array of elements.
    """

    columns: int
    lines: Callable[[Values], Buffer]

    @property
    def width(self) -> int:
        return self.columns + 1

    @property
    def is_native(self) -> bool:
        return False

    def render(self, values: Values) -> Buffer:
        return self.lines(values)


def text_form(dtype: DataType) -> TextForm | None:
    """The form of a line for a fixed-size type; structured and void types have none.

    Integers are right-aligned to the widest value of the type, floats are printed with the digits
    that read back to the same bits, dates as their int64, complex numbers as two columns.
    """
    native = dtype.native
    kind, size = native.kind, native.itemsize
    if dtype.vlen is not None or native.names is not None:
        return None
    if kind == "b":
        return TextForm(1, _numbers("%1d", np.dtype("i1")))
    if kind in "iu":
        width = _INT_WIDTHS[f"{kind}{size}"]
        return TextForm(width, _numbers(f"%{width}d"))
    if kind in "mM":
        return TextForm(_DATETIME_WIDTH, _numbers(f"%{_DATETIME_WIDTH}d", np.dtype("i8")))
    if kind == "f":
        digits, width = _FLOAT_FORMS[size]
        return TextForm(width, _numbers(f"%{width}{digits}"))
    if kind == "c":
        part = np.dtype(f"f{size // 2}")
        digits, width = _FLOAT_FORMS[part.itemsize]
        line = f"%{width}{digits} %{width}{digits}"
        return TextForm(2 * width + 1, _numbers(line, part, per_line=2))
    if kind == "S":
        return TextForm(size, _bytes_lines)
    if kind == "U":
        return TextForm(size, _text_lines(size))
    return None


def _numbers(
    line: str, view: np.dtype[Any] | None = None, *, per_line: int = 1
) -> Callable[[Values], Buffer]:
    def lines(values: Values) -> Buffer:
        numbers = values.view(view) if view is not None else values
        count = len(numbers) // per_line
        return ((line + "\n") * count % tuple(numbers.tolist())).encode("ascii")

    return lines


def _bytes_lines(values: Values) -> Buffer:
    size = values.dtype.itemsize
    cells = values.view(np.uint8).reshape(len(values), size)
    padding = np.logical_and.accumulate(cells[:, ::-1] == 0, axis=1)[:, ::-1]
    out = np.full((len(values), size + 1), ord("\n"), np.uint8)
    out[:, :-1] = np.where((cells < 0x20) | (cells == 0x7F), ord("?"), cells)
    out[:, :-1][padding] = ord(" ")
    return out.reshape(-1).data


def _text_lines(size: int) -> Callable[[Values], Buffer]:
    def lines(values: Values) -> Buffer:
        return b"".join(_printable(value).ljust(size) + b"\n" for value in values.tolist())

    return lines


def _printable(value: str) -> bytes:
    text = "".join("?" if unicodedata.category(c) == "Cc" else c for c in value)
    return text.encode("utf-8", "replace")


def json_element(value: object) -> object:
    """An element of a variable-length type as JSON has it; bytes as Latin-1 text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


def json_lines(values: Values) -> bytes:
    """One JSON value a line: the form of variable-length elements."""
    return "".join(
        json.dumps(json_element(value), ensure_ascii=False) + "\n" for value in values.reshape(-1)
    ).encode("utf-8", "surrogatepass")


def json_list(values: Values) -> bytes:
    """The elements of a chunk as one JSON list and a newline."""
    elements = [json_element(value) for value in values.reshape(-1)]
    return (json.dumps(elements, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
