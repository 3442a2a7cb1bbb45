"""The kernel's cache of names, attributes and pages, and what it must forget."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from weakref import WeakKeyDictionary, WeakSet

from nczfs.engine.arrays.array import now
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.vfs.base import Notifier
from nczfs.vfs.handles import FileHandle
from nczfs.vfs.inodes import Inode, InodeTable
from nczfs.vfs.nodes import File, OpenFile
from nczfs.vfs.openinodes import OpenInodes
from nczfs.vfs.pages import InodePages


def writes(flags: int) -> bool:
    """Return whether bytes can change through a file that is opened with some flags."""
    return flags & (os.O_ACCMODE | os.O_TRUNC) != os.O_RDONLY


class KernelCache:
    """The kernel's knowledge of inodes.

    Parameters
    ----------
    notifier : of the kernel; None if nothing is mounted.
    pages_ttl_s : for how long pages in the kernel's cache stay valid without asking the store.

    Attributes
    ----------
    open_inodes : those that show arrays.
    """

    def __init__(self, inodes: InodeTable, notifier: Notifier | None, pages_ttl_s: float) -> None:
        self._inodes = inodes
        self._notifier = notifier
        self._pages_ttl_s = pages_ttl_s
        self.open_inodes = OpenInodes()
        self._showing: WeakKeyDictionary[StoredArray, WeakSet[Inode]] = WeakKeyDictionary()
        self._showing_lock = threading.Lock()

    def changing(self, *entries: tuple[Inode, str]) -> AbstractContextManager[None]:
        """Enclose a request of the kernel that changes something, perhaps names in directories.

        Notes from within the block reach the kernel before it answers its caller.
        """
        if self._notifier is None:
            return nullcontext()
        named = [(parent.ino, name) for parent, name in entries]
        themselves = [inode.ino for at in named if (inode := self._inodes.at(*at)) is not None]
        return self._notifier.changing(
            [(parent, os.fsencode(name)) for parent, name in named], themselves
        )

    def keeps_pages(self, inode: Inode, node: File, token_before: object) -> bool:
        """Return whether pages of the last open are valid: same version, and recent enough.

        Parameters
        ----------
        token_before : the `pages_token` of `node` from before it was opened.
        """
        known = inode.pages_token
        token = node.pages_token
        fresh = now() - inode.pages_from < self._pages_ttl_s
        keep = known is not None and known == token == token_before and fresh
        if token is not None and token == known and node.pages_token_is_version:
            keep = True
        if not keep:
            inode.pages_token = token
            inode.pages_from = now()
            if len(node.arrays) > 1:
                self._note_showing(inode, node)
        return keep and not node.direct_io

    def opened(self, inode: Inode, file: OpenFile, flags: int, *, kept: bool) -> None:
        """Note an open file, before the kernel knows of it.

        Pages that are not kept are not put either, if they were read before.

        Parameters
        ----------
        flags : of open(2).
        kept : the kernel keeps the pages of an earlier open.
        """
        if writes(flags):
            self._inodes.can_change(inode, 1, is_mappable=flags & os.O_ACCMODE == os.O_RDWR)
        if self._notifier is None or not self._inodes.is_recorded(inode):
            return
        if not writes(flags) and not flags & os.O_DIRECT:
            file.puts_pages(InodePages(inode, self._notifier, self._pages_ttl_s))
        if writes(flags) or not kept:
            self._notifier.void_pages(inode.ino)

    def closed(self, handle: FileHandle) -> None:
        """Note a closed file."""
        if handle.writes:
            self._inodes.can_change(handle.inode, -1, is_mappable=handle.is_mappable)

    @contextmanager
    def resizing(self, inode: Inode) -> Iterator[None]:
        """Enclose a change of size without an open file, in which no pages are put."""
        self._inodes.can_change(inode, 1, is_mappable=False)
        try:
            if self._notifier is not None:
                self._notifier.void_pages(inode.ino)
            yield
        finally:
            self._inodes.can_change(inode, -1, is_mappable=False)

    @contextmanager
    def writing(self, inode: Inode) -> Iterator[None]:
        """Enclose a write to an open file; others that show the same values keep no old pages.

        Pages that were changed through a mapping of another file are written back before: the rest
        of them is as old as the values before the write.
        """
        others, are_mappable = self.open_inodes.beside(inode)
        if not others or self._notifier is None:
            yield
            return
        with self._notifier.writing(inode.ino) as settle:
            if are_mappable:
                self.forget_contents(others)
                settle()
            try:
                yield
            finally:
                self.forget_contents(others)

    def check_size(self, inode: Inode) -> None:
        """Make the kernel ask again for a file whose size differs from the one it knows."""
        stat = inode.node.listing_stat()
        if inode.sent_size is not None and stat.exact and stat.size != inode.sent_size:
            self._forget_content(inode)

    def forget_all(self, concerns: Callable[[str], bool]) -> None:
        """Make the kernel ask again for the files whose paths `concerns` selects."""
        for inode in self._inodes.all():
            if concerns(self._inodes.path(inode)):
                self._forget(inode)

    def forget_below(self, path: str) -> None:
        """Make the kernel ask again for what is at or below a path, or for its absence."""
        words = path.split("/")
        *above, last = self._inodes.along(words)
        if len(above) == len(words):
            for inode in self._inodes.below(last):
                self._forget(inode)
        else:
            self._forget_absence(last, words[len(above)])

    def forget_absence(self, path: str) -> None:
        """Make the kernel ask again for what it may know to be absent at a path, or above it."""
        words = path.split("/")
        *above, last = self._inodes.along(words)
        if len(above) < len(words):
            self._forget_absence(last, words[len(above)])

    def _forget_absence(self, directory: Inode, name: str) -> None:
        if self._notifier is not None:
            self._notifier.invalidate_entry(directory.ino, os.fsencode(name))

    def forget_content(self, path: str) -> None:
        """Make the kernel ask again for the bytes and sizes of files at or below a path."""
        words = path.split("/")
        found = self._inodes.along(words)
        if len(found) <= len(words):
            return
        for inode in self._inodes.below(found[-1]):
            self._forget_content(inode)

    def forget_entry(self, inode: Inode) -> None:
        """Make the kernel look up again what has, or had, the name of an inode."""
        if self._notifier is not None:
            self._notifier.invalidate_entry(inode.parent, os.fsencode(inode.name))

    def forget_showing(self, array: StoredArray) -> None:
        """Make the kernel ask again for the files that show an array together with others."""
        with self._showing_lock:
            inodes = list(self._showing.get(array, ()))
        self.forget_contents(inodes)

    def forget_contents(self, inodes: Iterable[Inode]) -> None:
        """Make the kernel ask again for the bytes and sizes of some files."""
        for inode in inodes:
            if isinstance(inode.node, File):
                self._forget_content(inode)

    def forget_files(self, path: str) -> None:
        """Make the kernel ask again for the files directly in each directory along a path.

        The directories stay known: in one that was forgotten, getcwd(2) fails.
        """
        for directory in self._inodes.along(path.split("/")):
            for inode in self._inodes.children(directory):
                if isinstance(inode.node, File):
                    self._forget(inode)

    def _note_showing(self, inode: Inode, node: File) -> None:
        with self._showing_lock:
            for array in node.arrays:
                self._showing.setdefault(array, WeakSet()).add(inode)

    def _forget(self, inode: Inode) -> None:
        self._forget_content(inode)
        self.forget_entry(inode)

    def _forget_content(self, inode: Inode) -> None:
        inode.pages_token = None
        if self._notifier is not None:
            self._notifier.invalidate_inode(inode.ino)
