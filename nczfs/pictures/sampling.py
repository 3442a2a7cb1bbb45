"""Which elements of a long dimension are drawn, so that few chunks are read."""

from __future__ import annotations

from math import log

import numpy as np

from nczfs.buffers import Positions
from nczfs.model.grid import Cuts


def positions(axis: range, cuts: Cuts, *, count_max: int, chunks_max: int) -> Positions:
    """Return positions along a dimension, evenly spread, that lie in few chunks.

    Parameters
    ----------
    axis : an ascending range of positions, not empty.
    cuts : how the dimension is cut into chunks.
    count_max, chunks_max : at most so many positions, in so many chunks; each at least 1.

    Returns
    -------
    positions, ascending. Without the bound of chunks, they are the first, the last, and others at
    even distances between them; of the chunks in which these lie, evenly spread ones are kept.
    """
    spread = np.array([axis[i] for i in _evenly(len(axis), count_max)], np.int64)
    numbers, _ = cuts.found(spread)
    met = np.unique(numbers)
    if len(met) <= chunks_max:
        return spread
    kept = met[list(_evenly(len(met), chunks_max))]
    found: Positions = spread[np.isin(numbers, kept)]
    return found


def shares(counts: tuple[int, int], chunks_max: int) -> tuple[int, int]:
    """Return how many chunks to read along two dimensions, at most `chunks_max` in all.

    Parameters
    ----------
    counts : chunks along each; the shares are in about the same proportion, if they must be fewer.
    """
    rows, columns = counts
    if rows * columns <= chunks_max:
        return counts
    best, most = (1, 1), -1.0
    for down in range(1, min(rows, chunks_max) + 1):
        across = min(columns, chunks_max // down)
        worth = log(down * across) - abs(log(down / rows) - log(across / columns)) / 2
        if worth > most or best == (1, 1):
            best, most = (down, across), worth
    return best


def chunks_touched(axes: list[Positions], cuts: tuple[Cuts, ...]) -> int:
    """Return the number of chunks in which all combinations of positions lie."""
    touched = 1
    for axis, cut in zip(axes, cuts, strict=True):
        touched *= len(np.unique(cut.found(axis)[0]))
    return touched


def _evenly(length: int, count: int) -> list[int]:
    """Return numbers below a length, the first and the last among them; exact for any length."""
    if length <= count:
        return list(range(length))
    if count == 1:
        return [(length - 1) // 2]
    return [i * (length - 1) // (count - 1) for i in range(count)]
