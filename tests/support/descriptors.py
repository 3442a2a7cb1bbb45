"""The descriptors of this process."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def open_paths() -> list[str]:
    """What is open, as paths."""
    found: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """This process can open so many files, and no more."""
    unused = itertools.filterfalse(_is_open, itertools.count())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = next(itertools.islice(unused, count, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
