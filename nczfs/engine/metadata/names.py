"""Who may change the names and lengths of a dataset at present."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from nczfs.zmap.keys import is_within

_Holds: TypeAlias = "list[tuple[int, str]]"
"""Threads, and the paths that they hold."""


class PathLocks:
    """The right to change names and lengths in a dataset.

    Changes in memory exclude each other. Who asks the store to change something holds the paths
    that this concerns, without a lock: changes at and below them wait, and all others go on. While
    something is renamed, only other renames at, below and above its paths wait all the time.
    `_lock` guards the lists of holds; it is held during a change in memory, for which documents may
    be read.

    Attributes
    ----------
    moves : how often a node has got another path; who changes it holds both.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._released = threading.Condition(self._lock)
        self._depth = 0
        self._holds: _Holds = []
        self._renames: _Holds = []
        self.moves = 0

    @contextmanager
    def changing(self, place: Callable[[], str]) -> Iterator[None]:
        """Let no other thread change names or lengths during the block, which stores nothing.

        Parameters
        ----------
        place : returns the path of what is changed or made; nobody else holds it, unless the thread
            is in such a block already.
        """
        with self._lock:
            if not self._depth:
                self._released.wait_for(lambda: not self._is_held(place()))
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def finding(self, path: str, find: Callable[[], object]) -> Iterator[None]:
        """Change in memory, as in `changing`, a node that was found before, which may take long.

        Parameters
        ----------
        find : raises unless the node is at the path; called again if a rename has come in between.
        """
        while True:
            moves = self.moves
            find()
            with self.changing(lambda: path):
                if moves == self.moves:
                    yield
                    return

    @contextmanager
    def held(self, *paths: str) -> Iterator[None]:
        """Hold paths during the block. The thread may hold more of them, also the same again.

        Two threads that hold one path and wait for others must not have the same ones in mind.
        """
        with self._holding(self._holds, paths):
            yield

    @contextmanager
    def renaming(self, *paths: str) -> Iterator[None]:
        """Let no other thread rename anything at, below or above some paths during the block."""
        with self._holding(self._renames, paths):
            yield

    @contextmanager
    def _holding(self, holds: _Holds, paths: tuple[str, ...]) -> Iterator[None]:
        thread = threading.get_ident()
        with self._lock:
            assert not self._depth, "what is held while something is stored is no lock"
            self._released.wait_for(lambda: not any(_meets(holds, path) for path in paths))
            holds += [(thread, path) for path in paths]
        try:
            yield
        finally:
            with self._lock:
                for path in paths:
                    holds.remove((thread, path))
                self._released.notify_all()

    def _is_held(self, place: str) -> bool:
        return any(is_within(place, path) for path in _of_others(self._holds))


def _meets(holds: _Holds, path: str) -> bool:
    return any(is_within(path, o) or is_within(o, path) for o in _of_others(holds))


def _of_others(holds: _Holds) -> list[str]:
    thread = threading.get_ident()
    return [path for holder, path in holds if holder != thread]
