"""How a variable is cut finely enough for all threads of a cluster to have work."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from nczfs.plaindata import frozen

PIECES_PER_THREAD = 4
"""A piece that takes longer than others, or is begun last, then delays the end little."""

TIMES_MAX = 4
"""So that idle threads have work, a chunk of the source is decoded so often, and no more.

Each of n pieces that need all of the source decodes all of it, and encodes one n-th of the copy.
The first cuts are therefore the ones that pay.
"""


@frozen
class Cut:
    """An array that is cut into blocks.

    Attributes
    ----------
    shape : of the array.
    chunk : of the source.
    unit : of the target, of which each block is whole ones.
    block : the shape of the blocks.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    unit: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of blocks."""
        return prod(-(-n // b) for n, b in zip(self.shape, self.block, strict=True))

    @property
    def times(self) -> float:
        """How often a chunk of the source is decoded on average."""
        return times_touched(self.shape, self.chunk, self.block)

    def halves(self) -> list[Cut]:
        """Return the cuts into about twice as many blocks, one for each dimension."""
        found = []
        for d, (length, unit) in enumerate(zip(self.block, self.unit, strict=True)):
            units = -(-length // unit)
            if units > 1:
                half = (units + 1) // 2 * unit
                block = (*self.block[:d], half, *self.block[d + 1 :])
                found.append(Cut(self.shape, self.chunk, self.unit, block))
        return found


def shared(cut: Cut, threads: float) -> Cut:
    """Cut blocks further, so that threads have `PIECES_PER_THREAD` of them each.

    If chunks of the source are decoded more often for it, then only into one block for each
    thread, and as far as `TIMES_MAX` allows.

    Parameters
    ----------
    threads : that work on this array; less than 1 if there are many arrays for each thread.
    """
    while cut.count < PIECES_PER_THREAD * threads:
        halves = cut.halves()
        if not halves:
            break
        best = min(halves, key=lambda each: each.times)
        is_free = best.times <= cut.times
        is_worth_it = best.count <= threads and best.times <= TIMES_MAX
        if not (is_free or is_worth_it):
            break
        cut = best
    return cut


def times_touched(shape: Sequence[int], chunk: Sequence[int], block: Sequence[int]) -> float:
    """Return how often a chunk is touched on average if an array is cut into blocks."""
    found = 1.0
    for length, c, b in zip(shape, chunk, block, strict=True):
        chunks, blocks = -(-length // c), -(-length // b)
        shared_ends = (length - 1) // (c * b // gcd(c, b))
        found *= (chunks + blocks - 1 - shared_ends) / chunks
    return found
