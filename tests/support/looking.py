"""Looking at a real mount: its daemon, its errors, exact ranges of its files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.mounts import NCZFS, Served, served


def store_served(
    url: str | Path, *options: str, expect: str | None = None
) -> AbstractContextManager[Served]:
    """As `tests.support.mounts.mounted`, with the daemon's process and log."""
    return served(mounting_of(url, *options), expect=expect)


def mounting_of(url: str | Path, *options: str) -> list[str]:
    """The command that mounts a store, but for where."""
    return [*NCZFS, "mount", "--foreground", *options, str(url)]


@contextmanager
def failing_with(*numbers: int) -> Iterator[None]:
    """What is done in this context must end with an OSError of one of these numbers."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is looked at below
        yield
    found = errno.errorcode.get(caught.value.errno or 0)
    assert caught.value.errno in numbers, f"{found} instead of {numbers}"


def pread_direct(path: Path, size: int, offset: int) -> bytes:
    """Bytes of a file as the daemon gives them for exactly that range, no page around them."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = bytearray(size)
        return bytes(buffer[: os.preadv(fd, [buffer], offset)])
    finally:
        os.close(fd)


def forget_peak(pid: int) -> None:
    """Have the peak of a process count from what it has in use now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The most memory that a process had in use."""
    text = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
