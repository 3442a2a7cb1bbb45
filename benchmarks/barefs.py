"""A pyfuse3 file system that does nothing but serve one file from memory: the ceiling.

python -m benchmarks.barefs MOUNTPOINT SIZE
"""

from __future__ import annotations

import stat
import sys
from typing import Any

import numpy as np
import pyfuse3
import trio

ROOT, FILE = 1, 2


class BareFileSystem(pyfuse3.Operations):
    """One file called ``values``; reads hand out slices of one array."""

    enable_writeback_cache = False

    def __init__(self, size: int) -> None:
        super().__init__()
        values = np.random.default_rng(1).integers(0, 255, size, np.uint8)
        self._data = memoryview(values)  # type: ignore[arg-type]

    def _attributes(self, inode: int) -> pyfuse3.EntryAttributes:
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = inode
        entry.st_mode = (stat.S_IFDIR | 0o555) if inode == ROOT else (stat.S_IFREG | 0o444)
        entry.st_size = 0 if inode == ROOT else len(self._data)
        return entry

    async def getattr(self, inode: int, ctx: object = None) -> pyfuse3.EntryAttributes:
        return self._attributes(inode)

    async def lookup(
        self, parent_inode: int, name: bytes, ctx: object = None
    ) -> pyfuse3.EntryAttributes:
        if name != b"values":
            raise pyfuse3.FUSEError(2)
        return self._attributes(FILE)

    async def open(self, inode: int, flags: int, ctx: object) -> pyfuse3.FileInfo:
        return pyfuse3.FileInfo(fh=inode, keep_cache=False)

    async def read(self, fh: int, off: int, size: int) -> Any:
        return self._data[off : off + size]


def main() -> None:
    """Mount and serve until unmounted."""
    pyfuse3.init(BareFileSystem(int(sys.argv[2])), sys.argv[1], {"fsname=bare"})
    trio.run(pyfuse3.main)
    pyfuse3.close()


if __name__ == "__main__":
    main()
