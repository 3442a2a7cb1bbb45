"""The place of an array, which a rename changes while others read and write the array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition

from nczfs.zmap.keys import Prefix


class Gate:
    """A gate for many threads: closing it waits for those inside, and newcomers wait.

    A thread inside must not enter again, nor wait for a thread that may want to enter.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._inside = 0
        self._is_closed = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Stay inside during the block, so that no thread closes the gate."""
        with self._condition:
            self._condition.wait_for(lambda: not self._is_closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep the gate closed during the block, with no thread inside."""
        with self._condition:
            self._condition.wait_for(lambda: not self._is_closed)
            self._is_closed = True
        try:
            with self._condition:
                self._condition.wait_for(lambda: not self._inside)
            yield
        finally:
            with self._condition:
                self._is_closed = False
                self._condition.notify_all()


@dataclass(slots=True, eq=False)
class ArrayPlace:
    """The place of an array's chunks in its store; all who have the array open share this object.

    Attributes
    ----------
    prefix : changes with a rename. The old chunks stay until all have seen the change.
    gate : is closed while `prefix` changes; a thread that stores a chunk is inside.
    """

    prefix: Prefix
    gate: Gate = field(default_factory=Gate)
