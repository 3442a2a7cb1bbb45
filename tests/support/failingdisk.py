"""The local disk of a spool, which fails at a chosen use."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from nczfs.engine.spool import disk as seam


class FailingDisk:
    """Counts the uses of the disk by this process, one of which fails as when the disk is full.

    Attributes
    ----------
    uses : so far.
    fails_at : the number of that use, counted from 0; None: none fails.
    is_full : whether writes fail from now on, because one was cut short.
    """

    def __init__(self) -> None:
        self.uses = 0
        self.fails_at: int | None = None
        self.is_full = False

    @contextmanager
    def disk(self, path: Path) -> Iterator[None]:
        """In place of `nczfs.engine.spool.disk.disk`: nothing is done."""
        with _disk(path):
            if self._fails():
                raise _full()
            yield

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        """In place of `os.pwrite`: half of it is written."""
        if self.is_full:
            raise _full()
        self.is_full = self._fails()
        whole = memoryview(data).cast("B")
        return _pwrite(fd, whole[: len(whole) // 2] if self.is_full else whole, offset)

    def writev(self, fd: int, parts: Sequence[Any]) -> int:
        """In place of `os.writev`: half of it is written."""
        if self.is_full:
            raise _full()
        self.is_full = self._fails()
        whole = b"".join(parts)
        return _writev(fd, [whole[: len(whole) // 2] if self.is_full else whole])

    def _fails(self) -> bool:
        fails = self.uses == self.fails_at
        self.uses += 1
        return fails


_disk, _pwrite, _writev = seam.disk, os.pwrite, os.writev


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def failing_disk(*, partly: bool) -> Iterator[FailingDisk]:
    """Have all modules use a disk that can fail.

    Parameters
    ----------
    partly : a write fails in its middle; otherwise each use fails before it does anything.
    """
    found = FailingDisk()
    if partly:
        patches = [mock.patch.object(os, name, getattr(found, name)) for name in _WRITES]
    else:
        users = [each for each in [*sys.modules.values()] if getattr(each, "disk", None) is _disk]
        patches = [mock.patch.object(module, "disk", found.disk) for module in users]
    for patch in patches:
        patch.start()
    try:
        yield found
    finally:
        for patch in patches:
            patch.stop()


_WRITES = ("pwrite", "writev")
