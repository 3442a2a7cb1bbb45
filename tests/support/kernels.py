"""A stand-in for the kernel's caches, in process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from nczfs.buffers import Buffer
from nczfs.vfs.base import Entry, InodeNo, PageTicket


class Kernel:
    """Notes what it has to forget, what changes, and what is put into its cache."""

    def __init__(self) -> None:
        self.inodes: list[InodeNo] = []
        self.entries: list[Entry] = []
        self.changes: list[tuple[Collection[Entry], Collection[InodeNo]]] = []
        self.pages: list[tuple[PageTicket, int, bytes]] = []
        self._tickets: dict[InodeNo, PageTicket] = {}

    def invalidate_inode(self, ino: InodeNo) -> None:
        self.void_pages(ino)
        self.inodes.append(ino)

    def page_ticket(self, ino: InodeNo) -> PageTicket:
        return self._tickets.setdefault(ino, PageTicket(ino))

    def put_pages(self, ticket: PageTicket, offset: int, data: Buffer) -> bool:
        if ticket.is_valid:
            self.pages.append((ticket, offset, bytes(data)))
        return ticket.is_valid

    def void_pages(self, ino: InodeNo) -> None:
        ticket = self._tickets.pop(ino, None)
        if ticket is not None:
            ticket.is_valid = False

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
