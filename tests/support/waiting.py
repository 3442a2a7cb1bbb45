"""Waiting for what comes by and by."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 120.0
PAUSES_S = (0.002, 0.05)  # from and to: looking takes processor time from what is waited for


def until(condition: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
    """Return when a condition holds; it fails the test when it does not come to hold."""
    deadline = time.monotonic() + seconds
    pause_s, longest_s = PAUSES_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, longest_s)
