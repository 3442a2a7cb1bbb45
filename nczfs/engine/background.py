"""Looking after what has become old, in the background."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

TURNS = 5  # in the time after which a thing is old
TURN_S_MIN = 0.05
TURN_S_MAX = 5.0  # what failed is due after a pause of its own, however late the rest is

_LIVING: weakref.WeakSet[Background] = weakref.WeakSet()


class Background:
    """A thread that runs while something waits to become old.

    The first thing that waits starts it, so that no thread exists before a fork. `_lock` guards the
    thread and the flags.

    Parameters
    ----------
    end_aged : ends what began before a time of the monotonic clock, and returns whether anything is
        left. Never raises.
    age_s : after how long a thing is old.
    """

    def __init__(self, end_aged: Callable[[float], bool], age_s: float) -> None:
        self._end_aged = end_aged
        self._age_s = age_s
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_expecting = False
        self._at_once = False
        self._closed = False
        _LIVING.add(self)

    def expect(self, *, at_once: bool = False) -> None:
        """Note that something waits, and can be found; `at_once`: there is much of it."""
        if self._is_expecting and (self._at_once or not at_once):
            return
        with self._lock:
            self._is_expecting = True
            self._at_once = self._at_once or at_once
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="nczfs-age", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Let the thread end after what it is doing."""
        with self._lock:
            self._closed = True
            self._wake.notify()

    def join(self) -> None:
        """Wait for the thread to end."""
        if self._thread is not None:
            self._thread.join()

    def _forget_thread(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._thread = None
        self._is_expecting = False

    def _run(self) -> None:
        turn_s = min(max(self._age_s / TURNS, TURN_S_MIN), TURN_S_MAX)
        while True:
            with self._lock:
                self._wake.wait_for(lambda: self._is_expecting or self._closed)
                self._wake.wait_for(lambda: self._at_once or self._closed, turn_s)
                if self._closed:
                    return
                # What comes later calls `expect` again.
                self._is_expecting = self._at_once = False
            is_left = self._end_aged(time.monotonic() - self._age_s)
            if is_left:
                self.expect()


def _after_fork() -> None:
    for background in list(_LIVING):
        background._forget_thread()


os.register_at_fork(after_in_child=_after_fork)
