"""The problems that the log of a mount names: each change of them once."""

from __future__ import annotations

import logging
import threading
from collections import Counter

log = logging.getLogger(__name__)

PLACES_MAX = 10_000


class Reports:
    """The problem that each place had when it was last looked at.

    A place that keeps failing is looked at again and again, by `ls`, file managers and backups.
    `_lock` guards both dicts.
    """

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}
        self._counts: Counter[str] = Counter()  # places that have the same problem
        self._lock = threading.Lock()

    def failed(self, place: str, problem: str) -> None:
        """Log the problem of a place, unless that or another place has it already."""
        with self._lock:
            if self._problems.get(place) == problem:
                return
            self._forget(place)
            if len(self._problems) >= PLACES_MAX:
                return
            self._problems[place] = problem
            self._counts[problem] += 1
            is_new = self._counts[problem] == 1
            is_last = len(self._problems) == PLACES_MAX
        if is_new:
            log.warning("%s", problem, extra={"repeats": ""})
        if is_last:
            log.warning("problems of more than %d places are not logged", PLACES_MAX)

    def passed(self, place: str) -> None:
        """Note that a place has no problem now. If it has one again, that is logged."""
        if place in self._problems:
            with self._lock:
                self._forget(place)

    def _forget(self, place: str) -> None:
        problem = self._problems.pop(place, None)
        if problem is not None:
            self._counts[problem] -= 1
            if not self._counts[problem]:
                del self._counts[problem]
