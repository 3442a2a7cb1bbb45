"""The headway of long computations, for requests that wait for them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Headway:
    """The time when one of some computations last went on.

    Attributes
    ----------
    at : by the monotonic clock. Threads write it without a lock.
    """

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = -math.inf

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note here the steps that this thread takes in the block."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Headway | None] = ContextVar("headway", default=None)


def make() -> None:
    """Note that this thread has taken one of many steps, each of which is short."""
    headway = _current.get()
    if headway is not None:
        headway.at = time.monotonic()
