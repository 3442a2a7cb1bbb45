"""Reading files by ranges."""

from __future__ import annotations

import os


def read_at(fd: int, start: int, stop: int) -> bytes:
    """Read bytes [start, stop), fewer only at the end. One system call reads less than 2 GiB."""
    data = os.pread(fd, stop - start, start)
    if len(data) == stop - start:
        return data
    parts = [data]
    while data and (start := start + len(data)) < stop:
        data = os.pread(fd, stop - start, start)
        parts.append(data)
    return b"".join(parts)
