"""Disks whose power fails: what was not synced is gone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock


class Disk:
    """What is on the disk of a directory for good: the bytes and names that were synced.

    What is there in the beginning is.

    Attributes
    ----------
    before_sync : called before each fsync and fdatasync.
    """

    def __init__(self, root: Path) -> None:
        self.before_sync: Callable[[], None] = lambda: None
        self._root = root.stat().st_ino
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, dict[str, tuple[int, bool]]] = {}
        for path in (root, *root.rglob("*")):
            self._keep(path.stat().st_ino, path)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take note of what is synced."""

        def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
            def noted(fd: int) -> None:
                self.before_sync()
                sync(fd)
                self._keep(os.fstat(fd).st_ino, Path(f"/proc/self/fd/{fd}"))

            return noted

        with (
            mock.patch("os.fsync", noting(os.fsync)),
            mock.patch("os.fdatasync", noting(os.fdatasync)),
        ):
            yield

    def after_failure(self, copy: Path) -> Path:
        """The directory as it is after the power has failed now."""
        copy.mkdir()
        self._restore(self._root, copy)
        return copy

    def _keep(self, inode: int, path: Path) -> None:
        if stat.S_ISDIR(path.stat().st_mode):
            with os.scandir(path) as entries:
                found = {each.name: (each.inode(), each.is_dir()) for each in entries}
            self._directories[inode] = found
        else:
            self._files[inode] = path.read_bytes()

    def _restore(self, inode: int, copy: Path) -> None:
        for name, (below, is_directory) in self._directories.get(inode, {}).items():
            if is_directory:
                (copy / name).mkdir()
                self._restore(below, copy / name)
            else:
                (copy / name).write_bytes(self._files.get(below, b""))
