"""Depth and members of msgpack, counted before it is read."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.codecs import packed

LENGTHS = st.sampled_from([0, 1, 15, 16, 31, 32, 255, 256, 70_000])
LEAVES = (
    st.sampled_from([None, True, 5, -5, 200, 2**15, 2**31, 2**63, -200, -(2**15), -(2**63), 1.5])
    | LENGTHS.map(lambda size: "a" * size)
    | LENGTHS.map(bytes)
    | st.sampled_from([1, 2, 4, 5, 8, 16, 300, 70_000]).map(
        lambda size: msgpack.ExtType(3, bytes(size))
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(st.text("abc", max_size=3), inner, max_size=20)
    ),
    max_leaves=60,
)


def depth_and_members(value: Any) -> tuple[int, int]:
    if not isinstance(value, list | dict):
        return 0, 0
    items = list(value.values()) if isinstance(value, dict) else value
    below = [depth_and_members(item) for item in items]
    depth = 1 + max((depth for depth, _ in below), default=0) if items else 0
    own = len(value) * (2 if isinstance(value, dict) else 1)
    return depth, own + sum(members for _, members in below)


@settings(max_examples=100, deadline=None)
@given(value=VALUES)
def test_depth_and_members_are_those_of_the_value(value: Any) -> None:
    # A list with the heads of long lists has the value looked at, however small it is.
    data = msgpack.packb([[0] * 20, [0] * 20, value])
    depth, members = depth_and_members([[0] * 20, [0] * 20, value])
    assert packed.fault(data, depth_max=depth, members_max=members) is None
    assert packed.fault(data, depth_max=depth - 1, members_max=members)
    assert packed.fault(data, depth_max=depth, members_max=members - 1)


@pytest.mark.parametrize("head", [b"\xdd\xff\xff\xff\xff", b"\xdf\x00\x10\x00\x00"])
def test_claims_within_claims_are_refused_before_room_is_made(head: bytes) -> None:
    assert packed.fault(head * 1000, depth_max=100, members_max=1 << 22)


@given(data=st.binary(max_size=60))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    packed.fault(b"\xdc\x00\x09\xdc" + data, depth_max=5, members_max=100)
