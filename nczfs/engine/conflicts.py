"""What is done again because another client was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from nczfs import metrics
from nczfs.errors import Conflict, ObjectExists, Unavailable

CONFLICTS_MAX: Final = 100  # each one means that another client made progress
BACKOFF_S: Final = 0.02
BACKOFFS_MAX: Final = 20

T = TypeVar("T")


def until_stored(attempt: Callable[[int], T], what: str) -> T:
    """Call `attempt` with 0, 1, ... until it does not raise `Conflict` or `ObjectExists`.

    Raises
    ------
    Unavailable : there was no end to it; the message names `what`.
    """
    for number in range(CONFLICTS_MAX):
        try:
            return attempt(number)
        except (Conflict, ObjectExists):
            metrics.WRITE_CONFLICTS.inc()
            time.sleep(random.uniform(0, BACKOFF_S * min(number + 1, BACKOFFS_MAX)))
    raise Unavailable(f"{what}: other clients kept changing it")
