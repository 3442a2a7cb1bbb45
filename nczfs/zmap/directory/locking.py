"""A lock on a directory that several processes honour.

It is held on a descriptor of the directory itself: there is no lock file among the keys, and the
kernel drops the lock when its holder ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from typing import Final

_FIRST_PAUSE_S: Final = 0.0002  # the lock is held for a comparison and a rename
_LONGEST_PAUSE_S: Final = 0.02


def can_lock(fd: int) -> bool:
    """Return whether the file system of an open directory has flock; some network ones lack it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


@contextlib.contextmanager
def hold_lock(fd: int, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of an open directory. Raises BlockingIOError if others keep it that long.

    Polled, because a blocking flock has no deadline and its holder may be a stopped process.
    """
    pause_s = _FIRST_PAUSE_S
    give_up = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
