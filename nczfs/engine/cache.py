"""The chunk cache: decoded chunks under one byte budget, each loaded once however many wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nczfs import metrics
from nczfs.errors import NczfsError, Unavailable
from nczfs.model.grid import ChunkIndex

Values: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
ChunkId: TypeAlias = "tuple[int, ChunkIndex]"
"""The number of an array (never used again) and the index of a chunk in its grid."""

ENTRY_BYTES = 512  # about what an entry costs besides its values


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load gives: the values, the bytes they keep in memory, the version they came from.

    `version` is whatever the loader wants to be shown again when the chunk is checked for change.
    """

    values: Values
    nbytes: int
    version: object


class _Entry:
    __slots__ = ("checked_at", "loaded", "pins", "referenced")

    def __init__(self, loaded: Loaded, checked_at: float) -> None:
        self.loaded = loaded
        self.checked_at = checked_at
        self.pins = 0
        self.referenced = False


class _Load:
    __slots__ = ("done", "entry", "error")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.entry: _Entry | None = None
        self.error: NczfsError | None = None


Loader: TypeAlias = "Callable[[Loaded | None], Loaded]"
"""Loads a chunk. What is known of it already is passed in, to be confirmed or replaced."""


class ChunkCache:
    """Decoded chunks, and the budget that they share with what is read ahead.

    `_lock` guards the entries, the loads and the sums of bytes; it is never held while a chunk is
    loaded. Eviction is the clock algorithm: a hit sets a bit without the lock, so that the event
    loop never waits for a thread; an entry whose bit is set gets a second round.
    """

    def __init__(self, limit_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_bytes = limit_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._loading = 0  # bytes of the loads that `pinned` has under way
        self._entries: dict[ChunkId, _Entry] = {}
        self._loads: dict[ChunkId, _Load] = {}
        self._used = 0
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes of entries and reservations."""
        return self._used

    def peek(self, chunk_id: ChunkId, fresh_since: float) -> Values | None:
        """The values if they are in memory and were confirmed after `fresh_since`. No lock."""
        entry = self._entries.get(chunk_id)
        if entry is None or entry.checked_at < fresh_since:
            return None
        entry.referenced = True
        return entry.loaded.values

    @contextmanager
    def pinned(
        self, chunk_id: ChunkId, load: Loader, nbytes: int, fresh_since: float
    ) -> Iterator[Values]:
        """The values of a chunk, kept in memory while the context is open.

        A chunk that is not there, or was confirmed before `fresh_since`, is loaded by this thread,
        or waited for when another one is loading it; then its error is raised here as well. Loads
        whose `nbytes` together pass the budget take turns.
        """
        entry = self._acquire(chunk_id, load, nbytes, fresh_since)
        try:
            yield entry.loaded.values
        finally:
            with self._lock:
                entry.pins -= 1

    def start_load(self, chunk_id: ChunkId, nbytes: int, fresh_since: float) -> bool:
        """Claim the load of a chunk that shall be read ahead.

        True: the caller must call `finish_load` or `fail_load`. False: it is there or on its way,
        or there is no room for it: reading ahead is dropped, never queued.
        """
        with self._lock:
            entry = self._entries.get(chunk_id)
            if self._closed or chunk_id in self._loads:
                return False
            if entry is not None and entry.checked_at >= fresh_since:
                return False
            if not self._make_room(nbytes):
                return False
            self._used += nbytes
            self._loads[chunk_id] = _Load()
            return True

    def known(self, chunk_id: ChunkId) -> Loaded | None:
        """What is in memory of a chunk, however old."""
        entry = self._entries.get(chunk_id)
        return entry.loaded if entry is not None else None

    def finish_load(self, chunk_id: ChunkId, reserved: int, loaded: Loaded) -> None:
        """The end of a load that `start_load` granted."""
        with self._lock:
            self._used -= reserved
            self._settle(chunk_id, loaded)

    def fail_load(self, chunk_id: ChunkId, reserved: int, error: NczfsError) -> None:
        """The other end of a load that `start_load` granted; whoever waits gets the error."""
        with self._lock:
            self._used -= reserved
            self._give_up(chunk_id, error)

    def try_reserve(self, nbytes: int) -> bool:
        """Take bytes of the budget for something else than a chunk; False when there is no room."""
        with self._lock:
            if self._closed or not self._make_room(nbytes):
                return False
            self._used += nbytes
            return True

    def unreserve(self, nbytes: int) -> None:
        """Give back what `try_reserve` took."""
        with self._lock:
            self._used -= nbytes

    def discard(self, array_number: int) -> None:
        """Forget every chunk of an array."""
        with self._lock:
            for chunk_id in [i for i in self._entries if i[0] == array_number]:
                self._remove(chunk_id)

    def close(self) -> None:
        """Forget everything; loads that are waited for fail."""
        with self._lock:
            self._closed = True
            for chunk_id in list(self._loads):
                self._give_up(chunk_id, Unavailable("the dataset was closed meanwhile"))
            for chunk_id in list(self._entries):
                self._remove(chunk_id)

    def _acquire(self, chunk_id: ChunkId, load: Loader, nbytes: int, fresh_since: float) -> _Entry:
        while True:
            with self._lock:
                entry = self._entries.get(chunk_id)
                if entry is not None and entry.checked_at >= fresh_since:
                    entry.pins += 1
                    entry.referenced = True
                    metrics.CACHE_HITS.inc()
                    return entry
                under_way = self._loads.get(chunk_id)
                if under_way is None:
                    mine = self._loads[chunk_id] = _Load()
                    break
            under_way.done.wait()
            if under_way.error is not None:
                raise under_way.error
            if (entry := under_way.entry) is not None:
                with self._lock:
                    entry.pins += 1
                return entry
        metrics.CACHE_MISSES.inc()
        with self._turn:
            self._turn.wait_for(lambda: not self._loading or self._fits(nbytes))
            self._loading += nbytes
            self._used += nbytes
        return self._load(chunk_id, load, nbytes, entry, mine)

    def _fits(self, nbytes: int) -> bool:
        return self._make_room(nbytes) or self._loading + nbytes <= self.limit_bytes

    def _load(
        self, chunk_id: ChunkId, load: Loader, nbytes: int, known: _Entry | None, mine: _Load
    ) -> _Entry:
        try:
            loaded = load(known.loaded if known is not None else None)
        except BaseException as error:
            reason = error if isinstance(error, NczfsError) else None
            with self._turn:
                self._end_turn(nbytes)
                self._give_up(chunk_id, reason or Unavailable(f"loading a chunk ended: {error!r}"))
            raise
        with self._turn:
            self._end_turn(nbytes)
            self._settle(chunk_id, loaded)
            assert mine.entry is not None
            mine.entry.pins += 1
            return mine.entry

    def _end_turn(self, nbytes: int) -> None:
        self._loading -= nbytes
        self._used -= nbytes
        self._turn.notify_all()

    def _settle(self, chunk_id: ChunkId, loaded: Loaded) -> None:
        entry = _Entry(loaded, self._clock())
        load = self._loads.pop(chunk_id, None)
        self._remove(chunk_id)
        cost = loaded.nbytes + ENTRY_BYTES
        # A chunk larger than the whole budget is handed to whoever waits, and not kept.
        if not self._closed and self._make_room(cost):
            self._entries[chunk_id] = entry
            self._used += cost
            metrics.CACHE_BYTES.set(self._used)
        if load is not None:
            load.entry = entry
            load.done.set()

    def _give_up(self, chunk_id: ChunkId, error: NczfsError) -> None:
        load = self._loads.pop(chunk_id, None)
        if load is not None:
            load.error = error
            load.done.set()

    def _make_room(self, nbytes: int) -> bool:
        if nbytes > self.limit_bytes:
            return False
        rounds = 2 * len(self._entries)
        while self._used + nbytes > self.limit_bytes and rounds:
            rounds -= 1
            chunk_id = next(iter(self._entries), None)
            if chunk_id is None:
                break
            entry = self._entries[chunk_id]
            if entry.pins or entry.referenced:
                entry.referenced = False
                del self._entries[chunk_id]
                self._entries[chunk_id] = entry
            else:
                self._remove(chunk_id)
                metrics.CACHE_EVICTIONS.inc()
        return self._used + nbytes <= self.limit_bytes

    def _remove(self, chunk_id: ChunkId) -> None:
        entry = self._entries.pop(chunk_id, None)
        if entry is not None:
            self._used -= entry.loaded.nbytes + ENTRY_BYTES
            metrics.CACHE_BYTES.set(self._used)
