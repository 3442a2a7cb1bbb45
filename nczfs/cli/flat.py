"""The values of a variable in C order, in blocks that fit into memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from nczfs.library.variable import Variable

BLOCK_BYTES = 16 << 20


def flat_blocks(
    variable: Variable, block_bytes: int = BLOCK_BYTES
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield all elements in C order, in one-dimensional pieces.

    Notes
    -----
    A piece is a number of whole chunks along the slowest dimension that it divides, where that many
    fit. Chunks that several pieces touch stay in the engine's cache.
    """
    shape = variable.shape
    if not shape:
        yield np.asarray(variable[...]).reshape(1)
        return
    item_bytes = max(1, variable.dtype.itemsize)
    if variable.dtype.hasobject:
        # All that is known of such elements is that a chunk of them fits into memory.
        item_bytes = max(item_bytes, block_bytes // prod(variable.chunks))
    axis = 0
    while axis < len(shape) - 1 and prod(shape[axis + 1 :]) * item_bytes > block_bytes:
        axis += 1
    count = max(1, block_bytes // (item_bytes * max(1, prod(shape[axis + 1 :]))))
    step = count - count % variable.chunks[axis] or count
    for above in itertools.product(*(range(length) for length in shape[:axis])):
        for start in range(0, shape[axis], step):
            stop = min(start + step, shape[axis])
            yield np.asarray(variable[(*above, slice(start, stop), ...)]).reshape(-1)
