"""Joining pieces to one buffer, on disk if they are too large for memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from tempfile import TemporaryFile

from nczfs.errors import NoSpace

IN_MEMORY_BYTES_MAX = 64 << 20


def join(
    pieces: Iterable[bytes | bytearray | memoryview], size: int
) -> bytes | bytearray | memoryview:
    """Return the concatenated pieces.

    Parameters
    ----------
    size : of all together; beyond 64 MiB they are in a nameless file that lives as long as the
        buffer.

    Raises
    ------
    NoSpace : there is no room for that file.
    """
    if size <= IN_MEMORY_BYTES_MAX:
        return b"".join(pieces)
    with TemporaryFile(prefix="nczfs-") as file:
        for piece in pieces:
            try:
                file.write(piece)
            except OSError as error:
                raise NoSpace(
                    f"no room for {size} bytes in the directory for temporary files ({error}); "
                    "TMPDIR names another one"
                ) from error
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
