"""Chunk grids, and the parts of chunks that a box touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from nczfs.model.boxes import Box, common

ChunkIndex = tuple[int, ...]


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
        if box.size == 0:
            return
        ranges = (
            range(a // c, (b - 1) // c + 1)
            for a, b, c in zip(box.start, box.stop, self.chunk_shape, strict=True)
        )
        for chunk in product(*ranges):
            origin = self.origin(chunk)
            start = tuple(max(a, o) for a, o in zip(box.start, origin, strict=True))
            stop = tuple(
                min(b, o + c) for b, o, c in zip(box.stop, origin, self.chunk_shape, strict=True)
            )
            piece = Box(start, stop)
            yield ChunkPart(chunk, piece.relative_to(origin), piece.relative_to(box.start))
