"""The brackets and commas of JSON, which show its nesting and the number of its members.

Two bytes of JSON can become a hundred in memory, and code that reads or walks it may recurse. The
check comes before anything is built, block by block in little memory, for any text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from nczfs.plaindata import frozen

_Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_BLOCK_BYTES: Final = 1 << 16  # each byte needs some forty bytes for marks and depths
_QUOTE, _BACKSLASH, COMMA = b'"\\,'

_STEPS = np.zeros(256, np.int64)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_IS_MARK = np.zeros(256, np.bool_)
_IS_MARK[list(b"[]{},")] = True


@frozen
class Marks:
    """Brackets and commas outside strings, in order.

    Attributes
    ----------
    places : the position of each in the text.
    marks : which byte it is.
    depths : of the list or object that it opens, closes or divides; the outermost has 1.
    """

    places: _Numbers
    marks: _Bytes
    depths: _Numbers


def fault(data: bytes, *, depth_max: int, members_max: int) -> str | None:
    """Return in words what a JSON text has too much of; None: nothing.

    Parameters
    ----------
    data : the text, in UTF-8 or another superset of ASCII.
    depth_max : levels of nested lists and objects.
    members_max : of all lists and objects together, including the lists and objects themselves.
    """
    opening = data.count(b"[") + data.count(b"{")
    if opening <= depth_max and opening + data.count(b",") < members_max:
        return None
    members = 0
    for block in _blocks(data):
        if block.depths.size and int(block.depths.max()) > depth_max:
            return f"nested more than {depth_max} levels deep"
        members += int(np.count_nonzero(_STEPS[block.marks] >= 0))
        if members >= members_max:
            return f"has more than {members_max} members"
    return None


def outline(data: bytes | memoryview, *, levels: int) -> Marks:
    """Return the brackets and commas of the outer levels of a text, which need not be JSON."""
    empty = np.zeros(0, np.int64)
    found = [Marks(empty, empty.astype(np.uint8), empty)]
    for block in _blocks(data):
        is_outer = block.depths <= levels
        found.append(Marks(block.places[is_outer], block.marks[is_outer], block.depths[is_outer]))
    return Marks(
        np.concatenate([block.places for block in found]),
        np.concatenate([block.marks for block in found]),
        np.concatenate([block.depths for block in found]),
    )


def _blocks(data: bytes | memoryview) -> Iterator[Marks]:
    depth = 0
    texts = _Texts()
    whole = np.frombuffer(data, np.uint8)
    for start in range(0, whole.size, _BLOCK_BYTES):
        block = whole[start : start + _BLOCK_BYTES]
        places = np.flatnonzero(_IS_MARK[block] & ~texts.inside(block))
        marks = block[places]
        steps = _STEPS[marks]
        depths = depth + np.cumsum(steps)
        depth = int(depths[-1]) if depths.size else depth
        yield Marks(start + places, marks, depths + (steps < 0))


class _Texts:
    """A finder of strings in JSON that comes block by block."""

    def __init__(self) -> None:
        self._is_inside = False
        self._backslashes = 0  # right before the next block

    def inside(self, block: _Bytes) -> _Flags:
        """Return which bytes of the next block are in a string."""
        quotes = block == _QUOTE
        if self._backslashes or bool((block == _BACKSLASH).any()):
            quotes &= self._backslashes_before(block) % 2 == 0
        inside = np.logical_xor.accumulate(quotes) ^ self._is_inside
        self._is_inside = bool(inside[-1])
        return inside

    def _backslashes_before(self, block: _Bytes) -> _Numbers:
        """Count the backslashes right before each byte."""
        places = np.arange(block.size + 1)
        starts = np.zeros(block.size + 1, np.int64)  # where a run of backslashes would begin
        starts[1:] = np.where(block == _BACKSLASH, 0, places[1:])
        starts = np.maximum.accumulate(starts)
        counts = places - starts
        counts[starts == 0] += self._backslashes
        self._backslashes = int(counts[-1])
        return counts[:-1]
