"""What a reader looks at in a chunk: the cache is told, so that it can tell how chunks are used."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.model.boxes import Box

Index: TypeAlias = "tuple[slice | np.ndarray[Any, np.dtype[np.int64]], ...]"


@dataclass(frozen=True, slots=True)
class Use:
    """One look at a chunk.

    Attributes
    ----------
    part : a box around all elements that are looked at; None: the whole chunk.
    share : of the elements of the chunk that lie in the array, how many are looked at.
    """

    part: Box | None
    share: float


WHOLE = Use(None, 1.0)


def use_of(index: Index, chunk_shape: tuple[int, ...], inside: Box) -> Use:
    """How a numpy index uses a chunk.

    Parameters
    ----------
    index : ascending slices, or positions; at least one element in every dimension.
    inside : the elements of the chunk that lie in the array, wherever they are counted from.
    """
    starts, stops, counts = [], [], []
    for positions, length in zip(index, chunk_shape, strict=True):
        if isinstance(positions, slice):
            span = range(*positions.indices(length))
            start, last, count = span[0], span[-1], len(span)
        else:
            start, last = int(positions.min()), int(positions.max())
            count = positions.size
        starts.append(start)
        stops.append(last + 1)
        counts.append(count)
    return Use(Box(tuple(starts), tuple(stops)), prod(counts) / max(1, inside.size))
