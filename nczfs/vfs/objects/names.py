"""Which components of a key can be the name of a file."""

from __future__ import annotations

from nczfs.zmap import keys
from nczfs.zmap.keys import Key, Prefix

NAME_BYTES_MAX = 255  # NAME_MAX of Linux


def is_file_name(name: str) -> bool:
    """Whether a component of a key can be the name of a file."""
    return keys.is_name(name) and len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX


def parent_of(key: str) -> Prefix:
    """The prefix that a key stands directly below."""
    return Prefix(key.rpartition("/")[0])


def new_key(prefix: Prefix, name: str) -> Key:
    """The key of a name that shall be made. Raises BadKey, KeyTooLong."""
    return keys.parse_key(keys.join(prefix, name))
