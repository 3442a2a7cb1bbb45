"""Sources of elements for the runs of a layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays.array import Array
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import Tally
from nczfs.engine.readahead.prefetch import (
    FAR_FIRST_AHEAD_BYTES,
    FIRST_AHEAD_BYTES,
    NOT_AHEAD,
    AheadOptions,
)
from nczfs.engine.readahead.sequence import MIB
from nczfs.model.boxes import boxes_of_run, common
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen

WINDOW_BYTES = 4 * MIB
WINDOWS_AHEAD_BYTES = 12 * MIB
STEP_CHUNKS = 1024  # of one element each: 0.1 s; a window of 4 MiB may have a million of them
ROWS_AHEAD_BYTES = 24 * MIB  # more has no effect with a disk
FAR_ROWS_AHEAD_BYTES = 64 * MIB


class ElementSource(ABC):
    """A source of elements that are numbered from 0."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements in memory, in native byte order."""

    @property
    @abstractmethod
    def stored(self) -> StoredArray:
        """The array that the elements come from."""

    @abstractmethod
    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        """Copy ``len(out)`` elements from `first` on; loads what is missing."""

    @abstractmethod
    def write(self, first: int, values: Values) -> None:
        """Replace ``len(values)`` elements from `first` on, seen at once by every reader."""

    @abstractmethod
    def peek(self, first: int, out: Values, fresh_since: float) -> bool:
        """Read from memory only. Returns False if something is missing. Never blocks."""

    @abstractmethod
    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        """Return bytes [start, stop) of the elements, uncopied, or None. Never blocks."""

    @abstractmethod
    def request(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        """Let other threads load the elements [first, stop) ahead."""

    @abstractmethod
    def ahead(self, width: int, room: int, *, uncopied: bool) -> AheadOptions:
        """Return how to read ahead a file that shows the elements in order.

        Parameters
        ----------
        width : bytes of an element in the file.
        room : bytes of memory that reading ahead may take.
        uncopied : whether the bytes of the file are those in memory.
        """

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """The lengths that tell which element has a number: all but the first one."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The variable, for messages and the access log."""

    @abstractmethod
    def box(self, first: int, stop: int) -> str:
        """Return the smallest box with the elements [first, stop), for the access log."""

    @abstractmethod
    def axis(self, step: int) -> str | None:
        """Return the dimension along which two elements are `step` apart."""


ElementsOf: TypeAlias = Callable[[Variable], ElementSource]
"""Gives the elements of a variable."""


@frozen(eq=False)
class _VariableElements(ElementSource):
    """Elements of a variable."""

    array: Array
    variable: Variable

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.description.dtype.native

    @property
    def stored(self) -> StoredArray:
        return self.array.stored

    @property
    def name(self) -> str:
        return self.variable.name


@frozen(eq=False)
class ArrayElements(_VariableElements):
    """All elements of a variable, in C order."""

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.array.description.shape[1:]

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

    def ahead(self, width: int, room: int, *, uncopied: bool) -> AheadOptions:
        """Return how to read ahead: if a chunk is a run of the file, decoded chunks answer reads.

        Otherwise at least one row of chunks beyond the current one is needed, and threads assemble
        the bytes in windows.
        """
        array = self.array
        first = FAR_FIRST_AHEAD_BYTES if array.far else FIRST_AHEAD_BYTES
        if array.chunks_are_runs and uncopied:
            rows = FAR_ROWS_AHEAD_BYTES if array.far else ROWS_AHEAD_BYTES
            hint = min(max(rows, 2 * array.description.chunk_bytes), room)
            return AheadOptions(0, 0, hint, first, array.description.chunk_bytes)
        return AheadOptions(
            window_bytes=WINDOW_BYTES if room >= 2 * WINDOW_BYTES else 0,
            ahead_bytes=min(WINDOWS_AHEAD_BYTES, room),
            hint_bytes=min(max(2 * array.row_elements * width, 2 * WINDOWS_AHEAD_BYTES), room),
            first_bytes=first,
            place_bytes=array.description.chunk_bytes,
            step_bytes=min(STEP_CHUNKS * array.description.chunk_bytes, WINDOW_BYTES),
        )

    def box(self, first: int, stop: int) -> str:
        return _box_text(first, stop, self.array.description.shape)

    def axis(self, step: int) -> str | None:
        stride = 1
        for dimension, size in zip(
            reversed(self.variable.dimensions), reversed(self.array.description.shape), strict=True
        ):
            if stride <= abs(step) < stride * max(1, size):
                return dimension.name
            stride *= max(1, size)
        return None


@frozen(eq=False)
class ChunkElements(_VariableElements):
    """All elements of one chunk in C order, including filler beyond the edge of the array."""

    chunk: ChunkIndex

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.array.description.grid.extent(self.chunk)[1:]

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        with self.array.chunk(self.chunk, tally, fresh_since) as values:
            out[...] = values.reshape(-1)[first : first + len(out)]

    def write(self, first: int, values: Values) -> None:
        """Replace the elements; filler is accepted and ignored."""
        grid = self.array.description.grid
        origin = grid.origin(self.chunk)
        inside = grid.box(self.chunk).relative_to(origin)
        position = 0
        for box in boxes_of_run(first, len(values), grid.extent(self.chunk)):
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

    def ahead(self, width: int, room: int, *, uncopied: bool) -> AheadOptions:
        return NOT_AHEAD  # the first read loads everything

    def box(self, first: int, stop: int) -> str:
        return _box_text(first, stop, self.array.description.grid.extent(self.chunk))

    def axis(self, step: int) -> str | None:
        return None


class Span(NamedTuple):
    """The elements [first, stop) of a source."""

    source: ElementSource
    first: int
    stop: int


@frozen
class WrittenElements:
    """Elements that some bytes represent, and their place."""

    source: ElementSource
    first: int
    values: Values

    def write(self) -> None:
        """Write the elements to their place."""
        self.source.write(self.first, self.values)


def _box_text(first: int, stop: int, shape: tuple[int, ...]) -> str:
    boxes = list(boxes_of_run(first, stop - first, shape))
    bounds = (
        (min(box.start[d] for box in boxes), max(box.stop[d] for box in boxes))
        for d in range(len(shape))
    )
    return "[" + ",".join(f"{a}:{b}" for a, b in bounds) + "]"
