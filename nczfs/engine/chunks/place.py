"""The place of an array, which a rename changes while others read and write the array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition

from nczfs.zmap.keys import Prefix, is_within, join


class Gate:
    """A gate for many threads that store something, which a rename closes for its prefix.

    Closing it waits for the threads inside that store at, below or above the prefix; newcomers to
    these places wait. A thread inside must not enter again, nor wait for a thread that may want to
    enter. `_condition` guards both lists.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._inside: list[str] = []
        self._closed: list[str] = []

    @contextmanager
    def inside(self, place: Callable[[], str]) -> Iterator[None]:
        """Stay inside during the block, so that no thread closes the gate there.

        Parameters
        ----------
        place : returns the key or prefix that is stored to, which a rename may change.
        """
        with self._condition:
            self._condition.wait_for(lambda: not _meets(place(), self._closed))
            entered = place()
            self._inside.append(entered)
        try:
            yield
        finally:
            with self._condition:
                self._inside.remove(entered)
                self._condition.notify_all()

    @contextmanager
    def closed(self, *prefixes: str) -> Iterator[Callable[[str], None]]:
        """Keep the gate closed for some prefixes during the block, with no thread inside there.

        Yields
        ------
        what opens it for all but one prefix in these.
        """
        closed = list(prefixes)

        def narrow(prefix: str) -> None:
            with self._condition:
                self._open(closed)
                closed[:] = [prefix]
                self._closed.append(prefix)

        with self._condition:
            self._condition.wait_for(lambda: not any(_meets(p, self._closed) for p in prefixes))
            self._closed += prefixes
        try:
            with self._condition:
                self._condition.wait_for(lambda: not any(_meets(p, self._inside) for p in prefixes))
            yield narrow
        finally:
            with self._condition:
                self._open(closed)

    def _open(self, prefixes: Iterable[str]) -> None:
        for prefix in prefixes:
            self._closed.remove(prefix)
        self._condition.notify_all()


def _meets(place: str, others: Iterable[str]) -> bool:
    """Return whether a key or prefix is one of some others, or lies below or above one."""
    return any(is_within(place, other) or is_within(other, place) for other in others)


@dataclass(slots=True, eq=False)
class ArrayPlace:
    """The place of an array's chunks in its store; all who have the array open share this object.

    Attributes
    ----------
    prefix : below which the chunks lie; changes with a rename. The old chunks stay until all have
        seen the change.
    gate : is closed for `prefix` while that changes; a thread that stores a chunk is inside.
    name : of an array whose chunks lie there beside those of another one, which it depends on. "":
        the prefix is its own.
    """

    prefix: Prefix
    gate: Gate = field(default_factory=Gate)
    name: str = ""

    @property
    def identity(self) -> Prefix:
        """The prefix that stands for the array, and for no other one."""
        return Prefix(join(self.prefix, self.name)) if self.name else self.prefix
