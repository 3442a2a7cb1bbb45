"""The loop that repeats requests over HTTP.

An attempt is given up if no byte came for a while, the connection ends early, the body has another
length than announced, or the server is throttled or broken. It is repeated with exponential waits
and full jitter, within the time of the whole request.

Until a server has answered for the first time, its address may be wrong: then a connection has two
seconds, and a refused one is tried once more. A request that begins within a second after that
fails at once, so that the consecutive requests of a command wait for a dead host only once.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from urllib3.exceptions import HTTPError

from nczfs.errors import DeadlinePassed, StoreError, Unavailable
from nczfs.messages import counted
from nczfs.metrics import STORE_RETRIES
from nczfs.zmap.web.failures import AttemptFailed, failed
from nczfs.zmap.web.silence import Silence

ATTEMPTS = 10
FIRST_WAIT_S = 0.1  # doubled with each attempt; a random part of it is waited
LONGEST_WAIT_S = 2.0
SLOWEST_BYTES_S = 8 << 10  # a line of 2 Mbit/s that 32 threads share
SMALL_PIECE_BYTES = 512  # less than a packet: sending so little at a time gains no time
SHORTEST_ATTEMPT_S = 0.1  # less time than this counts as none: its timeout would hide the cause
FIRST_CONTACT_S: Final = 2.0
FIRST_CONTACT_ATTEMPTS: Final = 2
STRANGER_S: Final = 1.0  # in which a host that did not answer is not tried again

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Deadline:
    """The deadline of a request. Its time stands still while bytes move fast enough.

    Parameters
    ----------
    seconds : of the request with all its attempts.
    patience_s : an attempt that gets no byte for this long is given up.
    """

    def __init__(self, clock: Callable[[], float], seconds: float, patience_s: float) -> None:
        self.seconds = seconds
        self._clock = clock
        self._patience_s = patience_s
        self._more_s = 0.0
        self._seen = self._begin = clock()
        self._end = self._seen + seconds

    def asks(self, work_s: float) -> None:
        """Wait longer for each byte of the answer, because the server has work to do.

        Some servers answer 200 at once, and work before they send the body.
        """
        self._more_s = work_s

    def body_begins(self) -> None:
        """Count the time from now on as time in which a body moves."""
        self._seen = self._clock()

    def moved(self, size: int) -> None:
        """Count bytes of a body. Raises if they came too late."""
        now = self._clock()
        if size >= SMALL_PIECE_BYTES:
            self._end += min(now - self._seen, size / SLOWEST_BYTES_S)
        self._seen = now
        if now > self._end:
            raise AttemptFailed("the body came too slowly")

    def left_s(self) -> float:
        """Return the time that is left; a little if there is none."""
        return max(SHORTEST_ATTEMPT_S, self._end - self._clock())

    def patience_s(self) -> float:
        """Return how long to wait for the next byte. Raises AttemptFailed if the time is over."""
        left_s = self._end - self._clock()
        if left_s <= 0:
            raise AttemptFailed("the answer came too slowly")
        return min(self._patience_s + self._more_s, left_s)

    def spent_s(self) -> float:
        """Return how long ago the request began."""
        return self._clock() - self._begin

    def is_within(self, seconds: float) -> bool:
        """Return whether it comes so soon that no further attempt fits in."""
        return self._clock() + seconds + SHORTEST_ATTEMPT_S >= self._end


class AttemptLoop:
    """A loop that repeats attempts until one has an answer or the time of the request is over.

    Parameters
    ----------
    label : of the store in the metrics.
    place : the name of the store. What is wrong with a server that never answered has nothing to do
        with the key that is asked for first.
    timeout_s : of a request with all its attempts.
    patience_s : an attempt that gets no byte for this long is given up.
    address_from : the option that names the server, to be checked if there is no answer.
    proxy : that requests go through, for messages.
    clock, sleep : in seconds.
    """

    def __init__(
        self,
        label: str,
        place: str,
        timeout_s: float,
        patience_s: float,
        *,
        address_from: str,
        proxy: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._retries = STORE_RETRIES.labels(label)
        self._place = place
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._address_from = address_from
        self._proxy = proxy
        self._clock = clock
        self._sleep = sleep
        self.silence = Silence(place, timeout_s, clock)
        # When it was given up, and why; not the exception, which keeps all frames that it passed.
        self._stranger: tuple[float, type[StoreError], str] | None = None

    def connect_s(self, deadline: Deadline) -> float:
        """Return how long to wait for a connection."""
        patience_s = min(self._patience_s, deadline.left_s())
        return patience_s if self.silence.is_met else min(patience_s, FIRST_CONTACT_S)

    def run(self, what: str, attempt: Callable[[Deadline], _T], *, work_s: float = 0.0) -> _T:
        """Return the result of an attempt, which gets its deadline, and may raise `AttemptFailed`.

        Parameters
        ----------
        what : the subject of the request, for messages.
        work_s : extra time for the request.

        Raises
        ------
        Unavailable, OutOfDescriptors : no attempt got an answer.
        DeadlinePassed : the time was over before.
        """
        self._check_stranger()
        with self.silence.announced():
            return self._repeated(what, attempt, work_s)

    def _repeated(self, what: str, attempt: Callable[[Deadline], _T], work_s: float) -> _T:
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
        """Wait before the next attempt, or raise if there is to be none."""
        if failure.final:
            raise failure.kind(f"{what}: {failure}") from failure
        if failure.is_stranger and not self.silence.is_met and self._has_tried(count, deadline):
            reason = f"{failure}; check {self._address_from}"
            self._stranger = self._clock(), failure.kind, reason
            raise failure.kind(f"{self._place}: {reason}") from failure
        wait_s = random.random() * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (count - 1))
        wait_s += failure.wait_s
        if count >= min(ATTEMPTS, failure.attempts or ATTEMPTS):
            raise failure.kind(f"{what}: given up after {count} attempts: {failure}") from failure
        if deadline.is_within(wait_s):
            kind = DeadlinePassed if issubclass(failure.kind, Unavailable) else failure.kind
            limit = f"within {deadline.seconds:g} s ({counted(count, 'attempt')})"
            if failure.wait_s:
                limit += f", the next attempt is asked for in {failure.wait_s:g} s"
            raise kind(f"{what}: no answer {limit}: {failure}") from failure
        self._retries.inc()
        _log.info("%s: attempt %d: %s", what, count, failure)
        self._sleep(wait_s)

    def _check_stranger(self) -> None:
        """Raise if a server that never answered was given up a moment ago."""
        if self.silence.is_met or self._stranger is None:
            return
        since, kind, reason = self._stranger
        if self._clock() - since < STRANGER_S:
            raise kind(f"{self._place}: {reason}")

    def _has_tried(self, count: int, deadline: Deadline) -> bool:
        """Return whether a server that never answered has been tried enough."""
        return count >= FIRST_CONTACT_ATTEMPTS or deadline.spent_s() >= FIRST_CONTACT_S / 2
