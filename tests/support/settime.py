"""A clock that a test sets."""

from __future__ import annotations


class SetTime:
    """A clock that stands until the test sets `now`."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
