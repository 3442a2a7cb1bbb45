"""Boxes: hyperrectangles of index space, and the boxes of a run of elements in C order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from nczfs.plaindata import frozen

_LISTED_MAX: Final = 1 << 16


@frozen
class Box:
    """The elements with ``start[d] <= index[d] < stop[d]`` in every dimension; () is a scalar."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([b - a for a, b in zip(self.start, self.stop, strict=True)])

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def indexes(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of every element, in C order, in little memory however many there are."""
        if max(self.shape, default=0) <= _LISTED_MAX:
            return product(*map(range, self.start, self.stop))  # which makes a list of each range
        rest = Box(self.start[1:], self.stop[1:])
        return (
            (head, *tail) for head in range(self.start[0], self.stop[0]) for tail in rest.indexes()
        )

    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(a, b) for a, b in zip(self.start, self.stop, strict=True))

    def relative_to(self, origin: tuple[int, ...]) -> Box:
        """Return the same elements, counted from `origin`."""
        return Box(
            tuple(a - o for a, o in zip(self.start, origin, strict=True)),
            tuple(b - o for b, o in zip(self.stop, origin, strict=True)),
        )

    def contains(self, other: Box) -> bool:
        """Return whether all elements of another box are in this one."""
        pairs = zip(self.start, self.stop, other.start, other.stop, strict=True)
        return all(a <= b and d <= c for a, c, b, d in pairs)


def joined(one: Box, other: Box) -> Box | None:
    """Return the union of two boxes; None if it is not a box."""
    if one.contains(other):
        return one
    if other.contains(one):
        return other
    ndim = len(one.start)
    differing = [
        d for d in range(ndim) if (one.start[d], one.stop[d]) != (other.start[d], other.stop[d])
    ]
    if len(differing) != 1:
        return None
    d = differing[0]
    if max(one.start[d], other.start[d]) > min(one.stop[d], other.stop[d]):
        return None
    start, stop = list(one.start), list(one.stop)
    start[d] = min(one.start[d], other.start[d])
    stop[d] = max(one.stop[d], other.stop[d])
    return Box(tuple(start), tuple(stop))


def common(one: Box, other: Box) -> Box:
    """Return the elements that are in both boxes."""
    start = tuple(map(max, one.start, other.start))
    stop = map(min, one.stop, other.stop)
    return Box(start, tuple(map(max, start, stop)))


def whole(shape: tuple[int, ...]) -> Box:
    """Return the box of all elements of an array."""
    return Box((0,) * len(shape), shape)


def index_of(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the element at position `element` in C order."""
    index = [0] * len(shape)
    for d in range(len(shape) - 1, -1, -1):
        element, index[d] = divmod(element, shape[d])
    return tuple(index)


def boxes_of_run(first: int, count: int, shape: tuple[int, ...]) -> Iterator[Box]:
    """Cover a run of consecutive elements with boxes.

    Parameters
    ----------
    first, count : the run, in elements of C order; ``first + count <= prod(shape)``.
    shape : of the array, slowest dimension first; () is a scalar.

    Yields
    ------
    Box : at most ``max(1, 2 * ndim - 1)`` boxes, in order, which together are exactly the run.
    """
    assert first >= 0
    assert count >= 0
    assert first + count <= prod(shape)
    if count == 0:
        return
    ndim = len(shape)
    if ndim == 0:
        yield Box((), ())
        return
    # strides[d]: elements in one step along d
    strides = [1] * ndim
    for d in range(ndim - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    last = first + count
    position = first
    while position < last:
        # The slowest dimension along which whole steps can be taken from an aligned position.
        d = ndim - 1
        while d > 0 and position % strides[d - 1] == 0 and last - position >= strides[d - 1]:
            d -= 1
        index = index_of(position, shape)
        room = shape[d] - index[d]
        steps = min((last - position) // strides[d], room)
        start = (*index[: d + 1], *(0,) * (ndim - d - 1))
        stop = (*(i + 1 for i in index[:d]), index[d] + steps, *shape[d + 1 :])
        yield Box(start, stop)
        position += steps * strides[d]
