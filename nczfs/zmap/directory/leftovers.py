"""Remains of killed writers: temporary files, places aside, and directories without keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from typing import Final

from nczfs.zmap.aside import ASIDE
from nczfs.zmap.directory.rooted import DIRECTORY, READ, RootedDirectory
from nczfs.zmap.keys import OWN_FILES

TEMPORARY: Final = f"{OWN_FILES}tmp-"


def new_temporary() -> str:
    """Return a name for a temporary file, on which its living writer holds a lock."""
    return f"{TEMPORARY}{secrets.token_hex(8)}"


class Leftovers:
    """A remover of remains.

    Parameters
    ----------
    locks : whether living writers lock their temporary files; otherwise all are left alone.
    """

    def __init__(self, root: RootedDirectory, *, locks: bool) -> None:
        self._root = root
        self._locks = locks

    def sweep(self, name: str, dir_fd: int) -> bool:
        """Remove what a writer left if it is dead. Returns whether it was removed."""
        if self._locks and name.startswith(ASIDE):
            return self._sweep_aside(name, dir_fd)
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

    def _sweep_aside(self, name: str, dir_fd: int) -> bool:
        with contextlib.suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | DIRECTORY, dir_fd=dir_fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(name, dir_fd=dir_fd)
                return True
            finally:
                os.close(fd)
        return False

    def prune(self, path: str) -> None:
        """Remove a directory and those above it if they are empty, but never the root."""
        while path:
            parent, _, leaf = path.rpartition("/")
            try:
                with self._root.directory(parent, os.O_PATH) as dir_fd:
                    os.rmdir(leaf, dir_fd=dir_fd)
            except OSError:
                return  # not empty, another user's, or gone already
            path = parent
