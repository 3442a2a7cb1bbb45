"""Components of keys that can be file names."""

from __future__ import annotations

from nczfs.zmap import keys
from nczfs.zmap.keys import Key, Prefix

NAME_BYTES_MAX = 255  # NAME_MAX of Linux


def is_file_name(name: str) -> bool:
    """Return whether a component of a key can be a file name."""
    return keys.is_name(name) and len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX


def parent_of(key: str) -> Prefix:
    """Return the prefix directly above a key."""
    return Prefix(key.rpartition("/")[0])


def new_key(prefix: Prefix, name: str) -> Key:
    """Return the key of a name to make. Raises BadKey, KeyTooLong."""
    return keys.parse_key(keys.join(prefix, name))
