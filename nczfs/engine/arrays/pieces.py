"""Pieces of arrays in memory: those of boxes, and those that chunks are decoded into."""

from __future__ import annotations

from typing import Any

from nczfs.buffers import Values
from nczfs.codecs.codec import Flat, as_bytes
from nczfs.engine.arrays.selection import ChunkSelection
from nczfs.model.grid import ChunkPart


def part_of(values: Values, part: ChunkPart) -> Values:
    """Return the values of a piece of a box, from those of the box."""
    # The ellipsis keeps a scalar an array; without it, text would become a plain string.
    index: tuple[Any, ...] = (*part.target.slices(), ...)
    found: Values = values[index]
    return found


def run_of(selected: ChunkSelection, extent: tuple[int, ...], out: Values) -> Flat | None:
    """Return the memory of a whole chunk in `out`; None if it is not one run there.

    Parameters
    ----------
    extent : the shape of the chunk.
    """
    if out.dtype.hasobject or not all(isinstance(part, slice) for part in selected.target):
        return None
    place = out[(*selected.target, ...)]
    is_whole = place.shape == extent
    return as_bytes(place.reshape(-1)) if is_whole and place.flags.c_contiguous else None


def starts_at(values: Values, target: Flat) -> bool:
    """Return whether the values of a chunk are all in the memory for them, in C order."""
    return values.flags.c_contiguous and values.ctypes.data == target.ctypes.data
