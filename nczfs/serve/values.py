"""The selected values of a variable in C order, in blocks of a bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from math import prod
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays.array import Array
from nczfs.engine.arrays.selection import Selection
from nczfs.engine.options import Tally
from nczfs.model.grid import ChunkGrid

AHEAD_MAX = 64  # chunks
OBJECTS_MAX = 4096
"""Elements of variable length in a block: nothing tells how long they are."""


def value_blocks(
    array: Array,
    ranges: Sequence[range],
    fresh_since: float,
    block_bytes: int,
    dtype: np.dtype[Any] | None = None,
) -> Iterator[Values]:
    """Yield the selected elements, one-dimensional.

    Another thread works on the next block while one is read. A block of whole chunks is decoded
    into its own memory. Otherwise the chunks of the next block are requested before a block is
    read, so that they stay in the cache: a chunk that several blocks touch is decoded once, as long
    as the cache has room for a row of chunks.

    Parameters
    ----------
    fresh_since : chunks that were last confirmed before that time are confirmed again.
    block_bytes : of a block; one of elements of variable length has up to `OBJECTS_MAX`.
    dtype : of the blocks: the native one, or that in another byte order, which costs less than to
        change it afterwards; None: the native one.

    Raises
    ------
    CodecError, MissingChunk, StructureChanged, StoreError.
    """
    dtype = dtype or array.description.dtype.native
    tally = Tally()
    count = OBJECTS_MAX if dtype.hasobject else max(1, block_bytes // max(1, dtype.itemsize))
    selections = block_selections(ranges, array.description.chunk_shape, count)
    blocks = (_Block(array, selection, dtype, tally, fresh_since) for selection in selections)
    following = next(blocks, None)
    while following is not None:
        block, following = following, next(blocks, None)
        if following is not None:
            following.begin()
        yield block.read()


class _Block:
    """Selected elements that are read together."""

    def __init__(
        self,
        array: Array,
        selection: Selection,
        dtype: np.dtype[Any],
        tally: Tally,
        fresh_since: float,
    ) -> None:
        self._array = array
        self._selection = selection
        self._dtype = dtype
        self._tally = tally
        self._fresh_since = fresh_since
        self._is_whole = _is_whole(selection, array.description.grid)
        self._begun: tuple[Values, Future[None]] | None = None

    def begin(self) -> None:
        """Let other threads work on it; several chunks near by are divided when they are read."""
        array, grid = self._array, self._array.description.grid
        if self._is_whole and not array.far:
            if len(self._selection.by_chunk(grid)) == 1:
                values = np.empty(self._selection.shape, self._dtype)
                begun = array.begin_selection(
                    self._selection, values, self._tally, self._fresh_since
                )
                self._begun = values, begun
        elif not array.source.is_grouped:
            for part in itertools.islice(self._selection.by_chunk(grid), AHEAD_MAX):
                array.request(part.chunk, self._tally, self._fresh_since)

    def read(self) -> Values:
        """Return the elements, one-dimensional."""
        if self._begun is not None:
            values, begun = self._begun
            begun.result()
            return values.reshape(-1)
        values = np.empty(self._selection.shape, self._dtype)
        if self._is_whole or (box := self._selection.box) is None:
            self._array.read_selection(self._selection, values, self._tally, self._fresh_since)
        else:
            self._array.read_box(box, values, self._tally, self._fresh_since)
        return values.reshape(-1)


def _is_whole(selection: Selection, grid: ChunkGrid) -> bool:
    """Return whether a selection is a box of whole chunks, which need not be kept in memory."""
    box = selection.box
    return box is not None and all(
        cuts.at(start).start == start and (stop == length or cuts.at(stop).start == stop)
        for start, stop, length, cuts in zip(
            box.start, box.stop, grid.shape, grid.cuts, strict=True
        )
    )


def block_selections(
    ranges: Sequence[range], chunks: Sequence[int], elements: int
) -> Iterator[Selection]:
    """Split a selection, in C order, into selections of at most so many elements.

    Where a block has room for several chunks along the dimension that it divides, it ends where a
    chunk ends.
    """
    shape = [len(positions) for positions in ranges]
    if not prod(shape):
        return
    axis = 0
    while axis < len(shape) - 1 and prod(shape[axis + 1 :]) > elements:
        axis += 1
    if not shape:
        yield Selection(())
        return
    count = max(1, elements // prod(shape[axis + 1 :]))
    divided, rest = ranges[axis], tuple(ranges[axis + 1 :])
    for above in itertools.product(*ranges[:axis]):
        before = tuple(range(position, position + 1) for position in above)
        start = 0
        while start < len(divided):
            stop = _stop(divided, start, min(start + count, len(divided)), chunks[axis])
            yield Selection((*before, divided[start:stop], *rest))
            start = stop


def _stop(positions: range, start: int, stop: int, chunk: int) -> int:
    """Return where a block ends: with a whole chunk, if one ends within the block."""
    if stop == len(positions):
        return stop
    edge = positions[stop] // chunk * chunk  # where the chunk of the next position begins
    count = -(-(edge - positions.start) // positions.step)
    return count if count > start else stop
