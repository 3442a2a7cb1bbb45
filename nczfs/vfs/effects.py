"""The time when a request begins to have an effect, until which its deadline can withdraw it.

A caller whose write timed out may write again, or write something else; the old write must not
overwrite that later. So a request that has waited too long for a lock or a lease is withdrawn
before it can do anything, and one that has begun is answered when it has ended.
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


class TimedRequest:
    """A request, shared by its thread and the waiting caller. `_lock` guards the state."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = _State.WAITING

    def begin(self) -> None:
        """Note that the request has an effect. Raises DeadlinePassed if it was withdrawn."""
        with self._lock:
            if self._state is _State.WITHDRAWN:
                raise DeadlinePassed("it waited beyond its deadline, and nothing was changed")
            self._state = _State.ACTING

    def withdraw(self) -> bool:
        """Keep the request from having an effect. Returns False if it may have had one."""
        with self._lock:
            if self._state is _State.WAITING:
                self._state = _State.WITHDRAWN
            return self._state is _State.WITHDRAWN

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Attribute what this thread does during the block to the request."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[TimedRequest | None] = ContextVar("request", default=None)


def begin() -> None:
    """Note that this thread is about to change something for its request, if it has one.

    To be called after all waiting. Raises DeadlinePassed.
    """
    request = _current.get()
    if request is not None:
        request.begin()
