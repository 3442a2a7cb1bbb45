"""Texts of hierarchies that must be refused, up to the limits of their size."""

from __future__ import annotations

from collections.abc import Iterator

from nczfs.formats.zom.text import LIMITS

GROUP = '{"zarr_format": 2}'


def hostile_texts() -> Iterator[tuple[str, bytes, str]]:
    """Yield the name of each, the text, and a pattern of why it is refused."""
    for name, text, why in _texts():
        yield name, text.encode(), why


def _texts() -> Iterator[tuple[str, str, str]]:
    yield "lists in lists", "[" * 100_000, "nested more than"
    yield "objects in objects", '{"a":' * 100_000 + "1" + "}" * 100_000, "nested more than"
    yield "groups in groups", '{"zarr_format":2,"members":{"g":' * 90 + "1" + "}" * 180, "nested"
    yield "large", " " * (LIMITS.bytes_max + 1), "are not read"
    yield "wide characters", _attribute('"\U0001f600' + "x" * (LIMITS.bytes_max // 2)), "not read"
    wide = '"\U0001f600' + "x" * (LIMITS.bytes_max // 2 - 100)
    yield "just below wide", f'{{"zarr_format": 2, "a": {wide}"', "not JSON"
    yield "too many values", _attribute("[" + "0," * 1_000_000 + "0]"), "has more than"
    yield "many values", _attribute("[" + "0," * (LIMITS.members_max - 20) + "0"), "not JSON"
    yield "many lists", _attribute("[" + "[]," * (LIMITS.members_max // 2 - 20) + "0"), "not JSON"
    yield "many groups", _members(f'"..": {GROUP}', LIMITS.members_max // 2 - 20), "nodes"
    yield "digits", _attribute("1" * 1_000_000), "digits"
    yield (
        "a member twice",
        f'{{"zarr_format": 2, "members": {{"a": {GROUP}, "a": {GROUP}}}}}',
        "once",
    )
    last = f'"0": {GROUP}'
    yield "a member twice after many", _members(last, LIMITS.members_max // 2 - 20), "once"
    for name in ("..", ".", "", "../d.zarr", "d.zarr/g", "/", ".zgroup", "x" * 2000):
        yield (
            f"called {name[:9]!r}",
            f'{{"zarr_format": 2, "members": {{"{name}": {GROUP}}}}}',
            "name|xxx",
        )
    clash = '{"zarr_format": 3, "node_type": "group", "members": {}, "_members": {"..": {}}}'
    yield "members of a clash", clash, "unknown, and not marked"
    array = '"shape": [1], "chunks": [1], "dtype": "|u1", "fill_value": 0'
    yield "an array with members", f'{{"zarr_format": 2, {array}, "members": {{}}}}', "no members"


def _attribute(value: str) -> str:
    return f'{{"zarr_format": 2, "attributes": {{"a": {value}}}}}'


def _members(last: str, count: int) -> str:
    groups = ",".join(f'"{i}":{GROUP}' for i in range(count))
    return f'{{"zarr_format": 2, "members": {{{groups}, {last}}}}}'
