"""Values at single points, which are read chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.buffers import Values

Key: TypeAlias = tuple[Any, ...]

ELEMENTS_READ_AT_ONCE = 1 << 20
THREADS = 16
"""Chunks of a far store that are read at a time."""


def is_scattered(key: Key, shape: Sequence[int]) -> bool:
    """Return whether points span far more than there are of them, so that few chunks have any.

    Parameters
    ----------
    key : for each dimension a slice, or an array of integers, which are broadcast together.
    """
    arrays = _arrays(key)
    steps = [step for step in key if isinstance(step, slice)]
    if len(arrays) < 2 or any(step.step is not None and step.step < 0 for step in steps):
        return False
    lengths = [len(range(*s.indices(n))) for s, n in zip(key, shape, strict=True) if _is_slice(s)]
    wanted = np.broadcast(*arrays.values()).size * prod(lengths)
    spanned = prod(len(np.unique(array)) for array in arrays.values()) * prod(lengths)
    return spanned > max(ELEMENTS_READ_AT_ONCE, 4 * wanted)


def read_points(
    key: Key,
    shape: Sequence[int],
    chunk_shape: Sequence[int],
    dtype: np.dtype[Any],
    read: Callable[[Key], Values],
    *,
    is_near: bool,
) -> Values:
    """Read the points of a key, without more values than one chunk has of each dimension.

    Parameters
    ----------
    key : as of `is_scattered`; what it selects has the dimensions of the arrays first.
    read : reads by an orthogonal key.
    is_near : whether reading several chunks at a time gains nothing.

    Raises
    ------
    IndexError : a point is outside the array.
    """
    arrays = _arrays(key)
    axes, others = list(arrays), [axis for axis in range(len(key)) if axis not in arrays]
    broadcast = np.broadcast_arrays(*arrays.values())
    points = np.stack([each.reshape(-1) for each in broadcast])
    sizes = np.array([[shape[axis]] for axis in axes])
    if ((points < -sizes) | (points >= sizes)).any():
        raise IndexError(f"an index is out of bounds for an array of shape {tuple(shape)}")
    points = np.where(points < 0, points + sizes, points)
    lengths = [len(range(*key[axis].indices(shape[axis]))) for axis in others]
    found = np.empty((points.shape[1], *lengths), dtype)

    def read_group(group: Values) -> None:
        inner = list(key)
        places = []
        for axis, coordinates in zip(axes, points[:, group], strict=True):
            inner[axis], place = np.unique(coordinates, return_inverse=True)
            places.append(place)
        values = read(tuple(inner)).transpose(axes + others)
        found[group] = values[tuple(places)]

    groups = _groups(points, [chunk_shape[axis] for axis in axes])
    if is_near:
        for group in groups:
            read_group(group)
    else:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(read_group, groups))
    return found.reshape((*broadcast[0].shape, *lengths))


def _groups(points: Values, chunk_shape: Sequence[int]) -> Iterator[Values]:
    """Yield the numbers of the points in each chunk."""
    chunks = points // np.array(chunk_shape)[:, None]
    order = np.lexsort(chunks[::-1])
    ordered = chunks[:, order]
    begins = np.flatnonzero((ordered[:, 1:] != ordered[:, :-1]).any(axis=0)) + 1
    yield from np.split(order, begins)


def _arrays(key: Key) -> dict[int, Values]:
    return {axis: np.asarray(each) for axis, each in enumerate(key) if not _is_slice(each)}


def _is_slice(each: Any) -> bool:
    return isinstance(each, slice)
