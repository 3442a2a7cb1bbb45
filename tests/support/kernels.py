"""A stand-in for the kernel's caches, in process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from nczfs.vfs.base import Entry, InodeNo


class Kernel:
    """Notes what it has to forget, and what changes."""

    def __init__(self) -> None:
        self.inodes: list[InodeNo] = []
        self.entries: list[Entry] = []
        self.changes: list[tuple[Collection[Entry], Collection[InodeNo]]] = []

    def invalidate_inode(self, ino: InodeNo) -> None:
        self.inodes.append(ino)

    def invalidate_entry(self, parent: InodeNo, name: bytes) -> None:
        self.entries.append((parent, name))

    @contextmanager
    def changing(
        self, entries: Collection[Entry] = (), locked: Collection[InodeNo] = ()
    ) -> Iterator[None]:
        self.changes.append((entries, locked))
        yield

    @contextmanager
    def writing(self, ino: InodeNo) -> Iterator[Callable[[], None]]:
        yield lambda: None
