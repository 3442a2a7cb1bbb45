"""The part of a chunk that a reader accesses, from which the cache learns how chunks are used."""

from __future__ import annotations

from math import prod
from typing import TypeAlias

from nczfs.buffers import Positions
from nczfs.model.boxes import Box
from nczfs.plaindata import frozen

Index: TypeAlias = "tuple[slice | Positions, ...]"


@frozen
class ChunkAccess:
    """An access to a chunk.

    Attributes
    ----------
    part : a box around all accessed elements; None: the whole chunk.
    share : the fraction of the chunk's elements in the array that is accessed.
    """

    part: Box | None
    share: float


WHOLE = ChunkAccess(None, 1.0)

UNREAD = ChunkAccess(Box((0,), (0,)), 0.0)
"""Of one who needs the chunk to be there, and none of its values, whatever its shape is."""


def access_of(index: Index, chunk_shape: tuple[int, ...], inside: Box) -> ChunkAccess:
    """Return the access of a numpy index to a chunk.

    Parameters
    ----------
    index : ascending slices, or positions; at least one element in every dimension.
    inside : the elements of the chunk that lie in the array, counted from any origin.
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
    return ChunkAccess(Box(tuple(starts), tuple(stops)), prod(counts) / max(1, inside.size))
