"""Files of literal bytes."""

from __future__ import annotations

import os
import weakref

from nczfs.errors import CorruptStore


class LiteralFile:
    """A file of literal bytes, closed when nothing refers to it any more.

    Parameters
    ----------
    descriptor : open for reading; becomes this object's own.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on. Raises CorruptStore when the file is too short."""
        data = os.pread(self._descriptor, size, offset)
        if len(data) != size:
            raise CorruptStore(f"a file of literal bytes ends before byte {offset + size}")
        return data
