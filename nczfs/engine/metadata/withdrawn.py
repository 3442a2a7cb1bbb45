"""Changes of attributes that the store has refused, shown when the mount ends."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TypeAlias

from nczfs.engine.metadata.changes import AttributeChange, NodeChange
from nczfs.errors import NczfsError, StoreError
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, is_within, moved

Place: TypeAlias = "tuple[ZMap, Prefix]"
"""The store and the prefix of a node."""

NOTES_MAX = 1000


class Withdrawn:
    """The last changes of attributes that were given up because of the store.

    The program that made them may not have looked at the error, as shells do not look at that of
    close; and nobody got that of an attribute that was removed a second before. A note is dropped
    when the attribute is changed again. If there are too many, the oldest are dropped. `_lock`
    guards the dict.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[tuple[Place, tuple[str, ...]], str] = {}

    def note(self, place: Place, changes: Iterable[NodeChange], error: NczfsError) -> None:
        """Note that changes of a node were withdrawn, and tell them."""
        for change in changes:
            change.withdrawn(error)
            if isinstance(change, AttributeChange) and isinstance(error, StoreError):
                self.add(place, change.subject, f"{change.words}: {error}")

    def add(self, place: Place, subject: tuple[str, ...], words: str) -> None:
        """Note what was not stored of a node, and why."""
        with self._lock:
            self._notes[place, subject] = words
            while len(self._notes) > NOTES_MAX:
                self._notes.pop(next(iter(self._notes)))

    def settle(self, place: Place, changes: Iterable[NodeChange]) -> None:
        """Drop the notes on what is changed again."""
        if self._notes:
            with self._lock:
                for change in changes:
                    self._notes.pop((place, change.subject), None)

    def forget(self, place: Place) -> None:
        """Drop the notes on a node that was removed, and on all below it."""
        with self._lock:
            for known, subject in self._below(place):
                del self._notes[known, subject]

    def move(self, place: Place, goal: Place) -> None:
        """Note that a node has moved with all below it."""
        with self._lock:
            for known, subject in self._below(place):
                new = Prefix(moved(known[1], place[1], goal[1]))
                self._notes[(goal[0], new), subject] = self._notes.pop((known, subject))

    def words(self) -> list[str]:
        """Return all notes."""
        with self._lock:
            return [f"{prefix}: {note}" for ((_, prefix), _), note in self._notes.items()]

    def _below(self, place: Place) -> list[tuple[Place, tuple[str, ...]]]:
        zmap, prefix = place
        return [n for n in self._notes if n[0][0] is zmap and is_within(n[0][1], prefix)]
