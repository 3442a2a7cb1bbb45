"""What a worker keeps open between the pieces of one job: datasets, their threads and caches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

IDLE_MAX = 1
"""So many jobs without a piece under way stay open in a worker: the one that is at work now."""


class Closable(Protocol):
    """Something that is closed when no piece needs it any more."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    opened: Any = None


_entries: OrderedDict[str, _Entry] = OrderedDict()
_lock = threading.Lock()  # guards _entries and the numbers of users


@contextmanager
def held(token: str, opening: Callable[[], T]) -> Iterator[T]:
    """Lend what a job has open, which is opened at its first piece.

    Parameters
    ----------
    token : of the job.
    """
    with _lock:
        entry = _entries.setdefault(token, _Entry())
        entry.users += 1
        _entries.move_to_end(token)
    try:
        with entry.lock:
            if entry.opened is None:
                entry.opened = opening()
        yield cast(T, entry.opened)
    finally:
        with _lock:
            entry.users -= 1
        _close_idle(IDLE_MAX)


def close_all() -> None:
    """Close what no piece uses at this moment."""
    _close_idle(0)


def _close_idle(kept: int) -> None:
    with _lock:
        idle = [token for token, entry in _entries.items() if not entry.users]
        ended = [_entries.pop(token) for token in idle[: max(0, len(idle) - kept)]]
    for entry in ended:
        if entry.opened is not None:
            entry.opened.close()
