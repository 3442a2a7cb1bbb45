"""The boxes in which an array is read and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from nczfs.model.grid import Slices
from nczfs.plaindata import frozen
from nczfs.tools.transfer.source import STRING_BYTES

BLOCK_SHARE = 4  # one byte in so many of the memory limit is for values on their way
CACHE_SHARE = 8  # and so many for the chunk cache of the netCDF library
BLOCK_BYTES = 16 << 20
"""The usual size of a block.

Larger blocks were not faster (500 MB of netCDF-4 to a directory: 16, 64 and 512 MiB took the same
time within 3 %), and after each block the progress bar moves and signals are noticed.
"""


@frozen
class BlockSize:
    """The number of elements in a block.

    Attributes
    ----------
    usual : of a block that need not be larger.
    most : if the chunks of source and target cross each other, so that each chunk of the source is
        decoded as few times as possible.
    """

    usual: int
    most: int


@frozen
class Shapes:
    """The shapes of what a target stores.

    Attributes
    ----------
    chunk : what is encoded as a whole.
    unit : whole chunks that are stored as one object.
    """

    chunk: Sequence[int]
    unit: Sequence[int]

    def pieces(self, selection: Slices, elements_max: int) -> Iterator[Slices]:
        """Cut a box at the start of units into `pieces` of units, and larger units into chunks."""
        for piece in pieces(selection, self.unit, elements_max):
            yield from pieces(piece, self.chunk, elements_max)


def block_size(
    memory_limit_bytes: int, dtype: np.dtype[Any], string_bytes: int | None
) -> BlockSize:
    """Return the size of blocks of a type within a memory limit.

    Parameters
    ----------
    string_bytes : of a string; None: unknown. Then a block is no larger than it has to be: a chunk
        of strings fits into memory, and no more is known of them.
    """
    item = max(1, dtype.itemsize)
    if dtype.hasobject:
        if string_bytes is None:
            return BlockSize(1, 1)
        # A string takes a Python object, an element of four bytes a character, and its stored
        # bytes.
        item = STRING_BYTES + 5 * string_bytes
    most = max(1, memory_limit_bytes // BLOCK_SHARE // item)
    return BlockSize(max(1, min(most, BLOCK_BYTES // item)), most)


def blocks(
    shape: Sequence[int], unit: Sequence[int], wish: Sequence[int], size: BlockSize
) -> Iterator[Slices]:
    """Cut an array into equal boxes of whole `unit`s, in C order; see `block_shape`."""
    if not prod(shape):
        return
    block = block_shape(shape, unit, wish, size)
    yield from aligned(tuple(slice(0, n) for n in shape), block)


def block_shape(
    shape: Sequence[int], unit: Sequence[int], wish: Sequence[int], size: BlockSize
) -> tuple[int, ...]:
    """Return the shape of a block that is whole units in every dimension.

    It has at least one unit. It grows, the fastest dimension first, until it covers a box of the
    shape `wish`, as far as `size.most` allows, and then until it covers everything, as far as
    `size.usual` allows.
    """
    block = [min(u, n) for u, n in zip(unit, shape, strict=True)]
    for goal, elements_max in ((wish, size.most), (shape, size.usual)):
        for d in reversed(range(len(shape))):
            others = prod(block) // block[d]
            room = elements_max // others // unit[d]
            steps = min(-(-min(goal[d], shape[d]) // unit[d]), room)
            block[d] = min(shape[d], max(block[d], steps * unit[d]))
    return tuple(block)


def pieces(selection: Slices, unit: Sequence[int], elements_max: int) -> Iterator[Slices]:
    """Cut a box at the start of units into boxes of at most so many elements, or one unit."""
    lengths = [part.stop - part.start for part in selection]
    if prod(lengths) <= elements_max:
        yield selection
        return
    step = block_shape(lengths, unit, unit, BlockSize(elements_max, elements_max))
    yield from aligned(selection, [-(-s // u) * u for s, u in zip(step, unit, strict=True)])


def aligned(selection: Slices, step: Sequence[int]) -> Iterator[Slices]:
    """Cut a box at all multiples of `step`, counted from the origin of the array.

    The pieces come in C order, one at a time: a box may have more of them than memory holds.
    """
    if not selection:
        yield ()
        return
    part, length = selection[0], step[0]
    for at in range(part.start // length * length, part.stop, length):
        here = slice(max(at, part.start), min(at + length, part.stop))
        for rest in aligned(selection[1:], step[1:]):
            yield (here, *rest)
