"""Chunk grids, and the parts of chunks that a box touches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, product
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np

from nczfs.buffers import Positions
from nczfs.model.boxes import Box, common
from nczfs.plaindata import frozen

ChunkIndex = tuple[int, ...]
Slices = tuple[slice, ...]

Piece: TypeAlias = "tuple[int, slice, slice]"
"""The number of a chunk along a dimension, a range in it, and the same in a longer range."""

_PIECES_MAX = 1 << 16  # along all dimensions of a box, that are worked out before the first one


@frozen
class ChunkPart:
    """The piece of a box that lies in one chunk.

    Attributes
    ----------
    chunk : index of the chunk in the grid.
    source : the piece, counted from the first element of the chunk.
    target : the piece, counted from the first element of the box.
    """

    chunk: ChunkIndex
    source: Box
    target: Box


class ChunkInterval(NamedTuple):
    """A chunk along one dimension.

    Attributes
    ----------
    number : of the chunk.
    start, stop : its first index, and the one behind its last, which may lie beyond the array.
    """

    number: int
    start: int
    stop: int


class Cuts(ABC):
    """How one dimension is cut into chunks, from index 0 on."""

    @property
    @abstractmethod
    def lengths(self) -> Collection[int]:
        """The lengths that chunks have."""

    @property
    @abstractmethod
    def stop(self) -> int | None:
        """The index behind the last chunk; None: there is no last one."""

    @abstractmethod
    def count(self, length: int) -> int:
        """Return the number of chunks that cover a length."""

    @abstractmethod
    def at(self, position: int) -> ChunkInterval:
        """Return the chunk in which an index lies."""

    @abstractmethod
    def place(self, number: int) -> ChunkInterval:
        """Return the chunk with a number."""

    @abstractmethod
    def found(self, positions: Positions) -> tuple[Positions, Positions]:
        """Return the chunks in which indexes lie: their numbers, and the indexes in the chunks."""

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the pieces of a range of indexes, one for each chunk that it touches, in order."""
        position = start
        while position < stop:
            place = self.at(position)
            end, origin = min(stop, place.stop), place.start
            inside = slice(position - origin, end - origin)
            yield place.number, inside, slice(position - start, end - start)
            position = end


@frozen
class EvenCuts(Cuts):
    """Chunks of the same length."""

    length: int

    @property
    def stop(self) -> int | None:
        return None

    @property
    def lengths(self) -> Collection[int]:
        return (self.length,)

    def count(self, length: int) -> int:
        return -(-length // self.length)

    def at(self, position: int) -> ChunkInterval:
        number = position // self.length
        start = number * self.length
        return ChunkInterval(number, start, start + self.length)

    def place(self, number: int) -> ChunkInterval:
        start = number * self.length
        return ChunkInterval(number, start, start + self.length)

    def found(self, positions: Positions) -> tuple[Positions, Positions]:
        numbers, within = np.divmod(positions, self.length)
        return numbers, within

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        position, length = start, self.length
        while position < stop:
            number = position // length
            origin = number * length
            end = min(stop, origin + length)
            yield (
                number,
                slice(position - origin, end - origin),
                slice(position - start, end - start),
            )
            position = end


@frozen(slots=False)
class UnevenCuts(Cuts):
    """Chunks of listed lengths.

    Parameters
    ----------
    runs : lengths of chunks, each at least 1, and how often each is repeated.
    """

    runs: tuple[tuple[int, int], ...]

    @cached_property
    def _numbers(self) -> list[int]:
        """The number of the first chunk of each run, and of the chunk behind the last."""
        return list(accumulate((repeat for _, repeat in self.runs), initial=0))

    @cached_property
    def _starts(self) -> list[int]:
        """The first index of each run, and the one behind the last."""
        return list(accumulate((length * repeat for length, repeat in self.runs), initial=0))

    @property
    def stop(self) -> int | None:
        return self._starts[-1]

    @cached_property
    def lengths(self) -> Collection[int]:
        return {length for length, _ in self.runs} or {1}

    def count(self, length: int) -> int:
        return self.at(length - 1).number + 1 if length else 0

    def at(self, position: int) -> ChunkInterval:
        run = bisect_right(self._starts, position) - 1
        length = self.runs[run][0]
        steps = (position - self._starts[run]) // length
        start = self._starts[run] + steps * length
        return ChunkInterval(self._numbers[run] + steps, start, start + length)

    def place(self, number: int) -> ChunkInterval:
        run = bisect_right(self._numbers, number) - 1
        length = self.runs[run][0]
        start = self._starts[run] + (number - self._numbers[run]) * length
        return ChunkInterval(number, start, start + length)

    def found(self, positions: Positions) -> tuple[Positions, Positions]:
        starts, numbers = np.array(self._starts[:-1]), np.array(self._numbers[:-1])
        lengths = np.array([length for length, _ in self.runs])
        runs = np.searchsorted(starts, positions, side="right") - 1
        steps, within = np.divmod(positions - starts[runs], lengths[runs])
        return numbers[runs] + steps, within


class ChunkGrid(ABC):
    """A grid of chunks from the origin; those at the far edges may extend beyond the array.

    Attributes
    ----------
    shape : of the array.
    chunk_shape : of the largest chunk; each length is at least 1.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]

    @property
    @abstractmethod
    def cuts(self) -> tuple[Cuts, ...]:
        """How each dimension is cut."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """The number of chunks along each dimension; 0 where the array has length 0."""

    @property
    def chunk_count(self) -> int:
        return prod(self.counts)

    @abstractmethod
    def origin(self, chunk: ChunkIndex) -> tuple[int, ...]:
        """Return the index of the first element of a chunk."""

    @abstractmethod
    def extent(self, chunk: ChunkIndex) -> tuple[int, ...]:
        """Return the shape of a chunk, with what lies beyond the edge."""

    def box(self, chunk: ChunkIndex) -> Box:
        """Return the elements of the array in a chunk, without those beyond the edge."""
        start = self.origin(chunk)
        sides = zip(start, self.extent(chunk), self.shape, strict=True)
        return Box(start, tuple([min(a + c, n) for a, c, n in sides]))

    def inside(self, chunk: ChunkIndex) -> Box:
        """Return the same elements as `box`, counted from the first one of the chunk."""
        return self.box(chunk).relative_to(self.origin(chunk))

    def __contains__(self, chunk: ChunkIndex) -> bool:
        return len(chunk) == len(self.shape) and all(
            0 <= i < n for i, n in zip(chunk, self.counts, strict=True)
        )

    def touched(self, box: Box) -> Box:
        """Return the box of all chunks that a non-empty box of elements touches."""
        sides = list(zip(self.cuts, box.start, box.stop, strict=True))
        return Box(
            tuple(cuts.at(start).number for cuts, start, _ in sides),
            tuple(cuts.at(stop - 1).number + 1 for cuts, _, stop in sides),
        )

    def part(self, chunk: ChunkIndex, box: Box) -> ChunkPart:
        """Return the piece of a box in one of the chunks that it touches."""
        piece = common(self.box(chunk), box)
        return ChunkPart(chunk, piece.relative_to(self.origin(chunk)), piece.relative_to(box.start))

    def rows(self) -> Iterator[Box]:
        """Yield the elements of the array by rows of chunks along the first dimension."""
        if not self.shape:
            yield Box((), ())
            return
        if 0 in self.shape:
            return
        length, cuts, start = self.shape[0], self.cuts[0], 0
        while start < length:
            stop = min(cuts.at(start).stop, length)
            yield Box((start, *(0 for _ in self.shape[1:])), (stop, *self.shape[1:]))
            start = stop

    def parts(self, box: Box) -> Iterator[ChunkPart]:
        """Yield the pieces of a box, one for each chunk that it touches, in C order of the grid."""
        for chunk, source, target in self.slices(box):
            yield ChunkPart(chunk, _box_of(source), _box_of(target))

    def slices(self, box: Box) -> Iterator[tuple[ChunkIndex, Slices, Slices]]:
        """Yield the same as `parts`, as indexes of numpy.

        What follows from one dimension is worked out once for all chunks: of a read of 4 KiB that
        crosses sixteen chunks, boxes took three quarters of the time.
        """
        if not self.shape:
            yield (), (), ()
            return
        if not box.size:
            return
        sides = list(zip(box.start, box.stop, self.cuts, strict=True))
        is_long = (
            any(b - a > _PIECES_MAX for a, b, _ in sides)
            and sum(cuts.at(b - 1).number - cuts.at(a).number for a, b, cuts in sides) > _PIECES_MAX
        )
        every = (
            _nested(sides)
            if is_long
            else product(*[list(cuts.pieces(a, b)) for a, b, cuts in sides])
        )
        for pieces in every:
            chunk, source, target = zip(*pieces, strict=True)
            yield chunk, source, target


@frozen(slots=False)
class RegularGrid(ChunkGrid):
    """A grid of equal chunks."""

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]

    @cached_property
    def cuts(self) -> tuple[Cuts, ...]:
        return tuple(map(EvenCuts, self.chunk_shape))

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple([-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True)])

    def origin(self, chunk: ChunkIndex) -> tuple[int, ...]:
        return tuple([i * c for i, c in zip(chunk, self.chunk_shape, strict=True)])

    def extent(self, chunk: ChunkIndex) -> tuple[int, ...]:
        return self.chunk_shape


@frozen(slots=False)
class RectilinearGrid(ChunkGrid):
    """A grid of which each dimension is cut in its own way, up to its end at least.

    Notes
    -----
    Zarr v3, chunk grid ``rectilinear``.
    """

    shape: tuple[int, ...]
    listed: tuple[Cuts, ...]

    @property
    def cuts(self) -> tuple[Cuts, ...]:
        return self.listed

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(max(cuts.lengths) for cuts in self.listed)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        return tuple(cuts.count(n) for cuts, n in zip(self.cuts, self.shape, strict=True))

    def origin(self, chunk: ChunkIndex) -> tuple[int, ...]:
        return tuple(cuts.place(i).start for cuts, i in zip(self.cuts, chunk, strict=True))

    def extent(self, chunk: ChunkIndex) -> tuple[int, ...]:
        places = [cuts.place(i) for cuts, i in zip(self.cuts, chunk, strict=True)]
        return tuple(place.stop - place.start for place in places)


_Side: TypeAlias = "tuple[int, int, Cuts]"


def _nested(sides: Sequence[_Side]) -> Iterator[tuple[Piece, ...]]:
    """Yield the product of the pieces of all sides; a box may have more than memory holds."""
    if not sides:
        yield ()
        return
    start, stop, cuts = sides[0]
    for piece in cuts.pieces(start, stop):
        for others in _nested(sides[1:]):
            yield (piece, *others)


def _box_of(slices: Slices) -> Box:
    return Box(tuple([part.start for part in slices]), tuple([part.stop for part in slices]))
