"""Work on arrays of which few chunks are stored: its cost follows what is stored, not the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import prod
from typing import TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.model.boxes import Box, common, whole
from nczfs.model.grid import ChunkGrid, ChunkIndex, Slices
from nczfs.plaindata import frozen
from nczfs.tools.chunkset import ChunkSet

Reader: TypeAlias = Callable[[Slices], Values]
"""Reads the elements of a box."""

# A box with fewer chunks is read as a whole, and so is one of which more than one chunk in so many
# is stored: the reader of a box asks a far store for 32 chunks at a time.
_CHUNKS_LEAST = 64
_SHARE = 32


def sparse_reader(read: Reader, stored: ChunkSet) -> Reader:
    """Return a reader that asks the store for stored chunks only, wherever there are few of them.

    Parameters
    ----------
    read : reads any box of the array.
    """
    grid = stored.grid

    def read_stored(selection: Slices) -> Values:
        box = box_of(selection)
        chunks = grid.touched(box)
        found = few_within(stored, chunks, chunks.size // _SHARE)
        if chunks.size < _CHUNKS_LEAST or found is None:
            return read(selection)
        hole = common(grid.box(_first_hole(chunks, found)), box)
        element = read(tuple(slice(start, start + 1) for start in hole.start))
        values = np.empty(box.shape, element.dtype)
        values[...] = element
        for chunk in found:
            part = common(grid.box(chunk), box)
            values[part.relative_to(box.start).slices()] = read(part.slices())
        return values

    return read_stored


def few_within(stored: ChunkSet, chunks: Box, most: int) -> list[ChunkIndex] | None:
    """Return the chunks of a box that are in a set, in C order; None if they are more than `most`.

    Parameters
    ----------
    chunks : a box of the grid.
    """
    found = list(islice(stored.within(chunks), most + 1))
    return found if len(found) <= most else None


@frozen
class Blocks:
    """The blocks in which an array is worked on, in C order.

    Attributes
    ----------
    grid : of all blocks.
    touched : those in which anything is stored, which are worked on; None: all.
    """

    grid: ChunkGrid
    touched: ChunkSet | None = None

    @classmethod
    def with_any(cls, grid: ChunkGrid, *sides: ChunkSet) -> Blocks:
        """Return the blocks that have any element in a stored chunk of an array.

        Parameters
        ----------
        grid : of the blocks. An array may be longer.
        sides : the stored chunks of each array.
        """
        touched = ChunkSet(grid)
        everything = whole(grid.shape)
        for stored in sides:
            for chunk in stored:
                for part in grid.parts(common(stored.grid.box(chunk), everything)):
                    touched.add(part.chunk)
        return cls(grid, touched)

    def __iter__(self) -> Iterator[Slices]:
        if not prod(self.grid.shape):
            return iter(())
        chosen: Iterable[ChunkIndex] = (
            whole(self.grid.counts).indexes() if self.touched is None else self.touched
        )
        return (self.grid.box(index).slices() for index in chosen)

    @property
    def size(self) -> int:
        """The number of elements in the blocks that are worked on."""
        if self.touched is None:
            return prod(self.grid.shape)
        return sum(self.grid.box(index).size for index in self.touched)

    @property
    def first_hole(self) -> Slices:
        """The first element, in C order of the blocks, that is in none that is worked on."""
        assert self.touched is not None
        return tuple(slice(i, i + 1) for i in self.grid.origin(next(self.touched.missing())))


def box_of(selection: Slices) -> Box:
    """Return a selection as a box."""
    return Box(tuple(part.start for part in selection), tuple(part.stop for part in selection))


def _first_hole(chunks: Box, found: list[ChunkIndex]) -> ChunkIndex:
    """Return the first chunk of a box that is not among some of them, which are in C order."""
    every = chunks.indexes()
    for other, chunk in zip(found, every, strict=False):
        if chunk != other:
            return chunk
    return next(every)
