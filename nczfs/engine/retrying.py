"""Trying again: pauses after failures, conflicts, and one shared request for many callers."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from nczfs import metrics
from nczfs.errors import (
    CodecError,
    Conflict,
    DeadlinePassed,
    NczfsError,
    ObjectExists,
    StoreBusy,
    StoreError,
    Unavailable,
)

RETRY_S = 0.5
RETRY_S_MAX = 60.0
DOUBLINGS_MAX: Final = 16  # doublings; the pause has reached its limit long before
CONFLICTS_MAX: Final = 100  # each conflict means that another client made progress
BACKOFF_S: Final = 0.02
BACKOFFS_MAX: Final = 20
CONFIRMED_S: Final = 1.0
LOOKED_S: Final = 0.05

PASSING = (Unavailable, DeadlinePassed, StoreBusy)  # errors that may vanish a moment later
ENDED = Unavailable("the mount ended before it was stored")

T = TypeVar("T")


def may_pass(error: NczfsError) -> bool:
    """Return whether the same request may succeed a moment later."""
    return isinstance(error, PASSING)


@dataclass(slots=True)
class Retry:
    """The time of the next attempt after failures: the pauses grow."""

    attempts: int = 0
    at: float = 0.0
    failed_at: float = 0.0

    @property
    def is_due(self) -> bool:
        return self.at <= time.monotonic()

    @property
    def pause_s(self) -> float:
        """The rest of the pause."""
        return max(0.0, self.at - time.monotonic())

    def failed(self) -> None:
        """Begin a pause, longer than the last one."""
        self.attempts += 1
        pause = RETRY_S * 2.0 ** min(self.attempts, DOUBLINGS_MAX)
        self.failed_at = time.monotonic()
        self.at = self.failed_at + min(pause, RETRY_S_MAX)

    def succeeded(self) -> None:
        """Forget the failures."""
        self.attempts, self.at = 0, 0.0


class Trouble(NamedTuple):
    """Why something is not stored.

    Attributes
    ----------
    error : the last one.
    at : when it came, on the monotonic clock.
    pause_s : the seconds until the next attempt; None: only a program's fsync or close makes one.
    """

    error: str
    at: float
    pause_s: float | None


def newest(troubles: Iterable[Trouble | None]) -> Trouble | None:
    """Return the last trouble of several; None: there is none."""
    return max(filter(None, troubles), key=lambda trouble: trouble.at, default=None)


class StoreHealth:
    """The recent successes and failures of writing to a store. `_lock` guards all of it.

    Attributes
    ----------
    retry : when background writers may try again.
    error : why something is not stored: the last failure, if nothing was stored since.
    """

    def __init__(self) -> None:
        self.retry = Retry()
        self.error: NczfsError = ENDED
        self._lock = threading.Lock()

    @property
    def is_due(self) -> bool:
        """Whether there is no pause."""
        return self.retry.is_due

    @property
    def is_failing(self) -> bool:
        """Whether the store has failed, so that there was a pause, and taken nothing since."""
        return self.retry.attempts > 0

    def stored(self) -> None:
        """Note that the store took something."""
        with self._lock:
            self.retry.succeeded()
            self.error = ENDED

    def refused(self, error: NczfsError) -> None:
        """Note that the store did not take something."""
        with self._lock:
            if may_pass(error) and self.retry.is_due:  # many that failed together count as one
                self.retry.failed()
            self.error = error


def error_to_raise(errors: Iterable[NczfsError]) -> NczfsError:
    """Return the error to raise of several: rather one that cannot be raised again.

    What may pass is tried again, and raised again if it fails. Changes that the dataset, or the
    store, refuses for good are withdrawn.
    """
    return min(errors, key=lambda e: (isinstance(e, StoreError | CodecError), may_pass(e)))


def until_stored(attempt: Callable[[int], T], what: str) -> T:
    """Call `attempt` with 0, 1, ... until it does not raise `Conflict` or `ObjectExists`.

    Raises
    ------
    Unavailable : the conflicts did not end; the message names `what`.
    """
    for number in range(CONFLICTS_MAX):
        try:
            return attempt(number)
        except (Conflict, ObjectExists):
            metrics.WRITE_CONFLICTS.inc()
            time.sleep(random.uniform(0, BACKOFF_S * min(number + 1, BACKOFFS_MAX)))
    raise Unavailable(f"{what}: other clients kept changing it")


class Confirmation:
    """A check that a store still describes an array as its writers know it.

    A chunk that was encoded for one array must not be stored under another one's key, where readers
    would misread its bytes. The check comes before something is stored, and its result holds for a
    second, or until there is a new doubt. Where a look at the store takes microseconds, one just
    before and one just after something is stored tell whether it is stored for the array. Threads
    that come during a check share its result, even an error. `_lock` guards the running check and
    the last result.

    Parameters
    ----------
    ask : raises if the description differs; then each call asks again.
    doubts : returns another number when the result may be another one by now.
    is_unchanged : looks whether the last result still holds; None: that would take long.
    """

    def __init__(
        self,
        ask: Callable[[], None],
        doubts: Callable[[], int] = lambda: 0,
        is_unchanged: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._doubts = doubts
        self._is_unchanged = is_unchanged
        self._clock = clock
        self._lock = threading.Lock()
        self._own_doubts = 0
        self._looked_at = -math.inf
        self._answered = (-1, 0.0)
        self._question: tuple[int, Future[None]] | None = None

    def __call__(self) -> None:
        with self._lock:
            doubts, now, question = self._doubts() + self._own_doubts, self._clock(), None
            answered_doubts, answered_at = self._answered
            if answered_doubts == doubts and now - answered_at < CONFIRMED_S:
                return
            if self._question is not None and self._question[0] == doubts:
                question = self._question[1]
            else:
                ours = Future[None]()
                self._question = doubts, ours
        if question is not None:
            question.result()
            return
        try:
            self._ask()
        except BaseException as error:
            self._settle(ours, error, doubts, now)
            raise
        self._settle(ours, None, doubts, now)

    def look(self, believed_s: float = 0.0) -> None:
        """Ask at once if a look at the store shows a change. Raises what `ask` raises.

        Nothing is done where a look would take long.

        Parameters
        ----------
        believed_s : no look is needed if there was one so many seconds ago.
        """
        now = self._clock()
        if self._is_unchanged is None or now - self._looked_at < believed_s:
            return
        if not self._is_unchanged():
            self.doubt()
            self()
        self._looked_at = now

    def doubt(self) -> None:
        """Have the next call ask."""
        with self._lock:
            self._own_doubts += 1

    def _settle(
        self, question: Future[None], error: BaseException | None, doubts: int, asked_at: float
    ) -> None:
        with self._lock:
            if self._question is not None and self._question[1] is question:
                self._question = None
            if error is None and self._answered[0] <= doubts:
                self._answered = doubts, asked_at
        if error is None:
            question.set_result(None)
        else:
            question.set_exception(error)
