"""Reading files by ranges."""

from __future__ import annotations

import os


def read_at(fd: int, start: int, stop: int) -> bytes:
    """Bytes [start, stop), fewer only at the end. One call gives at most 2 GiB less a page."""
    data = os.pread(fd, stop - start, start)
    if len(data) == stop - start:
        return data
    parts = [data]
    while data and (start := start + len(data)) < stop:
        data = os.pread(fd, stop - start, start)
        parts.append(data)
    return b"".join(parts)
