"""Open directories: their entries, with inode numbers and attributes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from nczfs.vfs.appearance import Appearance
from nczfs.vfs.base import DirectoryEntry, InodeNo
from nczfs.vfs.inodes import Inode, InodeTable
from nczfs.vfs.nodes import Directory, NumberedDirectory, TreeNode

FIRST_COOKIE = 3  # 0 is the start; 1 and 2 have a meaning for NFS


class OpenDirectory:
    """A listing as it was taken; entries are kept for a reader that goes back.

    It holds the inode of the directory until it is closed. `_lock` guards the entries, their
    source, and their inodes.
    """

    __slots__ = ("_appearance", "_entries", "_inodes", "_lock", "_made", "_source", "inode")

    def __init__(self, inode: Inode, inodes: InodeTable, appearance: Appearance) -> None:
        self.inode = inode
        self._inodes = inodes
        self._appearance = appearance
        self._lock = threading.Lock()
        self._entries: list[tuple[str, TreeNode]] = []
        self._source: Iterator[tuple[str, TreeNode]] = iter(())
        self._made: set[InodeNo] = set()
        inodes.opened(inode.ino)

    def read(self, cookie: int) -> Iterator[DirectoryEntry]:
        """Yield the entries after `cookie`; 0 takes a new listing. May block."""
        node = self.inode.node
        assert isinstance(node, Directory)
        position = max(0, cookie - FIRST_COOKIE + 1) if cookie else 0
        if isinstance(node, NumberedDirectory):
            return self._read_numbered(node, position)
        if cookie == 0:
            with self._lock:
                self._entries = []
                self._source = iter(node.listing())
        return self._read_on(position)

    def close(self) -> None:
        """Release the inodes that the kernel did not take. Never blocks."""
        self._inodes.drop_unused(self._made)
        self._inodes.closed(self.inode.ino)

    def _read_on(self, position: int) -> Iterator[DirectoryEntry]:
        while True:
            with self._lock:
                found = self._entry_at(position)
                if found is None:
                    return
                name, child = found
                inode = self._inodes.number(self.inode, name, child)
                self._made.add(inode.ino)
            node = inode.node
            sizings = inode.sizings
            attributes = self._appearance.of(inode.ino, node, node.listing_stat())
            self._inodes.sends_size(inode, attributes.size, sizings)
            yield DirectoryEntry(os.fsencode(name), attributes, position + FIRST_COOKIE)
            position += 1

    def _entry_at(self, position: int) -> tuple[str, TreeNode] | None:
        while len(self._entries) <= position:
            entry = next(self._source, None)
            if entry is None:
                return None
            self._entries.append(entry)
        return self._entries[position]

    def _read_numbered(self, node: NumberedDirectory, position: int) -> Iterator[DirectoryEntry]:
        """Yield any number of entries, without a node or record for each."""
        stat = node.child_stat()
        first = self._inodes.first_of_block(self.inode)
        mode = self._appearance.mode_of(node.child(0)) if node.count else 0
        for number in range(position, node.count):
            if not node.is_shown(number):
                continue
            name = node.name_of(number)
            if first is not None:
                ino = InodeNo(first + number)
            else:
                ino = self._inodes.number(self.inode, name, node.child(number)).ino
            attributes = self._appearance.of_file(ino, stat, mode)
            yield DirectoryEntry(os.fsencode(name), attributes, number + FIRST_COOKIE)
