"""Indexing expressions of variables: which box they need, and what is cut out of it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index as as_index
from typing import SupportsIndex

from nczfs.errors import BadSelection
from nczfs.model.boxes import Box


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of elements.

    Attributes
    ----------
    box : the smallest box that holds all of them.
    cut : index into an array of the values of `box` that leaves the selected elements; integers
        drop their dimension.
    """

    box: Box
    cut: tuple[int | slice, ...]


def select(selector: object, shape: tuple[int, ...]) -> Selection:
    """What ``variable[selector]`` means for an array of a shape.

    Integers, slices with any step and one ellipsis, as numpy has them.

    Raises
    ------
    BadSelection : an index is out of range, there are too many, or one is of another kind.
    """
    indices = _expand(selector if isinstance(selector, tuple) else (selector,), len(shape))
    start, stop, cut = [], [], list[int | slice]()
    for d, (index, length) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(index, slice):
            first, last, step = _range(index, length, d)
            cut.append(step)
        else:
            first = _position(index, length, d)
            last = first + 1
            cut.append(0)
        start.append(first)
        stop.append(last)
    return Selection(Box(tuple(start), tuple(stop)), tuple(cut))


def _expand(indices: tuple[object, ...], ndim: int) -> list[object]:
    dots = sum(1 for index in indices if index is Ellipsis)
    if dots > 1:
        raise BadSelection("an index can have only one ellipsis ('...')")
    given = len(indices) - dots
    if given > ndim:
        raise BadSelection(f"too many indices: {given} for {ndim} dimensions")
    rest: list[object] = [slice(None)] * (ndim - given)
    if not dots:
        return [*indices, *rest]
    at = next(i for i, index in enumerate(indices) if index is Ellipsis)
    return [*indices[:at], *rest, *indices[at + 1 :]]


def _position(index: object, length: int, d: int) -> int:
    if index is None:
        raise BadSelection("numpy.newaxis (None) is not an index of a variable: reshape the result")
    if isinstance(index, bool) or not isinstance(index, SupportsIndex):
        raise BadSelection(
            f"dimension {d}: {index!r} is not an index: integers, slices and '...' are"
        )
    position = as_index(index)
    if not -length <= position < length:
        raise BadSelection(f"dimension {d}: index {position} is out of range for length {length}")
    return position % length


def _range(index: slice, length: int, d: int) -> tuple[int, int, slice]:
    try:
        begin, end, step = index.indices(length)
    except (TypeError, ValueError) as error:
        raise BadSelection(f"dimension {d}: {index!r}: {error}") from None
    positions = range(begin, end, step)
    if not positions:
        return 0, 0, slice(None)
    low, high = min(positions[0], positions[-1]), max(positions[0], positions[-1])
    return low, high + 1, slice(None, None, step)
