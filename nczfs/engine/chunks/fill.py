"""Chunks of the fill value of an array, and whether values are it."""

from __future__ import annotations

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.fillelement import fill_element, is_all
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription


def fill_chunk(array: ArrayDescription, chunk: ChunkIndex) -> Values:
    """Return a chunk of fill: one element, broadcast, so that a hole takes no memory."""
    return np.broadcast_to(fill_element(array), array.grid.extent(chunk))


def is_fill(array: ArrayDescription, values: Values) -> bool:
    """Return whether all values are fill, and a missing chunk reads the same."""
    # Without a fill value, what other programs read from a missing chunk is undefined.
    if values.dtype.hasobject or values.size == 0 or array.fill_value is None:
        return False
    return is_all(values, fill_element(array))
