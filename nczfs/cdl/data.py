"""The data section of CDL: the values of a variable, as ncdump prints them.

The values come in blocks of any length and leave in pieces, so that neither the variable nor its
text is ever whole in memory. ncdump breaks lines depending on the contents of the line.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.cdl.leaves import dtype_of
from nczfs.cdl.printer import PrintedVariable
from nczfs.cdl.values import USUAL_DIGITS, Digits, data_number, escaped_name, quoted
from nczfs.model.dtypes import DEFAULT_FILL, NcType
from nczfs.model.hierarchy import Attribute
from nczfs.model.printing import encoded
from nczfs.plaindata import frozen

_CONTINUED = "    "
_FLOATS = (NcType.FLOAT, NcType.DOUBLE)

# For such a small type ncdump has no fill value unless an attribute gives one.
_NO_DEFAULT_FILL = (NcType.BYTE, NcType.UBYTE)

_C_FORMAT = re.compile(r"%[-+ #0]{0,5}\d{0,2}(?:\.\d{0,2})?(?:hh?|ll?)?(?:([diuoxX])|[eEfFgG])\Z")


@frozen
class DataStyle:
    """The style in which values are printed.

    Attributes
    ----------
    line_length : at which lines are broken.
    full : whether each value has a line and its indices in a comment (``ncdump -f``).
    brief : whether each row has them (``ncdump -b``).
    fortran : whether indices are Fortran's: from 1, fastest first.
    """

    digits: Digits = USUAL_DIGITS
    line_length: int = 80
    full: bool = False
    brief: bool = False
    fortran: bool = False


def data_text(
    printed: PrintedVariable, blocks: Iterable[Values], style: DataStyle
) -> Iterator[str]:
    """Yield the values of a variable in CDL.

    Parameters
    ----------
    blocks : all elements in C order, in one-dimensional pieces of any length above 0.

    Yields
    ------
    str : with surrogates for bytes of texts that are not UTF-8. A variable without elements yields
        nothing, as in ncdump.

    Notes
    -----
    Two things differ from ncdump, which loses values there: a text of a CHAR variable is never
    split after a newline, which would begin a row; and NULs at the end of a row are printed where
    ncgen would put something else: a fill value, or the next row if rows are unlimited.
    """
    if 0 in printed.variable.array.shape:
        return
    yield from _Data(printed, style).text(blocks)


class _Data:
    """The text of one variable in progress."""

    def __init__(self, printed: PrintedVariable, style: DataStyle) -> None:
        variable = printed.variable
        self._indent = printed.indent
        self._style = style
        self._name = escaped_name(variable.name)
        self._own_name = variable.name
        self._shape = variable.array.shape
        self._columns = self._shape[-1] if self._shape else 1
        # The sizes of the parts in braces.
        self._parts = [
            prod(self._shape[level:])
            for level, unlimited in enumerate(printed.unlimited)
            if unlimited and level
        ]
        self._lines = _Lines(printed.indent, style.line_length - 2)
        self._form: _Form = _form_of(printed, style.digits)

    def text(self, blocks: Iterable[Values]) -> Iterator[str]:
        yield self._beginning()
        size = prod(self._shape)
        index = 0
        for block in blocks:
            values = self._form.prepared(block)
            start = 0
            while start < len(values):
                count = min(len(values) - start, self._columns - index % self._columns)
                part = values[start : start + count]
                if index % self._columns == 0:
                    yield self._row_begins(index)
                yield self._cells(part, index)
                index, start = index + count, start + count
                if index % self._columns == 0:
                    yield self._row_ends(index, index == size)
        assert index == size, f"{self._own_name}: {index} of {size} values came"

    def _beginning(self) -> str:
        if len(self._shape) > 1:
            self._lines.position = len(self._indent) + 2
            return f"\n{self._indent} {self._name} =\n  "
        self._lines.position = _bytes_of(self._own_name) + 4 + len(self._indent)
        return f"\n{self._indent} {self._name} = "

    def _row_begins(self, index: int) -> str:
        text = self._lines.put(["{" for size in self._parts if index % size == 0])
        if self._style.brief and not self._style.full and len(self._shape) > 1:
            text += f"// {self._name}({self._row_indices(index)})\n{self._indent}{_CONTINUED}"
            self._lines.position = len(self._indent) + len(_CONTINUED)
        return text + self._form.row_begins()

    def _cells(self, part: Values, index: int) -> str:
        """Yield the values of a part of a row, without a comma after the last one of the row."""
        words = self._form.words(part)
        if self._form.is_text:
            return "".join(words)
        stop = index + len(part)
        last = [words.pop() + self._closing(stop)] if stop % self._columns == 0 else []
        if self._style.full:
            commented = [f"{word}, {self._indices(index + i)}" for i, word in enumerate(words)]
            return "".join(commented + last)
        return self._lines.put([f"{word}, " for word in words] + last)

    def _row_ends(self, index: int, is_last: bool) -> str:
        text = self._form.row_ends()
        if self._form.is_text:
            closing = self._closing(index)
            text += closing if self._style.full else self._lines.put([closing])
        if self._style.full:
            return text + (";" if is_last else ",") + self._indices(index - 1)
        return text + (" ;\n" if is_last else self._lines.next_row())

    def _closing(self, index: int) -> str:
        return "}" * sum(index % size == 0 for size in self._parts)

    def _indices(self, index: int) -> str:
        """Return the comment of one value."""
        found = [int(i) for i in np.unravel_index(index, self._shape)] or [0]
        if self._style.fortran:
            found = [i + 1 for i in reversed(found)]
        return f"  // {self._name}({','.join(map(str, found))})\n{_CONTINUED}"

    def _row_indices(self, index: int) -> str:
        """Return the comment of a row."""
        above = [int(i) for i in np.unravel_index(index, self._shape)][:-1]
        if self._style.fortran:
            columns = "1" if self._columns == 1 else f"1-{self._columns} "
            return columns + "".join(f",{i + 1}" for i in reversed(above))
        columns = "0" if self._columns == 1 else f" 0-{self._columns - 1}"
        return "".join(f"{i}," for i in above) + columns


def _bytes_of(word: str) -> int:
    return len(word) if word.isascii() else len(encoded(word))


class _Lines:
    """A writer of lines that keeps the column of the next word."""

    def __init__(self, indent: str, length: int) -> None:
        self.position = 0
        self._indent = indent
        self._length = length

    def put(self, words: Sequence[str]) -> str:
        """Return words, which are not divided, with line breaks where they would be too long."""
        text: list[str] = []
        position = self.position
        begin = f"\n{self._indent}{_CONTINUED}"
        for word in words:
            # ncdump counts bytes, and never moves short words.
            size = _bytes_of(word)
            if size > 2 and position + size > self._length:
                text.append(begin)
                position = len(begin) - 1
            text.append(word)
            position += size
        self.position = position
        return "".join(text)

    def next_row(self) -> str:
        self.position = len(self._indent) + 2
        return ",\n  "


class _Form(ABC):
    """The conversion of values of a type to words.

    Attributes
    ----------
    is_text : whether a row is one text, which is never broken.
    """

    is_text = False

    def __init__(self, nc_type: NcType, fill: Any) -> None:
        self._type = nc_type
        self._fill = fill

    def prepared(self, block: Values) -> Values:
        """Convert values to the type that netCDF has for them."""
        if block.dtype.kind in "Mm":
            return block.view(np.int64)
        return block.astype(dtype_of(self._type), copy=False)

    @abstractmethod
    def words(self, part: Values) -> list[str]:
        """Return the words of a part of a row; a text is one word."""

    def row_begins(self) -> str:
        return ""

    def row_ends(self) -> str:
        return ""


class _Numbers(_Form):
    def __init__(self, nc_type: NcType, fill: Any, spell: Callable[[Any], str]) -> None:
        super().__init__(nc_type, fill)
        self._spell = spell

    def words(self, part: Values) -> list[str]:
        words = [self._spell(number) for number in part.tolist()]
        if self._type in _FLOATS:
            for i in np.flatnonzero(~np.isfinite(part)).tolist():
                words[i] = data_number(float(part[i]), self._type)
        if self._fill is not None:
            for i in np.flatnonzero(_equals_fill(part, self._fill)).tolist():
                words[i] = "_"
        return words


class _Texts(_Form):
    def prepared(self, block: Values) -> Values:
        return block

    def words(self, part: Values) -> list[str]:
        texts = [_text(value) for value in part.tolist()]
        return ["_" if text == self._fill else quoted(text) for text in texts]


class _Characters(_Form):
    """A row of characters as one text, normally without the NULs at its end."""

    is_text = True

    def __init__(self, nc_type: NcType, fill: Any, *, is_ragged: bool) -> None:
        super().__init__(nc_type, fill)
        self._prints_nuls = is_ragged or fill != b"\0"
        self._nuls = 0

    def row_begins(self) -> str:
        return '"'

    def words(self, part: Values) -> list[str]:
        data = b"\0" * self._nuls + part.tobytes()
        text = data.rstrip(b"\0")
        self._nuls = len(data) - len(text)
        return [quoted_bytes(text)]

    def row_ends(self) -> str:
        nuls, self._nuls = self._nuls, 0
        return ("\\000" * nuls if self._prints_nuls else "") + '"'


_BYTE_ESCAPES = {code: f"\\{code:03o}" for code in range(128, 256)}


def quoted_bytes(text: bytes) -> str:
    """Return characters without surrounding quotes; what is not ASCII is octal, as in ncdump."""
    return quoted(text.decode("latin-1"))[1:-1].translate(_BYTE_ESCAPES)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else ""


def _equals_fill(part: Values, fill: Any) -> Any:
    """Compare with the fill value as in ncdump: floats within an epsilon are equal, as are NaNs."""
    if part.dtype.kind != "f":
        return part == fill
    if np.isnan(fill):
        return np.isnan(part)
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.abs(part - part.dtype.type(fill)) <= np.abs(np.finfo(part.dtype).eps * part)
    return (part == fill) | (near & np.isfinite(part))


def _form_of(printed: PrintedVariable, digits: Digits) -> _Form:
    nc_type = printed.type
    attributes = {attribute.name: attribute for attribute in printed.variable.attributes}
    fill = _fill_of(attributes.get("_FillValue"), nc_type)
    if nc_type is NcType.CHAR:
        return _Characters(nc_type, fill, is_ragged=printed.unlimited[-1:] == (True,))
    if nc_type is NcType.STRING:
        return _Texts(nc_type, fill)
    spell = _c_format(attributes.get("C_format"), nc_type, digits)
    if spell is None and nc_type in _FLOATS:
        spell = f"%.{digits.of(nc_type)}g".__mod__
    return _Numbers(nc_type, fill, spell or str)


def _fill_of(attribute: Attribute | None, nc_type: NcType) -> Any:
    """Return the value that is printed as ``_``; None: there is none."""
    if attribute is not None and attribute.type is nc_type:
        value = attribute.value
        if isinstance(value, str) and len(value) == 1:
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, tuple) and len(value) == 1:
            return value[0]
    return None if nc_type in _NO_DEFAULT_FILL else DEFAULT_FILL[nc_type]


def _c_format(
    attribute: Attribute | None, nc_type: NcType, digits: Digits
) -> Callable[[Any], str] | None:
    """Return the number format of a ``C_format`` attribute, which ``-p`` overrides; None: none."""
    asked = {NcType.FLOAT: digits.float, NcType.DOUBLE: digits.double}.get(nc_type)
    if attribute is None or not isinstance(attribute.value, str) or asked is not None:
        return None
    match = _C_FORMAT.match(attribute.value)
    if match is None or (match[1] is None) != (nc_type in _FLOATS):
        return None
    return attribute.value.__mod__
