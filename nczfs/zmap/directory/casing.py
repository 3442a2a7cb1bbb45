"""File systems that do not distinguish names by case."""

from __future__ import annotations

import fcntl
import os
from typing import Final

from nczfs.errors import ObjectExists
from nczfs.zmap.directory.leftovers import new_temporary
from nczfs.zmap.directory.rooted import RootedDirectory
from nczfs.zmap.keys import Key, join

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def seen_case_sensitive(dir_fd: int) -> bool | None:
    """Return whether the names in a directory show case sensitivity; None: they do not tell."""
    with os.scandir(dir_fd) as entries:
        for entry in entries:
            if (other := entry.name.swapcase()) != entry.name:
                try:
                    status = os.stat(other, dir_fd=dir_fd, follow_symlinks=False)
                except OSError:
                    return True
                return status.st_ino != entry.inode()
    return None


def tried_case_sensitive(dir_fd: int) -> bool:
    """Find out about case sensitivity with a temporary file in a directory."""
    temporary = new_temporary()
    fd = os.open(temporary, _NEW, 0o600, dir_fd=dir_fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # others remove files that are not locked
        try:
            os.stat(temporary.swapcase(), dir_fd=dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return False
    finally:
        os.unlink(temporary, dir_fd=dir_fd)
        os.close(fd)


def check_spelling(root: RootedDirectory, key: Key, what: str) -> None:
    """Refuse a key that the file system does not distinguish from another one.

    Parameters
    ----------
    what : the name of the object in messages.

    Raises
    ------
    ObjectExists : another spelling exists. FileNotFoundError : a directory of the key is missing.
    """
    parent = ""
    for leaf in key.split("/"):
        with root.directory(parent) as dir_fd:
            if other := _other_spelling(leaf, dir_fd):
                raise ObjectExists(
                    f"{what}: {other} exists, which this file system does not "
                    f"distinguish from {leaf}"
                )
        parent = join(parent, leaf)


def _other_spelling(name: str, dir_fd: int) -> str | None:
    """Return the name in a readable directory that differs from `name` only in case."""
    found = None
    with os.scandir(dir_fd) as entries:
        for entry in entries:
            if entry.name == name:
                return None
            if entry.name.casefold() == name.casefold():
                found = entry.name
    return found
