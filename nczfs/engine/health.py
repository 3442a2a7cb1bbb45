"""How a store took what it was given lately."""

from __future__ import annotations

import threading

from nczfs.engine.dirty import Retry
from nczfs.errors import DeadlinePassed, NczfsError, StoreBusy, Unavailable

PASSING = (Unavailable, DeadlinePassed, StoreBusy)  # what may be otherwise a moment later
ENDED = Unavailable("the mount ended before it was stored")


class StoreHealth:
    """Whether a store is to be left in peace for a while. `_lock` guards all of it.

    Attributes
    ----------
    retry : when it may be troubled again.
    error : why something is not stored: the last one, if nothing was stored since.
    """

    def __init__(self) -> None:
        self.retry = Retry()
        self.error: NczfsError = ENDED
        self._lock = threading.Lock()

    @property
    def is_due(self) -> bool:
        """Whether there is no pause."""
        return self.retry.is_due

    def stored(self) -> None:
        """It took something."""
        with self._lock:
            self.retry.succeeded()
            self.error = ENDED

    def refused(self, error: NczfsError) -> None:
        """It did not take something."""
        with self._lock:
            if may_pass(error) and self.retry.is_due:  # one of many that failed together counts
                self.retry.failed()
            self.error = error


def may_pass(error: NczfsError) -> bool:
    """Whether the same may succeed a moment later."""
    return isinstance(error, PASSING)
