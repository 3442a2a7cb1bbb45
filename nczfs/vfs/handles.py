"""What is open, by the numbers that the kernel has for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from nczfs.errors import BadHandle
from nczfs.vfs.base import HandleNo
from nczfs.vfs.inodes import Inode
from nczfs.vfs.nodes import OpenFile

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FileHandle:
    """An open file, and the inode that it holds."""

    inode: Inode
    file: OpenFile


class HandleTable(Generic[_T]):
    """Open things of one kind. `_lock` guards the dict.

    Parameters
    ----------
    kind : what they are, for messages.
    numbers : where the next handle comes from; tables that share it never give the same number.
    """

    def __init__(self, kind: str, numbers: Iterator[int]) -> None:
        self._kind = kind
        self._numbers = numbers
        self._lock = threading.Lock()
        self._open: dict[HandleNo, _T] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, opened: _T) -> HandleNo:
        """The handle of something that was opened."""
        with self._lock:
            handle = HandleNo(next(self._numbers))
            self._open[handle] = opened
        return handle

    def get(self, handle: HandleNo) -> _T:
        """What has a handle. Raises BadHandle."""
        found = self._open.get(handle)
        if found is None:
            raise BadHandle(f"no open {self._kind} has the handle {handle}")
        return found

    def take(self, handle: HandleNo) -> _T | None:
        """What had a handle, which is free from now on; None when nothing has it."""
        with self._lock:
            return self._open.pop(handle, None)

    def all(self) -> list[_T]:
        """Everything that is open."""
        with self._lock:
            return list(self._open.values())

    def take_all(self) -> list[_T]:
        """Everything that was open; nothing is from now on."""
        with self._lock:
            found = list(self._open.values())
            self._open.clear()
            return found
