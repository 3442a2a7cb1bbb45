"""Keys and bytes of the tests, and shared functions that look at a store."""

from __future__ import annotations

from nczfs.zmap.base import Entry, ZMap
from nczfs.zmap.keys import parse_key, parse_prefix

K = parse_key("group/variable/0.0.0")
COPY = parse_key("group/copy")
DATA = bytes(range(256)) * 17
ODD_KEYS = (
    "blank in name/and here",
    "per%cent/100%25/%2F",
    ".zattrs",
    ".hidden/.zarray",
    "ünïcode/温度/δοκιμή",
    "e\u0301/decomposed",
    "\N{GRINNING FACE}",
    "plus+and&and=and?and#and;",
    "quote'and\"and`and$",
    "colon:star*less<greater>bar|",
    "~tilde/-dash/_under/@at",
    " leading and trailing ",
    "dots../..dots/a..b",
    "new\nline/tab\t",
    "long/" + "/".join(["n" * 200] * 5),
)


def searched(zmap: ZMap, prefix: str) -> dict[str, tuple[int | None, bool]]:
    """Return sizes (None: no object) and whether there are keys below, by name, each once."""
    entries = list(zmap.search(parse_prefix(prefix)))
    found = {
        entry.name: (entry.stat.size if entry.stat else None, entry.is_prefix) for entry in entries
    }
    assert len(found) == len(entries)
    return found


def entry_of(zmap: ZMap, prefix: str, name: str) -> Entry:
    [entry] = [entry for entry in zmap.search(parse_prefix(prefix)) if entry.name == name]
    return entry
