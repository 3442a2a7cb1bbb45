"""Members of JSON objects, found and not read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.errors import BadMetadata
from nczfs.formats.jsonparts import Parts
from nczfs.model import jsonshape

NAMES = st.text('a"\\\\[]{},:é ', max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | st.booleans() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def found(data: bytes) -> dict[str, Any]:
    """The object, put together again of the values of its members and of theirs."""
    parts = Parts(data, "KEY", members_max=1000)
    value = {}
    for part in parts.members:
        value[part.name] = json.loads(parts.text(part))
        if isinstance(value[part.name], dict):
            below = {inner.name: json.loads(parts.text(inner)) for inner in parts.within(part)}
            assert below == value[part.name]
        else:
            with pytest.raises(BadMetadata):
                list(parts.within(part))
    return value


@given(
    value=st.dictionaries(NAMES, VALUES, max_size=4),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    block=st.integers(1, 20),
)
def test_members_are_those_that_json_has(
    value: dict[str, Any], indent: int | None, ascii_only: bool, block: int
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonshape, "_BLOCK_BYTES", block)
        assert found(data) == value
        assert found(b"\xef\xbb\xbf \n" + data + b"\t ") == value


def test_what_a_member_is_is_not_looked_at() -> None:
    parts = Parts(b'{"a": 007, "b" : { "x": nan , "y":[1 2] }} ', "KEY", members_max=10)
    a, b = parts.members
    assert parts.text(a) == b"007"
    assert [parts.text(part) for part in parts.within(b)] == [b"nan", b"[1 2]"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"}",
        b"[]",
        b"7",
        b'{"a": 1',
        b'{"a" 1}',
        b"{a: 1}",
        b'{"a": 1,}',
        b"{,}",
        b'{"a": 1}}',
        b'{"a": 1} {"b": 2}',
        b'x{"a": 1}',
        b'{"a": 1}x',
        b'{"\\x": 1}',
        b'[{"a": 1}]',
        b'{"a": "}',
    ],
)
def test_what_is_no_object_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(BadMetadata, match=r"^KEY: "):
        Parts(data, "KEY", members_max=10)


@given(st.binary(max_size=40) | st.text('{}[]",:\\\\ a', max_size=40).map(str.encode))
def test_any_bytes_have_members_or_are_refused(data: bytes) -> None:
    try:
        parts = Parts(data, "KEY", members_max=100)
        for part in parts.members:
            list(parts.within(part))
    except BadMetadata:
        pass


def test_too_many_members_are_refused_before_they_are_looked_at() -> None:
    data = b'{"a": {' + b'"":0,' * 1000 + b'"":0}}'
    with pytest.raises(BadMetadata, match="more than 900 members"):
        Parts(data, "KEY", members_max=900)


def test_a_name_that_is_not_utf_8_is_the_key_that_a_directory_gives() -> None:
    parts = Parts(b'{"\xff/.zarray": 1}', "KEY", members_max=10)
    assert parts.members[0].name == "\udcff/.zarray"
