"""How deep a JSON text is nested and how many members it has, seen before anything is built of it.

Two bytes of JSON can become a hundred in memory, and what reads or walks it may recurse. Brackets
and commas tell both, and are found block by block in little memory, whatever the text is.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

_Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

_BLOCK_BYTES: Final = 1 << 20
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'

_STEPS = np.zeros(256, np.int64)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def fault(data: bytes, *, depth_max: int, members_max: int) -> str | None:
    """What a JSON text has too much of, in words; None: nothing.

    Parameters
    ----------
    data : the text, in UTF-8 or another encoding that ASCII is a part of.
    depth_max : of lists and objects in one another.
    members_max : of all lists and objects together, these counted as well.
    """
    opening = data.count(b"[") + data.count(b"{")
    if opening <= depth_max and opening + data.count(b",") < members_max:
        return None
    depth = members = 0
    texts = _Texts()
    whole = np.frombuffer(data, np.uint8)
    for start in range(0, whole.size, _BLOCK_BYTES):
        block = texts.left_out(whole[start : start + _BLOCK_BYTES])
        steps = _STEPS[block]
        depths = np.cumsum(steps)
        if depths.size and depth + int(depths.max()) > depth_max:
            return f"nested more than {depth_max} levels deep"
        depth += int(depths[-1]) if depths.size else 0
        members += int(np.count_nonzero(steps > 0)) + int(np.count_nonzero(block == _COMMA))
        if members >= members_max:
            return f"has more than {members_max} members"
    return None


class _Texts:
    """Leaves the texts out of JSON that comes block by block."""

    def __init__(self) -> None:
        self._is_inside = False
        self._backslashes = 0  # right before the next block

    def left_out(self, block: _Bytes) -> _Bytes:
        """The bytes of the next block that stand in no text."""
        quotes = block == _QUOTE
        if self._backslashes or bool((block == _BACKSLASH).any()):
            quotes &= self._backslashes_before(block) % 2 == 0
        inside = np.logical_xor.accumulate(quotes) ^ self._is_inside
        self._is_inside = bool(inside[-1])
        return block[~inside]

    def _backslashes_before(self, block: _Bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
        """How many backslashes stand right before each byte."""
        places = np.arange(block.size + 1)
        starts = np.zeros(block.size + 1, np.int64)  # where a run of them would begin
        starts[1:] = np.where(block == _BACKSLASH, 0, places[1:])
        starts = np.maximum.accumulate(starts)
        counts = places - starts
        counts[starts == 0] += self._backslashes
        self._backslashes = int(counts[-1])
        return counts[:-1]
