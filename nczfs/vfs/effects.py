"""What the deadline of a request depends on: whether it has an effect, and what it waits for.

A caller whose write timed out may write again, or write something else; the old write must not
overwrite that later. So a request that has waited too long for a lock or a lease is withdrawn
before it can do anything, and one that has begun is answered when it has ended. One that waits for
a long computation of this process is answered then, too: to end it would gain nobody anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum, auto

from nczfs.engine.headway import Headway
from nczfs.errors import DeadlinePassed


class _State(Enum):
    WAITING = auto()
    ACTING = auto()
    WITHDRAWN = auto()


class TimedRequest:
    """A request, shared by its thread and the waiting caller. `_lock` guards the state.

    Attributes
    ----------
    waits_for : the headway that lengthens its deadline at present.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = _State.WAITING
        self.waits_for: Headway | None = None

    def time_left_s(self, timeout_s: float) -> float:
        """Return for how long the caller still waits after its deadline, given the headway.

        Parameters
        ----------
        timeout_s : without any headway.
        """
        headway = self.waits_for
        return 0.0 if headway is None else headway.at + timeout_s - time.monotonic()

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


@contextmanager
def waiting_for(headway: Headway) -> Iterator[None]:
    """Let the request of this thread wait in the block for as long as there is headway."""
    request = _current.get()
    if request is None:
        yield
        return
    before, request.waits_for = request.waits_for, headway
    try:
        yield
    finally:
        request.waits_for = before
