"""Which nodes of a dataset are being stored, each by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nczfs.zmap.keys import is_within


class StoringTurns:
    """The paths of the nodes that threads store at present.

    A wait for a turn lasts as long as the requests of those who have it, each of which has a
    deadline.

    Parameters
    ----------
    lock : guards the set of paths, and the changes that decide which ones a thread needs.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._landed = threading.Condition(lock)
        self._flying: set[str] = set()

    @contextmanager
    def first(
        self, wanted: Callable[[], tuple[set[str], set[str]]]
    ) -> Iterator[tuple[set[str], set[str]]]:
        """Wait until no other thread stores what is wanted first.

        Parameters
        ----------
        wanted : called under the lock, returns the paths wanted now, and those for which the caller
            comes back later (`then`). If there are any of these, all others are variables.

        Yields
        ------
        both, as of the time when the turn came.
        """
        with self._landed:
            while True:
                now, later = wanted()
                if now.isdisjoint(self._flying):
                    break
                self._landed.wait()
            self._flying |= now
        with self._landing(now):
            yield now, later

    @contextmanager
    def then(self, paths: set[str]) -> Iterator[None]:
        """Wait, with turns for variables, until no other thread stores some groups.

        No two threads wait for each other: all come to groups in the same order, the deepest first,
        and a thread that wants a group at once has no turn yet while it waits.
        """
        with self._landed:
            self._landed.wait_for(lambda: paths.isdisjoint(self._flying))
            self._flying |= paths
        with self._landing(paths):
            yield

    @contextmanager
    def none_within(self, path: str) -> Iterator[None]:
        """Wait until nothing at or below a path is being stored; the block holds the lock."""
        with self._landed:
            self._landed.wait_for(lambda: not any(is_within(p, path) for p in self._flying))
            yield

    @contextmanager
    def _landing(self, paths: set[str]) -> Iterator[None]:
        try:
            yield
        finally:
            with self._landed:
                self._flying -= paths
                self._landed.notify_all()
