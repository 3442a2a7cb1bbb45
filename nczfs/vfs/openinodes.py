"""Open files that show the same values, each with pages of its own in the kernel."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.vfs.inodes import Inode
from nczfs.vfs.nodes import File


@dataclass(slots=True)
class _Opened:
    """The open handles of one inode, and those of them through whose mappings bytes can change."""

    inode: Inode
    arrays: frozenset[StoredArray]
    handles: int = 0
    mappable: int = 0


class OpenInodes:
    """The inodes with open handles that show arrays. `_lock` guards the dict."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[int, _Opened] = {}

    def opened(self, inode: Inode, node: File, *, is_mappable: bool) -> None:
        """Count a handle."""
        arrays = frozenset(node.arrays)
        if arrays:
            with self._lock:
                known = self._opened.setdefault(inode.ino, _Opened(inode, arrays))
                known.handles += 1
                known.mappable += is_mappable

    def closed(self, inode: Inode, *, is_mappable: bool) -> None:
        """Count a handle less."""
        with self._lock:
            known = self._opened.get(inode.ino)
            if known is not None:
                known.handles -= 1
                known.mappable -= is_mappable
                if not known.handles:
                    del self._opened[inode.ino]

    def beside(self, inode: Inode) -> tuple[list[Inode], bool]:
        """Return the other inodes that show an array of an open one.

        Returns
        -------
        these, and whether bytes of one can be changed through a mapping.
        """
        if len(self._opened) < 2:
            return [], False
        with self._lock:
            own = self._opened.get(inode.ino)
            if own is None:
                return [], False
            found = [
                each
                for each in self._opened.values()
                if each is not own and not each.arrays.isdisjoint(own.arrays)
            ]
        return [each.inode for each in found], any(each.mappable for each in found)
