"""JSON taken apart piece by piece says what JSON says, and no piece is larger than it may be."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.zmap.jsonparts import STRING, JsonParts, text_in

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def members(body: bytes, bytes_max: int = 10_000) -> list[tuple[str, Any]]:
    """The members of a document, as they come."""
    parts = JsonParts(body)
    found: list[tuple[str, Any]] = []

    def take(name: str, at: int) -> int:
        value, end = parts.value(at, bytes_max)
        assert parts.end_of(at) == end
        found.append((name, value))
        return end

    parts.check_end(parts.members(parts.begin(), take))
    return found


@given(st.dictionaries(TEXTS, VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_members_are_those_that_python_finds(
    document: dict[str, Any], is_ascii: bool, indent: int | None
) -> None:
    body = json.dumps(document, ensure_ascii=is_ascii, indent=indent).encode()
    assert dict(members(b" " + body + b"\n")) == document


@given(st.lists(VALUES), st.booleans())
def test_items_are_those_that_python_finds(document: list[Any], is_ascii: bool) -> None:
    parts = JsonParts(json.dumps(document, ensure_ascii=is_ascii).encode())
    found: list[Any] = []

    def take(at: int) -> int:
        value, end = parts.value(at, 10_000)
        found.append(value)
        return end

    parts.check_end(parts.items(parts.begin(), take))
    assert found == document


def test_bytes_that_are_no_text_are_kept() -> None:
    assert members(b'{"\xff": "\xc3\xbc\xe9"}') == [("\udcff", "ü\udce9")]


def test_a_member_that_comes_twice_comes_twice() -> None:
    assert members(b'{"a": 1, "a": 2}') == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}x",
        b'{"a"}',
        b'{"a" 1}',
        b'{"a": }',
        b'{"a": 1 "b": 2}',
        b"{1: 2}",
        b'{"a: 1}',
        b'{"a": "b}',
        b'{"a": [1, 2}',
        b'{"a": {]}}',
        b'{"a": nothing}',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' + b"[" * 600 + b"]" * 600 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "' + b"\\" * 100_001 + b'"}',
        b'{"a": ["' + b'\\"' * 1_000_000 + b"]}",
    ],
)
def test_what_is_no_json_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        members(body)


def test_a_value_has_a_limit_and_the_others_are_passed_over() -> None:
    body = b'{"small": [1, 2], "large": "' + b"x" * 1000 + b'", "last": 3}'
    with pytest.raises(ValueError, match="over 100 bytes at character 27"):
        members(body, 100)
    parts = JsonParts(body)
    names: list[str] = []

    def pass_over(name: str, at: int) -> int:
        names.append(name)
        return parts.end_of(at)

    parts.check_end(parts.members(0, pass_over))
    assert names == ["small", "large", "last"]


def test_a_text_that_a_pattern_found_is_what_json_says() -> None:
    parts = JsonParts('["\\u00fc\\"ü"]'.encode())
    found = parts.match(re.compile(rf"\[({STRING})\]"), 0)
    assert found is not None
    assert text_in(found[1]) == 'ü"ü'
