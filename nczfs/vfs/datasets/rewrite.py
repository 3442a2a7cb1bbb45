"""The new contents of a whole file, kept aside until they are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from nczfs.buffers import Buffer
from nczfs.errors import NoSpace


class Rewrite:
    """The bytes written to a file since it was truncated, in a temporary file without a name."""

    def __init__(self) -> None:
        with _translated():
            # Closed together with the open file.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.size = 0

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes anywhere; a gap before them becomes zeros. Raises NoSpace."""
        given = memoryview(data)
        with _translated():
            while given:
                written = os.pwrite(self._file.fileno(), given, offset)
                offset += written
                given = given[written:]
        self.size = max(self.size, offset)

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of what was written so far, cut at its end."""
        return os.pread(self._file.fileno(), size, offset)

    def truncate(self, size: int) -> None:
        """Shorten the file, or extend it with zeros."""
        with _translated():
            os.ftruncate(self._file.fileno(), size)
        self.size = size

    def close(self) -> None:
        """Release the disk space."""
        self._file.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoSpace(
            f"{tempfile.gettempdir()}: no room for a rewritten file ({error.strerror}); set TMPDIR "
            "or write in place (dd conv=notrunc)"
        ) from error
