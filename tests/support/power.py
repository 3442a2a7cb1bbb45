"""Disks whose power fails: what was not synced is gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock


class Disk:
    """What is on the disk of a directory for good: the bytes and names that were synced.

    What is there in the beginning is. What has lost its name stays open for as long as the name is
    on the disk: its inode would be given to another file otherwise.

    Attributes
    ----------
    before_sync : called before each fsync and fdatasync.
    """

    def __init__(self, root: Path) -> None:
        self.before_sync: Callable[[], None] = lambda: None
        self._root = root.stat().st_ino
        self._files: dict[int, bytes] = {}
        self._held: dict[int, int] = {}  # descriptors, so that no other file gets the inode
        self._named: set[int] = set()  # inodes that have had a name
        self._lock = threading.Lock()  # guards all this
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

        try:
            with (
                mock.patch("os.fsync", noting(os.fsync)),
                mock.patch("os.fdatasync", noting(os.fdatasync)),
            ):
                yield
        finally:
            while self._held:
                os.close(self._held.popitem()[1])

    def after_failure(self, copy: Path) -> Path:
        """The directory as it is after the power has failed now."""
        copy.mkdir()
        self._restore(self._root, copy)
        return copy

    def _keep(self, inode: int, path: Path) -> None:
        with self._lock:
            self._hold(inode, path)
            if not path.is_dir():
                self._files[inode] = path.read_bytes()
                return
            with os.scandir(path) as entries:
                found = {each.name: (each.inode(), each.is_dir()) for each in entries}
            for name, (below, _) in found.items():
                with suppress(FileNotFoundError):  # another thread has just removed it
                    self._hold(below, path / name)
            self._directories[inode] = found
            self._named |= {below for below, _ in found.values()}
            self._forget()

    def _hold(self, inode: int, path: Path) -> None:
        if inode not in self._held:
            self._held[inode] = os.open(path, os.O_RDONLY)

    def _forget(self) -> None:
        """Let those go that have lost their last name, here and for good."""
        there = {below for found in self._directories.values() for below, _ in found.values()}
        for inode in self._named - there - {self._root}:
            self._named.remove(inode)
            held = self._held.get(inode)
            if held is not None and os.fstat(held).st_nlink == 0:
                os.close(self._held.pop(inode))
                self._files.pop(inode, None)
                self._directories.pop(inode, None)

    def _restore(self, inode: int, copy: Path) -> None:
        for name, (below, is_directory) in self._directories.get(inode, {}).items():
            if is_directory:
                (copy / name).mkdir()
                self._restore(below, copy / name)
            else:
                (copy / name).write_bytes(self._files.get(below, b""))
