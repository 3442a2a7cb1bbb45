"""What writers leave that are killed: temporary files, and directories without keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from typing import Final

from nczfs.zmap.directory.rooted import READ, RootedDirectory
from nczfs.zmap.keys import OWN_FILES

TEMPORARY: Final = f"{OWN_FILES}tmp-"


def new_temporary() -> str:
    """A name for a temporary file; its writer holds a lock on the file as long as it lives."""
    return f"{TEMPORARY}{secrets.token_hex(8)}"


class Leftovers:
    """Removes what nobody needs any more.

    Parameters
    ----------
    locks : living writers lock their temporary files; otherwise all of them are left alone.
    """

    def __init__(self, root: RootedDirectory, *, locks: bool) -> None:
        self._root = root
        self._locks = locks

    def sweep(self, name: str, dir_fd: int) -> bool:
        """Remove a temporary file whose writer is dead; True when that was done."""
        if not self._locks or not name.startswith(TEMPORARY):
            return False
        with contextlib.suppress(OSError):
            fd = os.open(name, READ, dir_fd=dir_fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=dir_fd)
                return True
            finally:
                os.close(fd)
        return False

    def prune(self, path: str) -> None:
        """Remove a directory and those above it, as far as they are empty; never the root."""
        while path:
            parent, _, leaf = path.rpartition("/")
            try:
                with self._root.directory(parent, os.O_PATH) as dir_fd:
                    os.rmdir(leaf, dir_fd=dir_fd)
            except OSError:
                return  # not empty, somebody else's, or gone already
            path = parent
