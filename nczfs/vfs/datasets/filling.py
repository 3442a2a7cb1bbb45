"""The values of a variable that a program rewrites."""

from __future__ import annotations

import threading

from nczfs.buffers import Buffer
from nczfs.errors import BadArgument
from nczfs.vfs.datasets.refusals import RefusalsOfFile
from nczfs.vfs.datasets.valuesfile import ValuesFile
from nczfs.vfs.nodes import OpenFile

BLOCK_BYTES = 4 << 20


class Filling(OpenFile):
    """A new, still empty file with values.

    Writes go to the variable at once, so that nothing is held here. Bytes that a program skips are
    zeros, as in any file. `_lock` guards the end, and serialises writes.
    """

    def __init__(self, file: ValuesFile, refusals: RefusalsOfFile) -> None:
        self._file = file
        self._view = file.open(writing=True)
        self._refusals = refusals
        self._lock = threading.Lock()
        self._end = 0

    def read(self, offset: int, size: int) -> Buffer:
        return self._view.read(offset, max(0, min(size, self._end - offset)))

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        with self._lock, self._refusals.noted():
            self._skip_to(offset)
            self._view.write(offset, data)
            self._end = max(self._end, offset + len(data))
        return len(data)

    def truncate(self, size: int) -> None:
        with self._lock, self._refusals.noted():
            self._skip_to(size)
            self._end = min(self._end, size)

    def flush(self) -> None:
        with self._lock, self._refusals.noted():
            if not self._end:
                return
            self._view.flush()
            size = self._file.layout().size
            if self._end != size:
                raise BadArgument(
                    f"{self._file.place}: {self._end} bytes were written, and it has {size}: the "
                    "rest is fill"
                )
            self._refusals.settle()

    def fsync(self) -> None:
        self.flush()
        self._view.fsync()

    def close(self) -> None:
        self._view.close()

    def drop(self) -> None:
        self._view.drop()

    def _skip_to(self, offset: int) -> None:
        """Write the zeros between the end and the next bytes."""
        while self._end < offset:
            count = min(BLOCK_BYTES, offset - self._end)
            self._view.write(self._end, bytes(count))
            self._end += count
