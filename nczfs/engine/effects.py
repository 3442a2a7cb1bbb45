"""When a request begins to have an effect: before, its deadline withdraws it, later it is awaited.

Whoever was told that a write failed for want of time may write again, or something else; what was
given up must not come over that later. So a request that has waited for too long, for a lock or a
lease, is withdrawn before it can do anything, and one that has begun is answered when it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum, auto

from nczfs.errors import DeadlinePassed


class _State(Enum):
    WAITING = auto()
    ACTING = auto()
    WITHDRAWN = auto()


class Request:
    """A request, for its thread and for who waits for its answer. `_lock` guards the state."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = _State.WAITING

    def begin(self) -> None:
        """It has an effect from now on. Raises DeadlinePassed: it was withdrawn."""
        with self._lock:
            if self._state is _State.WITHDRAWN:
                raise DeadlinePassed("it waited beyond its deadline, and nothing was changed")
            self._state = _State.ACTING

    def withdraw(self) -> bool:
        """Have it never have an effect; False: it may have had some already."""
        with self._lock:
            if self._state is _State.WAITING:
                self._state = _State.WITHDRAWN
            return self._state is _State.WITHDRAWN

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """What is done in this block, by this thread, is done for the request."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Request | None] = ContextVar("request", default=None)


def begin() -> None:
    """Something is about to be changed for the request that this thread works for, if for any.

    To be called when nothing is waited for any more. Raises DeadlinePassed.
    """
    request = _current.get()
    if request is not None:
        request.begin()
