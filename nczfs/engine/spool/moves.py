"""Moves of nodes to other prefixes, as far as what is not stored has to follow them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from nczfs.engine.spool.log import Log
from nczfs.engine.spool.records import Packed, packed
from nczfs.errors import NczfsError
from nczfs.zmap.keys import Prefix

MOVES: Final = "moves"  # what those hold that entries have to follow


def number_of(path: Path) -> int | None:
    """Return the number in the name of a file that a mount has made; None: it has none."""
    number = path.name.partition("-")[0]
    return int(number) if number.isdecimal() else None


class Moves:
    """What the log of a mount says of the moves of nodes. The lock of the log guards everything.

    The entry of a chunk names its array as of its beginning, when it gets its number, and is not
    changed by a move. A move has a number of the same sequence: entries with a smaller one follow
    it. So one record moves what is in the log and all entries at once.

    Parameters
    ----------
    numbers : those of files and of moves.
    has_values : the log has values too, which follow moves with the entries or without any.
    """

    def __init__(self, log: Log, numbers: Iterator[int], *, has_values: bool) -> None:
        self._log = log
        self._numbers = numbers
        self._has_values = has_values
        self._entries: dict[int, None] = {}  # in their order
        self._followed: dict[int, dict[str, Any]] = {}
        self._unsaid: dict[Prefix, dict[str, Any]] = {}  # renames; the log need not know them yet
        self._said: set[Prefix] = set()  # other renames that are under way

    def begin(self, path: Path) -> None:
        """Note an entry of a chunk. Never raises.

        The caller holds the lock of the log until it has the prefix of the array for the entry.
        """
        with self._log.lock:
            if (number := number_of(path)) is not None:
                self._entries[number] = None
            for prefix in list(self._unsaid):
                self._say(prefix)

    def end(self, path: Path) -> None:
        """Note that an entry is gone, or was not made. Never raises."""
        with self._log.lock:
            if (number := number_of(path)) is not None:
                self._entries.pop(number, None)
            if self._followed:
                first = next(iter(self._entries), None)
                for at in [at for at in self._followed if first is None or at < first]:
                    del self._followed[at]
                if not self._followed:
                    self._log.release(MOVES)

    @contextmanager
    def renaming(self, prefix: Prefix, goal: Prefix) -> Iterator[None]:
        """Note that a node is being renamed, with the block. Never raises.

        What is unsaved there stays, unless `moving` is called within the block.
        """
        with self._log.lock:
            self._unsaid[prefix] = {"is": "renaming", "from": prefix, "to": goal}
            if self._has_values or self._entries:
                self._say(prefix)
        try:
            yield
        finally:
            with self._log.lock:
                if prefix in self._unsaid or prefix in self._said:
                    self._end(prefix, {"is": "stays", "from": prefix})

    @contextmanager
    def moving(self, prefix: Prefix, goal: Prefix) -> Iterator[None]:
        """Move what is unsaved at or below a prefix to another one, with the block. Never raises.

        Nothing is noted of a place during the block, which changes the prefixes of arrays.
        """
        with self._log.lock:
            yield
            number = next(self._numbers)
            move = {"from": prefix, "to": goal, "number": number}
            if self._entries:
                self._followed[number] = {"is": "follow", **move}
                self._log.hold(MOVES, self._records)
            self._end(prefix, {"is": "moved", **move})
            if self._entries:
                with suppress(NczfsError):  # a disk that fails now may have taken the entries
                    self._log.sync()

    def _say(self, prefix: Prefix) -> None:
        renaming = self._unsaid.pop(prefix)
        self._said.add(prefix)
        self._log.note(renaming)
        self._log.hold(_held_by(prefix), lambda: [packed(renaming)])

    def _end(self, prefix: Prefix, document: dict[str, Any]) -> None:
        """Note how a rename has ended, unless the log does not know it, or is empty with it."""
        if self._unsaid.pop(prefix, None) is None:
            self._said.discard(prefix)
            if not self._log.release(_held_by(prefix)):
                self._log.note(document)

    def _records(self) -> list[Packed]:
        return [packed(each) for each in self._followed.values()]


def _held_by(prefix: Prefix) -> str:
    """Return what a rename is called in the log; no staged file has a name with a slash."""
    return f"renaming/{prefix}"
