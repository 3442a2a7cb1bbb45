"""Waiting for what comes by and by."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 120.0


def until(condition: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
    """Return when a condition holds; it fails the test when it does not come to hold."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
