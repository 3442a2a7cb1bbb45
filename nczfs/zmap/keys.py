"""Keys and prefixes: the checked names of objects.

A key is one or more components joined by "/", without a leading or trailing slash. Text from a file
system that is not UTF-8 has surrogate escapes.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NewType

from nczfs.errors import BadKey, KeyNotText, KeyTooLong
from nczfs.messages import shown

Key = NewType("Key", str)
Prefix = NewType("Prefix", str)

ROOT = Prefix("")
MAX_KEY_BYTES = 1024  # S3: "The name for a key is a sequence of at most 1,024 bytes"
OWN_FILES = ".nczfs-"  # temporary files and side files of nczfs: hidden, and not keys


def parse_key(text: str) -> Key:
    """Check that a text is a key.

    Raises
    ------
    BadKey : the text is empty, absolute, has an empty, ``.`` or ``..`` component, a NUL, or a
        component that starts with ``.nczfs-``.
    KeyTooLong : over 1024 bytes.
    """
    _check(text)
    return Key(text)


def is_key(text: str) -> bool:
    """Return whether a text is a key that every store can be asked for."""
    try:
        parse_key(text).encode("utf-8", "surrogateescape")
    except (BadKey, KeyTooLong, UnicodeEncodeError):
        return False
    return True


def parse_prefix(text: str) -> Prefix:
    """Check that a text is a prefix: a key, or "" for the root of the store."""
    if text:
        _check(text)
    return Prefix(text)


def is_name(text: str) -> bool:
    """Return whether a text can be one component of a key."""
    return bool(text) and "/" not in text and _fault(text) is None


def checked_length(text: str) -> Key:
    """Return a key that was joined from checked ones. Raises KeyTooLong."""
    if len(text) > MAX_KEY_BYTES // 4 and len(text.encode("utf-8", "surrogateescape")) > (
        MAX_KEY_BYTES
    ):
        raise KeyTooLong(f"key {shown(text)} has more than {MAX_KEY_BYTES} bytes")
    return Key(text)


def checked_names(key: Key, bytes_max: int) -> Key:
    """Return a key for a store whose names have so many bytes at most. Raises KeyTooLong."""
    if len(key) > bytes_max // 4:
        longest = max(len(os.fsencode(name)) for name in key.split("/"))
        if longest > bytes_max:
            raise KeyTooLong(
                f"key {shown(key)} has a name of {longest} bytes; the store allows {bytes_max}"
            )
    return key


def checked_text(key: Key) -> Key:
    """Return a key for a store whose keys are text. Raises KeyNotText."""
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise KeyNotText(
                f"key {shown(key)} is not UTF-8, which all keys of this store are"
            ) from error
    return key


def is_own(text: str) -> bool:
    """Return whether a key belongs to nczfs itself, so that listings do not show it."""
    return f"/{OWN_FILES}" in f"/{text}"


def place_of(store: str, key: str, copies: Collection[str] = ()) -> str:
    """Return the place of a key for messages, with a word on keys that users do not know.

    Parameters
    ----------
    copies : the last components of keys of consolidated metadata.
    """
    parts = key.split("/")
    own = next((n for n, part in enumerate(parts) if part.startswith((OWN_FILES, ".nczfs_"))), None)
    if own is not None:
        return f"{'/'.join([store, *parts[:own]])}: an object of nczfs ({'/'.join(parts[own:])})"
    if parts[-1] in copies:
        return f"{'/'.join([store, *parts[:-1]])}: the consolidated metadata ({parts[-1]})"
    return f"{store}/{key}" if key else store


def join(prefix: str, name: str) -> Key:
    """Return the key of `name` below `prefix`; both are already checked."""
    return Key(f"{prefix}/{name}" if prefix else name)


def is_within(path: str, top: str) -> bool:
    """Return whether a key or prefix equals another one, or is below it."""
    return not top or path == top or path.startswith(f"{top}/")


def relative(key: str, top: str) -> str:
    """Return a key, or prefix, at or below another one as it is called from there."""
    return key[len(top) :].lstrip("/")


def moved(key: str, prefix: str, goal: str) -> Key:
    """Return the key, or prefix, at or below `prefix` after that is renamed to `goal`.

    So also the path of a node in its dataset.
    """
    return Key(goal + key[len(prefix) :])


def after_rename(key: str, prefix: str, goal: str) -> Prefix:
    """Return any prefix as it is after `prefix` is renamed to `goal`, with all below it."""
    return Prefix(moved(key, prefix, goal) if is_within(key, prefix) else key)


def _check(text: str) -> None:
    if fault := _fault(text):
        raise BadKey(f"{shown(text)} is not a key: {fault}")
    checked_length(text)


def _fault(text: str) -> str | None:
    if "\0" in text:
        return "it contains NUL"
    for component in text.split("/"):
        if component in {"", ".", ".."}:
            return f"it has the component {component!r}"
        if component.startswith(OWN_FILES):
            return f"names that start with {OWN_FILES!r} are reserved for nczfs itself"
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return "it has a lone surrogate that is not a byte"
    return None
