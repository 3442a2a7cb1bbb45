"""Open files and directories, by the kernel's numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

from nczfs.errors import BadHandle
from nczfs.plaindata import frozen
from nczfs.vfs.base import HandleNo
from nczfs.vfs.inodes import Inode
from nczfs.vfs.nodes import OpenFile

_T = TypeVar("_T")


@frozen
class FileHandle:
    """An open file, and the inode that it holds.

    Attributes
    ----------
    writes : a program can change bytes through it.
    is_mappable : also through a mapping of it.
    """

    inode: Inode
    file: OpenFile
    writes: bool
    is_mappable: bool


class HandleTable(Generic[_T]):
    """Open files or directories. `_lock` guards the dict.

    Parameters
    ----------
    kind : what they are, for messages.
    numbers : source of handles; tables that share it never give the same number.
    """

    def __init__(self, kind: str, numbers: Iterator[int]) -> None:
        self._kind = kind
        self._numbers = numbers
        self._lock = threading.Lock()
        self._open: dict[HandleNo, _T] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, opened: _T) -> HandleNo:
        """Return a new handle for something that was opened."""
        with self._lock:
            handle = HandleNo(next(self._numbers))
            self._open[handle] = opened
        return handle

    def get(self, handle: HandleNo) -> _T:
        """Return what has a handle. Raises BadHandle."""
        found = self._open.get(handle)
        if found is None:
            raise BadHandle(f"no open {self._kind} has the handle {handle}")
        return found

    def take(self, handle: HandleNo) -> _T | None:
        """Remove and return what had a handle; None if nothing has it."""
        with self._lock:
            return self._open.pop(handle, None)

    def all(self) -> list[_T]:
        """Return everything that is open."""
        with self._lock:
            return list(self._open.values())

    def take_all(self) -> list[_T]:
        """Remove and return everything that was open."""
        with self._lock:
            found = list(self._open.values())
            self._open.clear()
            return found
