"""Threads that stop at a step of what they do, and go on when they may."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import nczfs

PACKAGE = nczfs.__path__[0]
PLACES = tuple(f"{PACKAGE}/{layer}/" for layer in ("vfs", "engine", "zmap"))
DEADLINE_S = 60.0


class Steps:
    """Steps of an operation, and of what it has other threads do: the functions that are called.

    Each counts when it is called for the first time.

    Parameters
    ----------
    stop_at : the number of the step before which the operation waits; None: nowhere.

    Attributes
    ----------
    names : of the steps so far.
    """

    def __init__(self, stop_at: int | None = None) -> None:
        self.names: list[str] = []
        self._stop_at = stop_at
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._may_go_on = threading.Event()

    def start(self, operation: Callable[[], None]) -> Work:
        """Begin the operation; returns when it has ended or come to the step."""
        work = Work(lambda: self._watched(operation), self._stopped.set)
        assert self._stopped.wait(DEADLINE_S)
        return work

    def go_on(self) -> None:
        """Let the operation do the rest."""
        self._may_go_on.set()

    def _watched(self, operation: Callable[[], None]) -> None:
        threading.setprofile(self._note)  # of threads that are started from now on
        sys.setprofile(self._note)
        try:
            operation()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or self._may_go_on.is_set() or not code.co_filename.startswith(PLACES):
            return
        with self._lock:
            if code.co_qualname in self.names:
                return
            self.names.append(code.co_qualname)
            is_here = len(self.names) - 1 == self._stop_at
        if is_here:
            self._stopped.set()
            self._may_go_on.wait(DEADLINE_S)


class Work:
    """Something that a thread does.

    Parameters
    ----------
    then : called when it has ended.
    """

    def __init__(
        self, function: Callable[[], None], then: Callable[[], None] = lambda: None
    ) -> None:
        self._function = function
        self._then = then
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - told in `end`
            self._error = error
        finally:
            self._then()

    def wait(self, seconds: float) -> None:
        """Give it a while to end."""
        self._thread.join(seconds)

    def end(self) -> None:
        """Wait for its end. Raises what it raised."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "it waits for ever"
        if self._error is not None:
            raise self._error
