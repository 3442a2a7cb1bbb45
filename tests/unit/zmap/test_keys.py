"""What a key is, and what is none."""

from __future__ import annotations

import pytest

from nczfs.errors import BadKey, KeyTooLong
from nczfs.zmap.keys import (
    MAX_KEY_BYTES,
    ROOT,
    is_name,
    join,
    parse_key,
    parse_prefix,
    place_of,
)


@pytest.mark.parametrize(
    "text", ["a", "a/b/c", ".zgroup", "a/.zarray", "a b", "...", "温度/0.0", "a\\b", "\udcff"]
)
def test_components_joined_by_slashes_are_a_key(text: str) -> None:
    assert parse_key(text) == text
    assert parse_prefix(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a/./b",
        "a\0b",
        ".nczfs-tmp-1",
        "a/.nczfs-x/b",
        "lone \ud800 surrogate",
    ],
)
def test_what_could_leave_the_store_or_hide_in_it_is_no_key(text: str) -> None:
    with pytest.raises(BadKey):
        parse_key(text)


@pytest.mark.parametrize("text", ["a\0" + "x" * 9000, "../" * 3000, "x" * 9000])
def test_a_refusal_shows_the_beginning_of_a_long_text(text: str) -> None:
    """SEMANTICS A7."""
    with pytest.raises((BadKey, KeyTooLong)) as caught:
        parse_key(text)
    assert len(str(caught.value)) < 200
    assert text[:1] in str(caught.value)


def test_the_root_is_a_prefix_and_no_key() -> None:
    assert parse_prefix("") == ROOT
    with pytest.raises(BadKey):
        parse_prefix("../a")


def test_the_limit_counts_bytes_and_not_characters() -> None:
    assert parse_key("ü" * (MAX_KEY_BYTES // 2))
    with pytest.raises(KeyTooLong):
        parse_key("ü" * (MAX_KEY_BYTES // 2) + "x")
    assert parse_key("\udcff" * MAX_KEY_BYTES)
    with pytest.raises(KeyTooLong):
        parse_key("\udcff" * (MAX_KEY_BYTES + 1))


def test_a_name_is_one_component() -> None:
    assert is_name("a b")
    assert is_name(".zgroup")
    for text in ("", ".", "..", "a/b", "a\0", ".nczfs-tmp-1", "\ud800"):
        assert not is_name(text)


def test_join_puts_a_slash_between_and_none_at_the_root() -> None:
    assert join("", "a") == "a"
    assert join("a/b", "c") == "a/b/c"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "s3://b"),
        ("t/.zarray", "s3://b/t/.zarray"),
        (".zmetadata", "s3://b: the consolidated metadata (.zmetadata)"),
        ("d/.zmetadata", "s3://b/d: the consolidated metadata (.zmetadata)"),
        ("d/.nczfs-lease/7f", "s3://b/d: an object of nczfs (.nczfs-lease/7f)"),
        ("d/.nczfs_removing", "s3://b/d: an object of nczfs (.nczfs_removing)"),
    ],
)
def test_messages_say_what_keys_are_that_users_do_not_know(key: str, text: str) -> None:
    assert place_of("s3://b", key, {".zmetadata"}) == text
