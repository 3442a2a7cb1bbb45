"""Whether the store still describes an array as those know it who write to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

AGAIN_S: Final = 1.0


class Confirmation:
    """Asks before something is stored, and not again for a second.

    A chunk that was encoded for one array must not lie under the name of another one's: who reads
    it would take its bytes for values. `_lock` has one thread ask, and the others wait for it.

    Parameters
    ----------
    ask : raises when the answer is no; then it is asked again each time.
    """

    def __init__(
        self, ask: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_at = -AGAIN_S

    def __call__(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._asked_at >= AGAIN_S:
                self._ask()
                self._asked_at = now
