"""Errors of changes that were withdrawn, for those who made the changes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from nczfs.errors import NczfsError
from nczfs.zmap.keys import after_rename

REFUSALS_MAX: Final = 1000


class Listener:
    """Somebody who makes changes, and wants to know which of them are refused from now on.

    Parameters
    ----------
    since : the number of the last refusal before.
    """

    __slots__ = ("since",)

    def __init__(self, since: int) -> None:
        self.since = since


@dataclass(slots=True)
class _Refusal:
    number: int
    path: str
    error: NczfsError
    reported_to: set[Listener] = field(default_factory=set)


class RefusedChanges:
    """The refusals of one dataset, as numbers that grow.

    A thread that stores changes stores those of others, too. The one that made them finds nothing
    pending afterwards, and learns here that it is not because all is stored. The oldest of very
    many are dropped. `_lock` guards the numbers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._refusals: deque[_Refusal] = deque(maxlen=REFUSALS_MAX)

    def listener(self) -> Listener:
        """Return a new listener."""
        return Listener(self._number)

    def note(self, path: str, error: NczfsError) -> None:
        """Note why changes of the node at a path were withdrawn."""
        with self._lock:
            self._number += 1
            self._refusals.append(_Refusal(self._number, path, error))

    def move(self, path: str, goal: str) -> None:
        """Note that a node has moved with all below it."""
        with self._lock:
            for each in self._refusals:
                each.path = after_rename(each.path, path, goal)

    def report(self, paths: Collection[str] | None, listener: Listener) -> list[NczfsError]:
        """Return errors that were not reported yet; they count as reported from now on.

        Parameters
        ----------
        paths : of the nodes of a caller who gets all their refusals that are new to `listener`,
            reported to others or not. None: the caller gets those that were reported to nobody.
        """
        with self._lock:
            if paths is None:
                found = [each for each in self._refusals if not each.reported_to]
                listener.since = self._number
            else:
                new = (e for e in self._refusals if e.number > listener.since and e.path in paths)
                found = [each for each in new if listener not in each.reported_to]
            for each in found:
                each.reported_to.add(listener)
            return [each.error for each in found]
