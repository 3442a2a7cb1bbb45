"""The constants of a CDL data list while it is read: rows of numbers, texts or characters.

Most data are plain: a row takes as many constants at once as one regular expression matches, and
NumPy converts them to numbers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.cdl.constants import Constant, Item, Marker, converted, text_of, wrapped
from nczfs.cdl.tokens import Scanner, decoded, unquoted
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType

# Most data: numbers without suffixes, NaN and infinities, and the filler, each with its comma. Up
# to 18 digits are in the range of 64 bits, and a leading 0 can mean octal.
_REAL = rb"_|[+-]?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_BLANK = rb"[ \t\r\n\f]*+"
_INTEGERS = re.compile(
    rb"(?>(?:" + _BLANK + rb"(?:_|[+-]?(?:0|[1-9][0-9]{0,17}+))" + _BLANK + rb",){8,65536})"
)
_REALS = re.compile(
    rb"(?>(?:" + _BLANK + rb"(?:" + _REAL + rb"|NaNf?|-?Infinityf?)" + _BLANK + rb",){8,65536})"
)

_TEXT = re.compile(_BLANK + rb'("(?:[^"\\]++|\\(?s:.))*+")' + _BLANK + rb",")


def dtype_of(nc_type: NcType) -> np.dtype[Any]:
    """Return the numpy dtype for values of a type: S1 for CHAR, object (str) for STRING."""
    if nc_type is NcType.CHAR:
        return np.dtype("S1")
    return np.dtype(object if nc_type is NcType.STRING else CODE_OF_NC_TYPE[nc_type])


class Leaf(ABC):
    """Constants in a row, without braces between them."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of elements."""

    @abstractmethod
    def values(self, fill: Any) -> Values:
        """Return the elements."""

    @abstractmethod
    def take_run(self, scanner: Scanner) -> bool:
        """Take as many constants as can be read at once, each with its comma; False: none."""

    @abstractmethod
    def add(self, item: Item) -> None:
        """Append a constant. Raises Misfit if it does not fit the type."""


class NumberLeaf(Leaf):
    """Numbers of one type."""

    def __init__(self, nc_type: NcType) -> None:
        self._type = nc_type
        self._dtype = dtype_of(nc_type)
        self._run = _REALS if self._dtype.kind == "f" else _INTEGERS
        self._pieces: list[Values] = []
        self._single: list[float] = []
        self._fillers: list[Values] = []
        self._single_fillers: list[int] = []
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def values(self, fill: Any) -> Values:
        self._end_singles()
        values = np.concatenate([np.empty(0, self._dtype), *self._pieces])
        values[self._single_fillers] = fill
        for places in self._fillers:
            values[places] = fill
        return values

    def add(self, item: Item) -> None:
        if item is Marker.FILL:
            self._single_fillers.append(self._count)
            self._single.append(0)
        else:
            self._single.append(converted(item, self._type))
        self._count += 1

    def take_run(self, scanner: Scanner) -> bool:
        match = self._run.match(scanner.text, scanner.token.start)
        if match is None:
            return False
        text = match[0]
        if b"_" in text:
            characters = np.frombuffer(text, np.uint8)
            commas = np.cumsum(characters == ord(","))
            self._fillers.append(commas[characters == ord("_")] + self._count)
            text = text.replace(b"_", b"0")
        self._end_singles()
        if self._run is _REALS:
            text = text.replace(b"NaNf", b"NaN").replace(b"yf", b"y")
        numbers = np.fromstring(text, np.float64 if self._run is _REALS else np.int64, sep=",")
        assert numbers.size == text.count(b",")
        self._pieces.append(self._in_type(numbers))
        self._count += numbers.size
        scanner.go_on(match.end())
        return True

    def _in_type(self, numbers: Values) -> Values:
        if self._run is _INTEGERS:
            # An integer may be a bit pattern, too: 255 as a byte. Anything else is refused.
            for extreme in (int(numbers.min()), int(numbers.max())):
                wrapped(extreme, self._type)
        with np.errstate(over="ignore"):
            return numbers.astype(self._dtype)

    def _end_singles(self) -> None:
        if self._single:
            self._pieces.append(np.array(self._single, self._dtype))
            self._single = []


class TextLeaf(Leaf):
    """Texts of variable length."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._fillers: list[int] = []

    @property
    def count(self) -> int:
        return len(self._texts)

    def values(self, fill: Any) -> Values:
        values = np.empty(len(self._texts), object)
        values[:] = self._texts
        values[self._fillers] = fill
        return values

    def add(self, item: Item) -> None:
        if item is Marker.FILL:
            self._fillers.append(len(self._texts))
        # ncgen's NIL is a null pointer, which Zarr does not have.
        empty = isinstance(item, Marker)
        self._texts.append("" if empty else decoded(text_of(item)))

    def take_run(self, scanner: Scanner) -> bool:
        texts = _texts_of_run(scanner)
        self._texts += map(decoded, texts)
        return bool(texts)


class CharLeaf(Leaf):
    """Characters, as texts that each begin a row.

    Parameters
    ----------
    row : the length of the last dimension; a text is padded to a multiple of it, and an empty text
        is a row of filler. None: texts follow one another without gaps.
    """

    def __init__(self, row: int | None) -> None:
        self._row = row or 1
        self._rows_least = 0 if row is None else 1
        self._texts: list[bytes] = []
        self._fillers: list[int] = []
        self._characters = bytearray()
        self._rows = 0

    @property
    def count(self) -> int:
        pending = self._rows_of(self._characters) if self._characters else 0
        return (self._rows + pending) * self._row

    def add(self, item: Item) -> None:
        if isinstance(item, Constant) and not isinstance(item.value, bytes):
            # Consecutive characters are one text: 'a', 'b' is "ab".
            self._characters += text_of(item)
            return
        self._end_characters()
        if item is Marker.FILL:
            self._fillers.append(self._rows * self._row)
            self._append(b"\0")
        else:
            self._append(text_of(item))

    def take_run(self, scanner: Scanner) -> bool:
        texts = _texts_of_run(scanner)
        if texts:
            self._end_characters()
        for text in texts:
            self._append(text)
        return bool(texts)

    def values(self, fill: Any) -> Values:
        self._end_characters()
        row = self._row
        values = np.frombuffer(
            bytearray().join(text.ljust(self._rows_of(text) * row, fill) for text in self._texts),
            "S1",
        )
        values[self._fillers] = fill
        return values

    def _end_characters(self) -> None:
        if self._characters:
            self._append(bytes(self._characters))
            self._characters.clear()

    def _append(self, text: bytes) -> None:
        self._texts.append(text)
        self._rows += self._rows_of(text)

    def _rows_of(self, text: bytes | bytearray) -> int:
        return max(self._rows_least, -(-len(text) // self._row))


def _texts_of_run(scanner: Scanner) -> list[bytes]:
    """Take texts, each with its comma."""
    found: list[bytes] = []
    start = scanner.token.start
    while (match := _TEXT.match(scanner.text, start)) is not None:
        found.append(unquoted(match[1]))
        start = match.end()
    if found:
        scanner.go_on(start)
    return found
