"""Turns for work on large documents, which takes many times their size in memory."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Final

LARGE_BYTES: Final = 1 << 20
TURNS: Final = 2


class Turns:
    """Turns that let a few threads at a time work on something large. Small work never waits."""

    def __init__(self, count: int = TURNS) -> None:
        self._free = threading.Semaphore(count)

    def visit(self) -> AbstractContextManager[None]:
        """Let the first `take` of this thread in the block wait for a turn, which ends with it.

        A visit within another one is part of it.
        """
        return nullcontext() if _current.turns is not None else _Visit(self)

    def _take(self) -> None:
        self._free.acquire()
        _current.has_turn = True


class _Visit:
    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        _current.turns = self._turns

    def __exit__(self, *error: object) -> None:
        if _current.has_turn:
            self._turns._free.release()
        _current.turns, _current.has_turn = None, False


class _Current(threading.local):
    """The visit of this thread."""

    turns: Turns | None = None
    has_turn: bool = False


_current = _Current()


PARSING: Final = Turns()
"""Turns for documents that become nodes, and nodes that become texts."""

FETCHING: Final = Turns()
"""Turns for fetching documents ahead of a thread, which may have its turn to parse."""


def take(nbytes: int) -> None:
    """Wait for a turn if so many bytes are large, and this thread is on a visit."""
    if nbytes > LARGE_BYTES and _current.turns is not None and not _current.has_turn:
        _current.turns._take()
