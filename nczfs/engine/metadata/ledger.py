"""Cached metadata under one budget; the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
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

    def _exchange(
        self, entries: dict[Any, _Entry], key: object, new: _Entry | None
    ) -> _Entry | None:
        """Put an entry of a shelf in the place of another one; None: there is none."""
        with self._lock:
            more = 0
            known = entries.pop(key, None)
            if known is not None:
                self._remove(known)
                more -= known.nbytes
            if new is not None:
                entries[key] = new
                more += self._add(new)
        if more:
            self._claim(more)
        return known

    def _discard(self, entries: dict[Any, _Entry], keys: Iterable[object]) -> None:
        """Remove entries of a shelf, some of which may be gone."""
        freed = 0
        with self._lock:
            for key in keys:
                known = entries.pop(key, None)
                if known is not None:
                    self._remove(known)
                    freed += known.nbytes
        if freed:
            self._claim(-freed)

    def _add(self, entry: _Entry) -> int:
        """Add an entry, and return how many bytes more than before are used then."""
        more = entry.nbytes
        if entry.nbytes > self.limit_bytes // 2:
            if self._large is not None:
                self._large.leave()
                more -= self._large.nbytes
            self._large = entry
            return more
        self._queue_of(entry).add(entry)
        while self._small.nbytes + self._others.nbytes > self.limit_bytes:
            is_even = self._small.nbytes > self.limit_bytes // 2 or not self._others.entries
            more -= (self._small if is_even else self._others).evict(entry)
        return more

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

    def evict(self, new: _Entry) -> int:
        """Evict the first entry, or give it a second round. Return the bytes that are free then.

        Parameters
        ----------
        new : the entry that needs room.
        """
        oldest = next(iter(self.entries))
        self.remove(oldest)
        if oldest is new or oldest.is_used:
            oldest.is_used = False
            self.add(oldest)
            return 0
        oldest.leave()
        return oldest.nbytes


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
        self._ledger._exchange(self._entries, key, _Entry(self, key, value, nbytes + ENTRY_BYTES))

    def grow(self, key: K, nbytes: int) -> None:
        """Note that the memory of a value has changed."""
        entry = self._entries.get(key)
        if entry is not None:
            self.put(key, entry.value, entry.nbytes - ENTRY_BYTES + nbytes)  # type: ignore[arg-type]

    def pop(self, key: K) -> V | None:
        """Remove a value and return it."""
        if key not in self._entries:
            return None
        found = self._ledger._exchange(self._entries, key, None)
        return None if found is None else found.value  # type: ignore[return-value]  # of this shelf

    def discard(self, keys: Iterable[K]) -> None:
        """Remove the values of some keys."""
        self._ledger._discard(self._entries, keys)

    def clear(self) -> None:
        """Remove all values."""
        self.discard(self)
