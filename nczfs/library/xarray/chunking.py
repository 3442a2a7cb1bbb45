"""The chunks that xarray is told of, by which Dask cuts its work."""

from __future__ import annotations

from itertools import islice
from math import prod

from nczfs.model.grid import Cuts, EvenCuts
from nczfs.model.hierarchy import ArrayDescription, Variable

UNIT_BYTES_MAX = 128 << 20  # what Dask itself makes a chunk of
LISTED_MAX = 1 << 16

Sizes = int | tuple[int, ...]


def preferred_chunks(variable: Variable, names: tuple[str, ...]) -> dict[str, Sizes]:
    """Return the lengths of what is best read as a whole, by the names of dimensions.

    That is what is stored as one object: a chunk, or a shard, unless that is larger than a task of
    Dask should read.
    """
    array = variable.array
    is_small = prod(array.unit_shape) * array.dtype.stored.itemsize <= UNIT_BYTES_MAX
    grid = array.units if is_small or not array.shards else array.grid
    sides = zip(grid.cuts, array.shape, strict=True)
    return dict(zip(names, (_sizes(cuts, length) for cuts, length in sides), strict=True))


def is_even(array: ArrayDescription) -> bool:
    """Whether all chunks have one shape."""
    return all(isinstance(cuts, EvenCuts) for cuts in array.units.cuts)


def _sizes(cuts: Cuts, length: int) -> Sizes:
    """Return the length of all chunks along a dimension, or that of each if they differ.

    More than `LISTED_MAX` are not listed.
    """
    if isinstance(cuts, EvenCuts):
        return cuts.length
    pieces = islice(cuts.pieces(0, length), LISTED_MAX + 1)
    sizes = tuple(target.stop - target.start for _, _, target in pieces)
    first = sizes[0] if sizes else max(cuts.lengths)
    is_regular = set(sizes[:-1]) <= {first} and sizes[-1:] <= (first,)
    return first if is_regular or len(sizes) > LISTED_MAX else sizes
