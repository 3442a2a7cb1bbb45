"""Whether a server answers, for users who would otherwise wait in silence."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ANNOUNCED_S: Final = 2.5

_log = logging.getLogger(__name__)


class Silence:
    """What is known of a server: whether it has ever answered, and since when it is silent.

    A server that has never answered may be the wrong one, and the user waits for the first request,
    so a warning says that there is no answer yet. `_lock` guards `_asked_at` and `_is_announced`.

    Parameters
    ----------
    place : the name of the store, for the log.
    timeout_s : of a request with all its attempts.
    clock : in seconds.
    """

    def __init__(
        self, place: str, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_at: float | None = None  # the first question since the last sign of life
        self._is_announced = False
        self.is_met = False

    @property
    def seconds(self) -> float:
        """The age of the oldest request after which nothing came; 0.0: the server answers."""
        with self._lock:
            return 0.0 if self._asked_at is None else self._clock() - self._asked_at

    def note_question(self) -> None:
        """Note that an answer is waited for."""
        with self._lock:
            if self._asked_at is None:
                self._asked_at = self._clock()

    def note_progress(self) -> None:
        """Note that the server took a part of a question."""
        with self._lock:
            self._asked_at = self._clock()

    def note_answer(self) -> None:
        """Note that the server answered, so that its address is right."""
        with self._lock:
            self._asked_at = None
            self.is_met = True

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Warn once while the block runs if the server has never answered."""
        with self._lock:
            is_over = self.is_met or self._is_announced
            self._is_announced = True
        if is_over:
            yield
            return
        timer = threading.Timer(ANNOUNCED_S, self._announce)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _announce(self) -> None:
        if not self.is_met:
            _log.warning(
                "%s: the server has not answered yet; a request is given up after %g s"
                " (--request-timeout)",
                self._place,
                self._timeout_s,
            )
