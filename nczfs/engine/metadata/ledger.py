"""Cached metadata under one budget; the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

ENTRY_BYTES: Final = 300  # about what an entry costs besides its value
LIMIT_BYTES_LEAST: Final = 8 << 20
SMALL_BYTES_MAX: Final = 4096


class Ledger:
    """The sum of all that the shelves of an engine hold, and the order of eviction.

    Eviction is the clock algorithm: a look sets a bit without a lock, and an entry whose bit is set
    gets a second round. Small entries are evicted after the others, as long as they take less than
    half of the budget: to know that a document is unchanged is worth more than its bytes. An entry
    of more than half of the budget is kept besides all others, one at a time, because the index of
    a large dataset is needed for each of its nodes. `_lock` guards the sums and the entries of all
    shelves.

    Parameters
    ----------
    claim : takes bytes of the larger budget that contains this one, or gives them back.
    """

    def __init__(self, limit_bytes: int, claim: Callable[[int], None] = lambda _: None) -> None:
        self.limit_bytes = max(LIMIT_BYTES_LEAST, limit_bytes)
        self._claim = claim
        self._lock = threading.Lock()
        self._small = _Queue()
        self._others = _Queue()
        self._large: _Entry | None = None

    @property
    def used_bytes(self) -> int:
        """Bytes of everything that is cached."""
        large = self._large.nbytes if self._large is not None else 0
        return self._small.nbytes + self._others.nbytes + large

    def _change(self, change: Callable[[], None]) -> None:
        with self._lock:
            before = self.used_bytes
            change()
            after = self.used_bytes
        if after != before:
            self._claim(after - before)

    def _add(self, entry: _Entry) -> None:
        if entry.nbytes > self.limit_bytes // 2:
            if self._large is not None:
                self._large.leave()
            self._large = entry
            return
        self._queue_of(entry).add(entry)
        while self._small.nbytes + self._others.nbytes > self.limit_bytes:
            is_even = self._small.nbytes > self.limit_bytes // 2 or not self._others.entries
            (self._small if is_even else self._others).evict(entry)

    def _remove(self, entry: _Entry) -> None:
        if entry is self._large:
            self._large = None
        else:
            self._queue_of(entry).remove(entry)

    def _queue_of(self, entry: _Entry) -> _Queue:
        return self._small if entry.nbytes <= SMALL_BYTES_MAX else self._others


class _Queue:
    """Entries in the order of eviction."""

    def __init__(self) -> None:
        # To find the first key of a dict that lost many takes time with their number.
        self.entries: OrderedDict[_Entry, None] = OrderedDict()
        self.nbytes = 0

    def add(self, entry: _Entry) -> None:
        self.entries[entry] = None
        self.nbytes += entry.nbytes

    def remove(self, entry: _Entry) -> None:
        del self.entries[entry]
        self.nbytes -= entry.nbytes

    def evict(self, new: _Entry) -> None:
        """Evict the first entry, or give it a second round; `new` is the entry that needs room."""
        oldest = next(iter(self.entries))
        self.remove(oldest)
        if oldest is new or oldest.is_used:
            oldest.is_used = False
            self.add(oldest)
        else:
            oldest.leave()


class _Entry:
    __slots__ = ("is_used", "key", "nbytes", "shelf", "value")

    def __init__(self, shelf: Shelf[Any, Any], key: object, value: object, nbytes: int) -> None:
        self.shelf = shelf
        self.key = key
        self.value = value
        self.nbytes = nbytes
        self.is_used = False

    def leave(self) -> None:
        """Remove the entry from its shelf."""
        del self.shelf._entries[self.key]


class Shelf(Generic[K, V]):
    """A cache: an entry may be gone whenever it is looked up."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._entries: dict[K, _Entry] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None. Takes no lock."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.is_used = True
        value: V = entry.value  # type: ignore[assignment]  # of this shelf
        return value

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Cache a value, replacing that of the same key.

        Parameters
        ----------
        nbytes : of memory that the value takes.
        """
        entry = _Entry(self, key, value, nbytes + ENTRY_BYTES)

        def change() -> None:
            known = self._entries.pop(key, None)
            if known is not None:
                self._ledger._remove(known)
            self._entries[key] = entry
            self._ledger._add(entry)

        self._ledger._change(change)

    def grow(self, key: K, nbytes: int) -> None:
        """Note that the memory of a value has changed."""
        entry = self._entries.get(key)
        if entry is not None:
            self.put(key, entry.value, entry.nbytes - ENTRY_BYTES + nbytes)  # type: ignore[arg-type]

    def pop(self, key: K) -> V | None:
        """Remove a value and return it."""
        if key not in self._entries:
            return None
        found: list[_Entry] = []

        def change() -> None:
            known = self._entries.pop(key, None)
            if known is not None:
                self._ledger._remove(known)
                found.append(known)

        self._ledger._change(change)
        return found[0].value if found else None  # type: ignore[return-value]  # of this shelf

    def clear(self) -> None:
        """Remove all values."""
        for key in self:
            self.pop(key)
