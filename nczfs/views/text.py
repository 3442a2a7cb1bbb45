"""Elements as lines of text, all of one width: ``values.txt``."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from nczfs.buffers import Buffer, Flags, Values
from nczfs.codecs.rounding import Cast
from nczfs.errors import BadValue
from nczfs.model.dtypes import DataType
from nczfs.model.smallnumbers import number_kind, small_number
from nczfs.plaindata import frozen
from nczfs.views.forms import Form

# The digits that read back to the same bits, and the widest that such a number can be:
# -6.1035e-05, -1.17549435e-38, -2.2250738585072014e-308.
_FLOAT_FORMS = {2: (".5g", 11), 4: (".9g", 15), 8: (".17g", 24)}
_INT_WIDTHS = {"i1": 4, "u1": 3, "i2": 6, "u2": 5, "i4": 11, "u4": 10, "i8": 20, "u8": 20}
_DATETIME_WIDTH = 20


@frozen
class TextForm(Form):
    """One element a line.

    Attributes
    ----------
    columns : bytes of a line without its newline.
    lines : the lines of a one-dimensional array of elements.
    elements : parses whole lines to elements of a type; raises ValueError, OverflowError.
    shown : which elements their lines show exactly; None: all.
    """

    columns: int
    lines: Callable[[Values], Buffer]
    elements: Callable[[list[bytes], np.dtype[Any]], Values]
    shown: Callable[[Values], Flags] | None = None

    @property
    def width(self) -> int:
        return self.columns + 1

    @property
    def is_uncopied(self) -> bool:
        return False

    @property
    def is_binary(self) -> bool:
        return False

    def render(self, values: Values) -> Buffer:
        return self.lines(values)

    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        cells = np.frombuffer(data, np.uint8).reshape(-1, self.width)
        if (cells[:, -1] != ord("\n")).any():
            raise BadValue(f"a line has {self.columns} bytes and a newline")
        text = cells[:, :-1]
        if ((text < 0x20) | (text == 0x7F)).any():
            raise BadValue("a line cannot contain control characters")
        lines = np.ascontiguousarray(text).view(f"V{self.columns}").reshape(-1)
        try:
            return self.elements(lines.tolist(), dtype)
        except (ValueError, OverflowError) as error:
            raise BadValue(f"a line is not a {dtype.name}: {error}") from None

    @property
    def is_exact(self) -> bool:
        return self.shown is None

    def restorable(self, values: Values) -> Flags:
        return np.ones(len(values), bool) if self.shown is None else self.shown(values)


def text_form(dtype: DataType) -> TextForm | None:
    """Return the form of a line for a fixed-size type; structured and void types have none.

    Integers are right-aligned to the widest value of the type, floats are printed with the digits
    that read back to the same bits, dates as their int64, complex numbers as two columns.
    """
    native = dtype.native
    if small_number(native) is not None:
        return _small_form(native)
    kind, size = native.kind, native.itemsize
    if dtype.vlen is not None or native.names is not None:
        return None
    if kind == "b":
        return TextForm(1, _numbers("%1d", np.dtype("i1")), _parsed_bools)
    if kind in "iu":
        width = _INT_WIDTHS[f"{kind}{size}"]
        return TextForm(width, _numbers(f"%{width}d"), _parsed_integers)
    if kind in "mM":
        line = f"%{_DATETIME_WIDTH}d"
        return TextForm(_DATETIME_WIDTH, _numbers(line, np.dtype("i8")), _parsed_integers)
    if kind == "f":
        digits, width = _FLOAT_FORMS[size]
        return TextForm(width, _numbers(f"%{width}{digits}"), _parsed_floats)
    if kind == "c":
        part = np.dtype(f"f{size // 2}")
        digits, width = _FLOAT_FORMS[part.itemsize]
        line = f"%{width}{digits} %{width}{digits}"
        return TextForm(2 * width + 1, _numbers(line, part, per_line=2), _parsed_complex)
    if kind == "S":
        return TextForm(size, _bytes_lines, _parsed_bytes, _without_controls)
    if kind == "U":
        return TextForm(size, _text_lines(size), _parsed_text, _without_controls)
    return None


def _small_form(native: np.dtype[Any]) -> TextForm:
    """Return the form of a number of ml_dtypes: that of a wider type, which has all of them."""
    kind = number_kind(native)
    if kind in "iu":
        wide = np.dtype(f"{kind}1")
        width = _INT_WIDTHS[wide.str[1:]]
        return TextForm(width, _widened(wide, f"%{width}d"), _parsed_small_integers)
    digits, width = _FLOAT_FORMS[4]
    number = f"%{width}{digits}"
    if kind == "f":
        return TextForm(width, _widened(np.dtype("f4"), number), _parsed_small_floats)
    line = f"{number} {number}"
    return TextForm(
        2 * width + 1, _widened(np.dtype("c8"), line, np.dtype("f4")), _parsed_small_complex
    )


def _widened(
    wide: np.dtype[Any], line: str, part: np.dtype[Any] | None = None
) -> Callable[[Values], Buffer]:
    write = _numbers(line, part, per_line=1 if part is None else 2)
    return lambda values: write(values.astype(wide))


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


def _parsed_integers(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    numbers = [_number(int, line) for line in lines]
    stored = np.dtype("i8") if dtype.kind in "mM" else dtype
    return np.array(numbers, stored).view(dtype)


def _parsed_bools(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    if any(line not in (b"0", b"1") for line in lines):
        raise ValueError("give 0 or 1")
    return np.array([line == b"1" for line in lines], dtype)


def _parsed_floats(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    return _narrowed(np.array([_number(float, line) for line in lines]), dtype)


def _parsed_complex(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    pairs = [line.split() for line in lines]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("give the real and the imaginary part")
    parts = np.array([_number(float, word) for pair in pairs for word in pair])
    return _narrowed(parts, np.dtype(f"f{dtype.itemsize // 2}")).view(dtype)


def _parsed_small_integers(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    return Cast(dtype)(np.array([_number(int, line) for line in lines], np.int64))


def _parsed_small_floats(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    return Cast(dtype)(np.array([_number(float, line) for line in lines]))


def _parsed_small_complex(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    numbers = _parsed_complex(lines, np.dtype(np.complex128))
    with np.errstate(over="ignore"):
        found = numbers.astype(dtype)
    if not np.array_equal(np.isfinite(found.astype(np.complex128)), np.isfinite(numbers)):
        raise OverflowError("out of range")
    return found


def _number(kind: Callable[[bytes], Any], word: bytes) -> Any:
    if b"_" in word:  # Python's own spelling of thousands
        raise ValueError(f"{word.decode('utf-8', 'replace')!r}")
    number = kind(word)
    if isinstance(number, float) and math.isinf(number) and b"n" not in word.lower():
        raise OverflowError("out of range")
    return number


def _narrowed(numbers: Values, dtype: np.dtype[Any]) -> Values:
    with np.errstate(over="ignore"):
        found = numbers.astype(dtype)
    if (np.isinf(found) & np.isfinite(numbers)).any():
        raise OverflowError("out of range")
    return found


def _parsed_bytes(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    return np.array([line.rstrip(b" ") for line in lines], dtype)


def _parsed_text(lines: list[bytes], dtype: np.dtype[Any]) -> Values:
    texts = [line.decode("utf-8").rstrip(" ") for line in lines]
    longest = dtype.itemsize // 4
    if any(len(text) > longest for text in texts):
        raise ValueError(f"an element has {longest} characters")
    return np.array(texts, dtype)


def _without_controls(values: Values) -> Flags:
    """Return which texts contain no control characters, which lines show as "?"."""
    if values.dtype.kind == "S":
        controls = bytes((*range(0x20), 0x7F))
        clean = [value.translate(None, controls) == value for value in values.tolist()]
    else:
        clean = [all(unicodedata.category(c) != "Cc" for c in text) for text in values.tolist()]
    return np.array(clean, bool)
