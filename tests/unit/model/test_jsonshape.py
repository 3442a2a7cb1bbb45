"""Depth and members of JSON, counted before it is read."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.model import jsonshape

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\[]{},é\n', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text('a"\\[,', max_size=3), inner, max_size=3)
    ),
)


def depth_of(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth_of, items), default=0)


def members_of(value: Any) -> int:
    """Of all lists and objects, and these themselves; an empty one counts as one with one."""
    if not isinstance(value, list | dict):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return max(1, len(value)) + sum(map(members_of, items))


@settings(max_examples=300, deadline=None)
@given(value=VALUES, ascii_only=st.booleans(), block=st.integers(1, 9))
def test_depth_and_members_are_those_of_the_value(value: Any, ascii_only: bool, block: int) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    depth, members = depth_of(value), members_of(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonshape, "_BLOCK_BYTES", block)
        assert jsonshape.fault(data, depth_max=depth, members_max=members + 1) is None
        if depth:
            assert jsonshape.fault(data, depth_max=depth - 1, members_max=10**6)
            assert jsonshape.fault(data, depth_max=100, members_max=members)


@pytest.mark.parametrize("piece", [b"[", b"[],", b'"\\\\",', b'"",', b"\\", b'\\"'])
def test_little_memory_is_taken_whatever_stands_there(piece: bytes) -> None:
    data = b"[" + piece * ((8 << 20) // len(piece))
    tracemalloc.start()
    try:
        jsonshape.fault(data, depth_max=100, members_max=1 << 40)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 << 20


@given(value=VALUES, block=st.integers(1, 9), levels=st.integers(1, 3))
def test_marks_of_the_outer_levels_are_found(value: Any, block: int, levels: int) -> None:
    text = json.dumps(value, ensure_ascii=False)
    data = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonshape, "_BLOCK_BYTES", block)
        marks = jsonshape.outline(data, levels=levels)
    assert bytes(data[place] for place in marks.places) == marks.marks.tobytes()
    assert all(1 <= depth <= levels for depth in marks.depths)
    opened = int((marks.marks == ord("[")).sum() + (marks.marks == ord("{")).sum())
    assert opened == holders(value, levels)


def holders(value: Any, levels: int) -> int:
    if not isinstance(value, list | dict) or not levels:
        return 0
    items = value.values() if isinstance(value, dict) else value
    return 1 + sum(holders(item, levels - 1) for item in items)
