"""Byte layouts: what every view of array data is.

A layout is an ordered list of segments, each literal bytes or a run of elements in some form
(numbers in a byte order, lines of text). Sizes follow by arithmetic, whatever the data are.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from nczfs.engine.array import Array
from nczfs.engine.loaded import Values
from nczfs.engine.options import Tally
from nczfs.errors import BadValue
from nczfs.model.boxes import boxes_of_run, common
from nczfs.model.dtypes import DataType
from nczfs.model.grid import ChunkIndex

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


class ElementSource(ABC):
    """Elements that are numbered from 0 on."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Of the elements in memory: native byte order."""

    @abstractmethod
    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        """Copy ``len(out)`` elements from `first` on; loads what is missing."""

    @abstractmethod
    def write(self, first: int, values: Values) -> None:
        """Replace ``len(values)`` elements from `first` on, seen at once by every reader."""

    @abstractmethod
    def peek(self, first: int, out: Values, fresh_since: float) -> bool:
        """As `read` from memory alone; False when something is missing. Never blocks."""

    @abstractmethod
    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        """Bytes [start, stop) of the elements, uncopied, None when that cannot be. Never blocks."""

    @abstractmethod
    def request(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        """Have the elements [first, stop) loaded ahead by other threads."""

    @property
    @abstractmethod
    def row_elements(self) -> int:
        """From one row of chunks to the next: what a reader in order needs decoded at a time."""


@dataclass(frozen=True, slots=True)
class ArrayElements(ElementSource):
    """All elements of an array, in C order."""

    array: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.description.dtype.native

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        self.array.read_run(first, out, tally, fresh_since)

    def write(self, first: int, values: Values) -> None:
        self.array.write_run(first, values)

    def peek(self, first: int, out: Values, fresh_since: float) -> bool:
        return self.array.peek_run(first, out, fresh_since)

    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        return self.array.peek_bytes(start, stop, fresh_since)

    def request(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        self.array.request_run(first, stop, tally, fresh_since)

    @property
    def row_elements(self) -> int:
        return self.array.row_elements


@dataclass(frozen=True, slots=True)
class ChunkElements(ElementSource):
    """All elements of one chunk in C order, filler beyond the edge of the array included."""

    array: Array
    chunk: ChunkIndex

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.description.dtype.native

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        with self.array.chunk(self.chunk, tally, fresh_since) as values:
            out[...] = values.reshape(-1)[first : first + len(out)]

    def write(self, first: int, values: Values) -> None:
        """Filler is taken and ignored."""
        grid = self.array.description.grid
        origin = grid.origin(self.chunk)
        inside = grid.box(self.chunk).relative_to(origin)
        position = 0
        for box in boxes_of_run(first, len(values), self.array.description.chunk_shape):
            given = values[position : position + box.size].reshape(box.shape)
            position += box.size
            kept = common(box, inside)
            if kept.size:
                index: tuple[Any, ...] = (*kept.relative_to(box.start).slices(), ...)
                self.array.write_box(kept.relative_to(tuple(-n for n in origin)), given[index])

    def peek(self, first: int, out: Values, fresh_since: float) -> bool:
        values = self.array.peek_chunk(self.chunk, fresh_since)
        if values is None:
            return False
        out[...] = values.reshape(-1)[first : first + len(out)]
        return True

    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        values = self.array.peek_chunk(self.chunk, fresh_since)
        if values is None or not values.flags.c_contiguous:
            return None
        return [values.reshape(-1).view(np.uint8).data[start:stop]]

    def request(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        self.array.request(self.chunk, tally, fresh_since)

    @property
    def row_elements(self) -> int:
        return 1


class Form(ABC):
    """How an element becomes bytes; every element the same number of them."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bytes of one element."""

    @property
    @abstractmethod
    def is_native(self) -> bool:
        """Whether the bytes are those of the element in memory."""

    @abstractmethod
    def render(self, values: Values) -> Buffer:
        """The bytes of a one-dimensional array of elements."""

    @abstractmethod
    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        """The elements, of type `dtype`, that the bytes of whole elements stand for.

        Raises
        ------
        BadValue : there are none.
        """

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether the bytes of an element represent it completely; reading them restores it."""

    @abstractmethod
    def told(self, values: Values) -> Flags:
        """Which elements can be restored from their bytes."""


@dataclass(frozen=True, slots=True)
class NativeForm(Form):
    """Elements as they are in memory."""

    item_size: int

    @property
    def width(self) -> int:
        return self.item_size

    @property
    def is_native(self) -> bool:
        return True

    def render(self, values: Values) -> Buffer:
        return values.view(np.uint8).data

    def parse(self, data: Buffer, dtype: np.dtype[Any]) -> Values:
        # Neither codecs nor numpy's own views take elements at odd addresses.
        values = np.require(np.frombuffer(data, dtype), requirements="A")
        if dtype.kind == "b" and (values.view(np.uint8) > 1).any():
            raise BadValue("a bool is the byte 0 or 1")
        if dtype.kind == "U" and (values.view(np.uint32) > sys.maxunicode).any():
            raise BadValue("four bytes are not a Unicode character")
        return values

    @property
    def is_exact(self) -> bool:
        return True

    def told(self, values: Values) -> Flags:
        return np.ones(len(values), bool)


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes that do not come from an array."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Run:
    """The elements [first, first + count) of a source, one after the other."""

    source: ElementSource
    form: Form
    first: int
    count: int

    @property
    def size(self) -> int:
        return self.count * self.form.width


Segment: TypeAlias = "Literal | Run"


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, stop) of one segment."""

    segment: Segment
    start: int
    stop: int


class Layout:
    """Segments one behind the other. Immutable."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segment for segment in segments if segment.size)
        ends = list(accumulate((segment.size for segment in self.segments), initial=0))
        self._starts = ends[:-1]
        self.size = ends[-1]

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """What the bytes [start, stop) are made of, in order; cut at the end of the layout."""
        stop = min(stop, self.size)
        if start >= stop:
            return
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            segment, begin = self.segments[number], self._starts[number]
            end = min(begin + segment.size, stop)
            yield Piece(segment, start - begin, end - begin)
            start = end
            number += 1


def native_run(source: ElementSource, dtype: DataType, count: int) -> Run:
    """All elements of a source as they are in memory."""
    return Run(source, NativeForm(dtype.item_size), 0, count)
