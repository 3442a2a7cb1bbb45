"""Waiting for what comes by and by."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Protocol

TIMEOUT_S = 120.0
PAUSES_S = (0.002, 0.05)  # from and to: looking takes processor time from what is waited for


class _File(Protocol):
    def fileno(self) -> int: ...


def until(condition: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
    """Return when a condition holds; it fails the test when it does not come to hold."""
    deadline = time.monotonic() + seconds
    pause_s, longest_s = PAUSES_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, longest_s)


def is_readable(file: _File | int, seconds: float | None = 0.0) -> bool:
    """Wait until there is something to read, or the other end is closed; None: for ever.

    `select.select` fails for descriptors from 1024 on, which a long run of tests may reach.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if seconds is None else 1000 * seconds))
