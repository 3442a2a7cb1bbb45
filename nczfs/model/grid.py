"""Chunk grids, and the parts of chunks that a box touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from nczfs.model.boxes import Box, common

ChunkIndex = tuple[int, ...]
Slices = tuple[slice, ...]

_PIECES_MAX = 1 << 16  # along all dimensions of a box, that are worked out before the first one


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class RegularGrid:
    """A grid of equal chunks from the origin; those at the far edges extend beyond the array.

    Attributes
    ----------
    shape : of the array.
    chunk_shape : of every chunk; each length is at least 1.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of chunks along each dimension; 0 where the array has length 0."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def chunk_count(self) -> int:
        return prod(self.counts)

    def origin(self, chunk: ChunkIndex) -> tuple[int, ...]:
        """Return the index of the first element of a chunk."""
        return tuple(i * c for i, c in zip(chunk, self.chunk_shape, strict=True))

    def box(self, chunk: ChunkIndex) -> Box:
        """Return the elements of the array in a chunk, without those beyond the edge."""
        start = self.origin(chunk)
        stop = tuple(
            min(a + c, n) for a, c, n in zip(start, self.chunk_shape, self.shape, strict=True)
        )
        return Box(start, stop)

    def __contains__(self, chunk: ChunkIndex) -> bool:
        return len(chunk) == len(self.shape) and all(
            0 <= i < n for i, n in zip(chunk, self.counts, strict=True)
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
        length, chunk = self.shape[0], self.chunk_shape[0]
        for start in range(0, length, chunk):
            stop = min(start + chunk, length)
            yield Box((start, *(0 for _ in self.shape[1:])), (stop, *self.shape[1:]))

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
        sides = list(zip(box.start, box.stop, self.chunk_shape, strict=True))
        is_long = sum((b - a) // c for a, b, c in sides) > _PIECES_MAX
        every = _nested(sides) if is_long else product(*[list(_cut(*side)) for side in sides])
        for pieces in every:
            chunk, source, target = zip(*pieces, strict=True)
            yield chunk, source, target


_Side: TypeAlias = "tuple[int, int, int]"
_Piece: TypeAlias = "tuple[int, slice, slice]"


def _cut(start: int, stop: int, length: int) -> Iterator[_Piece]:
    """Cut a range along a dimension: number of the chunk, range in it, and in the whole range."""
    at = start
    while at < stop:
        number = at // length
        origin = number * length
        end = min(stop, origin + length)
        yield number, slice(at - origin, end - origin), slice(at - start, end - start)
        at = end


def _nested(sides: Sequence[_Side]) -> Iterator[tuple[_Piece, ...]]:
    """Yield the product of the pieces of all sides; a box may have more than memory holds."""
    if not sides:
        yield ()
        return
    for piece in _cut(*sides[0]):
        for others in _nested(sides[1:]):
            yield (piece, *others)


def _box_of(slices: Slices) -> Box:
    return Box(tuple([part.start for part in slices]), tuple([part.stop for part in slices]))
