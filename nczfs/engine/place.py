"""Where an array lies, which a rename changes while others read and write it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition

from nczfs.zmap.keys import Prefix


class Gate:
    """Many may be inside at a time; who closes it waits for them, and those who come wait for him.

    Who is inside must not enter again, and not wait for anybody who may want to.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._inside = 0
        self._is_closed = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """As long as it is open; nobody closes it meanwhile."""
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
        """As long as it is closed; nobody is inside."""
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
    """Where the chunks of an array lie in its store; the same object for all who have it open.

    Attributes
    ----------
    prefix : is another one after a rename. What was there is there until all have seen that.
    gate : is closed while it changes; who stores a chunk is inside.
    """

    prefix: Prefix
    gate: Gate = field(default_factory=Gate)
