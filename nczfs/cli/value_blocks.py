"""The values of a variable in C order, in blocks that fit into memory, small ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays.selection import Axis, select
from nczfs.library.variable import Variable
from nczfs.model.boxes import whole
from nczfs.plaindata import frozen

FIRST_BYTES = 1 << 20  # small, to print something soon; each block is twice the one before
BLOCK_BYTES = 64 << 20
_OBJECT_BYTES = 64  # of an object in memory, besides its contents

_Box = tuple[tuple[int, ...], int, int]


@frozen
class Block:
    """Some of the selected values.

    Attributes
    ----------
    values : the elements as nested lists, or, with `is_item`, one element.
    begins, ends : how many of the selection's lists begin with the first value and end with the
        last.
    """

    values: Values
    begins: int
    ends: int
    is_item: bool


def value_blocks(variable: Variable, box: tuple[object, ...]) -> Iterator[Block]:
    """Yield the selected values, block after block.

    Parameters
    ----------
    box : integers, slices with any step, an ellipsis.

    Raises
    ------
    BadSelection, CodecError, StoreError.
    """
    selection = select(box, variable.shape)
    axes = zip(selection.axes, range(len(selection.axes)), strict=True)
    ranges = [_positions(axis, turned=d in selection.flipped) for axis, d in axes]
    kept = [d not in selection.dropped for d in range(len(ranges))]
    shape = selection.shape
    chunks = [max(1, c // abs(r.step)) for c, r in zip(variable.chunks, ranges, strict=True)]
    array = variable.description.array
    item = max(1, array.dtype.item_size) + _OBJECT_BYTES * variable.dtype.hasobject
    # Nothing is known of elements of variable length but that a chunk of them fits into memory.
    most = prod(array.chunk_shape) if array.dtype.vlen is not None else BLOCK_BYTES
    for before, start, stop in _boxes(shape, chunks, item, most):
        d = len(before)
        index: list[int | slice] = [r[i] for r, i in zip(ranges, before, strict=False)]
        if d < len(ranges):
            rest = [ranges[d][start:stop], *ranges[d + 1 :]]
            index += [_slice(r) if k else r[0] for r, k in zip(rest, kept[d:], strict=True)]
        values = np.asarray(variable[tuple(index)])
        at_first = [i == 0 for i in before] + [start == 0]
        at_last = [i == n - 1 for i, n in zip(before, shape, strict=False)]
        at_last += [d == len(shape) or stop == shape[d]]
        yield Block(
            values, _edges(at_first, kept), _edges(at_last, kept), d == len(shape) or not kept[d]
        )


def _boxes(shape: Sequence[int], chunks: Sequence[int], item: int, most: int) -> Iterator[_Box]:
    """Yield boxes: indices of the first dimensions, a range of the next one, all of the others.

    Parameters
    ----------
    item : bytes of an element.
    most : number of elements of a box.
    """
    if not prod(shape):
        return
    if not shape:
        yield (), 0, 1
        return
    last = len(shape) - 1
    room = min(most, BLOCK_BYTES // item)
    d = next((d for d in range(last) if prod(shape[d + 1 :]) <= room), last)
    row = prod(shape[d + 1 :])
    budget = FIRST_BYTES
    for before in whole(tuple(shape[:d])).indexes():
        start = 0
        while start < shape[d]:
            stop = start + max(1, min(most, budget // item) // row)
            whole_chunks = stop // chunks[d] * chunks[d]
            stop = min(whole_chunks if whole_chunks > start else stop, shape[d])
            yield before, start, stop
            start = stop
            budget = min(2 * budget, BLOCK_BYTES)


def _edges(at_edge: Sequence[bool], kept: Sequence[bool]) -> int:
    """Count the lists that begin, or end, at a place at the edge of some dimensions."""
    count = 0
    for edge, is_list in reversed(list(zip(at_edge, kept, strict=False))):
        if not edge:
            break
        count += is_list
    return count


def _positions(axis: Axis, *, turned: bool) -> range:
    """Return the selected positions along a dimension, in the requested order."""
    assert isinstance(axis, range)
    return axis[::-1] if turned else axis


def _slice(positions: range) -> slice:
    stop = positions.stop if positions.stop >= 0 else None
    return slice(positions.start, stop, positions.step)
