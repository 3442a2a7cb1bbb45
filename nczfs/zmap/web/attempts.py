"""The loop that repeats requests over HTTP.

An attempt is given up when no byte came for a while, when the connection ends early, when the
body has another length than announced, or when the server is throttled or broken. It is repeated
with exponential waits and full jitter, as long as the time of the whole request lasts.

Until a server has answered for the first time, its address may be wrong: then a connection has two
seconds, and one that is refused is tried once more. A request that begins within a second after
that fails at once: the questions of one command, one after the other, wait for a dead host once.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from urllib3.exceptions import HTTPError

from nczfs.errors import DeadlinePassed, StoreError, Unavailable
from nczfs.metrics import STORE_RETRIES
from nczfs.zmap.web.failures import AttemptFailed, failed

ATTEMPTS = 10
FIRST_WAIT_S = 0.1  # doubled with each attempt; a random part of it is waited
LONGEST_WAIT_S = 2.0
SLOWEST_BYTES_S = 8 << 10  # a line of 2 Mbit/s that 32 threads share
SMALL_PIECE_BYTES = 512  # less than a packet: who sends so little at a time wins no time by it
SHORTEST_ATTEMPT_S = 0.1  # less time than this left is none: its timeout would hide the cause
FIRST_CONTACT_S: Final = 2.0
FIRST_CONTACT_ATTEMPTS: Final = 2
STRANGER_S: Final = 1.0  # in which nobody is asked again where nobody answered

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Deadline:
    """When a request has to be over. Its time stands still while bytes move fast enough.

    Parameters
    ----------
    seconds : of the request with all its attempts.
    patience_s : an attempt that gets no byte for this long is given up.
    """

    def __init__(self, clock: Callable[[], float], seconds: float, patience_s: float) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._more_s = 0.0
        self._seen = self._begin = clock()
        self._end = self._seen + seconds

    def asks(self, work_s: float) -> None:
        """Wait so much longer for each byte of the answer: the server has work to do.

        Some say 200 at once, and work before they send the body.
        """
        self._more_s = work_s

    def body_begins(self) -> None:
        """Count the time from now on as time in which a body moves."""
        self._seen = self._clock()

    def moved(self, size: int) -> None:
        """Count bytes of a body, and raise when they came too late."""
        now = self._clock()
        if size >= SMALL_PIECE_BYTES:
            self._end += min(now - self._seen, size / SLOWEST_BYTES_S)
        self._seen = now
        if now > self._end:
            raise AttemptFailed("the body came too slowly")

    def left_s(self) -> float:
        """The time that is left; a little where there is none."""
        return max(SHORTEST_ATTEMPT_S, self._end - self._clock())

    def patience_s(self) -> float:
        """How long to wait for the next byte. Raises AttemptFailed when the time is over."""
        left_s = self._end - self._clock()
        if left_s <= 0:
            raise AttemptFailed("the answer came too slowly")
        return min(self._patience_s + self._more_s, left_s)

    def spent_s(self) -> float:
        """How long ago the request began."""
        return self._clock() - self._begin

    def is_within(self, seconds: float) -> bool:
        """Whether it comes so soon that no attempt fits in before it."""
        return self._clock() + seconds + SHORTEST_ATTEMPT_S >= self._end


class Attempts:
    """Repeats attempts until one has an answer or the time of the request is over.

    Parameters
    ----------
    label : of the store in the metrics.
    timeout_s : of a request with all its attempts.
    patience_s : an attempt that gets no byte for this long is given up.
    address_from : the option that names the server, to be checked where nobody answers there.
    proxy : that requests go through, for messages.
    clock, sleep : in seconds.
    """

    def __init__(
        self,
        label: str,
        timeout_s: float,
        patience_s: float,
        *,
        address_from: str,
        proxy: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._retries = STORE_RETRIES.labels(label)
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._address_from = address_from
        self._proxy = proxy
        self._clock = clock
        self._sleep = sleep
        self._is_met = False
        # When it was given up, and why; not the exception, which holds all frames that it passed.
        self._stranger: tuple[float, type[StoreError], str] | None = None

    def note_answer(self) -> None:
        """A server answered: its address is right."""
        self._is_met = True

    def connect_s(self, deadline: Deadline) -> float:
        """How long to wait for a connection."""
        patience_s = min(self._patience_s, deadline.left_s())
        return patience_s if self._is_met else min(patience_s, FIRST_CONTACT_S)

    def run(self, what: str, attempt: Callable[[Deadline], _T], *, work_s: float = 0.0) -> _T:
        """What an attempt gives; it gets its deadline, and raises `AttemptFailed`.

        Parameters
        ----------
        what : is asked for, in messages.
        work_s : time that is given above that of other requests.

        Raises
        ------
        Unavailable, OutOfDescriptors : no attempt got an answer.
        DeadlinePassed : the time was over before.
        """
        self._check_stranger(what)
        deadline = Deadline(self._clock, self._timeout_s + work_s, self._patience_s)
        count = 0
        while True:
            count += 1
            try:
                return attempt(deadline)
            except AttemptFailed as failure:
                reason = failure
            except (HTTPError, OSError) as error:
                reason = failed(error, self._patience_s, self._proxy)
            self._wait(what, reason, count, deadline)

    def _wait(self, what: str, failure: AttemptFailed, count: int, deadline: Deadline) -> None:
        """Wait before the next attempt, or raise when there is to be none."""
        if failure.final:
            raise failure.kind(f"{what}: {failure}") from failure
        if failure.is_stranger and not self._is_met and self._has_tried(count, deadline):
            reason = f"{failure}; check {self._address_from}"
            self._stranger = self._clock(), failure.kind, reason
            raise failure.kind(f"{what}: {reason}") from failure
        wait_s = random.random() * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (count - 1))
        wait_s += failure.wait_s
        if count >= min(ATTEMPTS, failure.attempts or ATTEMPTS):
            raise failure.kind(f"{what}: given up after {count} attempts: {failure}") from failure
        if deadline.is_within(wait_s):
            kind = DeadlinePassed if issubclass(failure.kind, Unavailable) else failure.kind
            raise kind(
                f"{what}: no answer within {self._timeout_s:g} s ({count} attempts): {failure}"
            ) from failure
        self._retries.inc()
        _log.info("%s: attempt %d: %s", what, count, failure)
        self._sleep(wait_s)

    def _check_stranger(self, what: str) -> None:
        """Raise where a server that never answered was given up a moment ago."""
        if self._is_met or self._stranger is None:
            return
        since, kind, reason = self._stranger
        if self._clock() - since < STRANGER_S:
            raise kind(f"{what}: {reason}")

    def _has_tried(self, count: int, deadline: Deadline) -> bool:
        """Whether a server that never answered has had its chance."""
        return count >= FIRST_CONTACT_ATTEMPTS or deadline.spent_s() >= FIRST_CONTACT_S / 2
