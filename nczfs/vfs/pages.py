"""The kernel's pages of an open file."""

from __future__ import annotations

from nczfs.buffers import Buffer
from nczfs.engine.readahead.backwards import PageCache
from nczfs.vfs.base import Notifier, PageTicket
from nczfs.vfs.inodes import Inode


class InodePages(PageCache):
    """The pages of an inode.

    None are put while a program can write to the inode: its bytes enter the kernel's cache without
    a note.

    Parameters
    ----------
    ttl_s : for how long pages stay valid without asking the store.
    """

    def __init__(self, inode: Inode, notifier: Notifier, ttl_s: float) -> None:
        self._inode = inode
        self._notifier = notifier
        self._ttl_s = ttl_s

    @property
    def fresh_since(self) -> float:
        return self._inode.pages_from - self._ttl_s

    @property
    def takes_pages(self) -> bool:
        return not self._inode.writers

    def begin(self) -> object | None:
        # First the ticket, which is voided when the file is opened for writing afterwards.
        ticket = self._notifier.page_ticket(self._inode.ino)
        self._inode.takes_pages = True
        return ticket if self.takes_pages else None

    def put(self, ticket: object, offset: int, data: Buffer) -> bool:
        assert isinstance(ticket, PageTicket)
        if offset + len(data) > (self._inode.sent_size or 0):
            return False  # the kernel would make the file longer
        return self._notifier.put_pages(ticket, offset, data)
