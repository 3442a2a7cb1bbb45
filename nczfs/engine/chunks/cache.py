"""The chunk cache: decoded chunks under one byte budget, each loaded once however many wait."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nczfs import metrics
from nczfs.buffers import Values
from nczfs.engine.chunks.absences import Absences
from nczfs.engine.chunks.chunkaccess import UNREAD, WHOLE, ChunkAccess
from nczfs.engine.chunks.entries import CacheEntry, ChunkLoad, Loader
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.chunks.loaded import ChunkId, Footprint, LoadedChunk
from nczfs.engine.chunks.slots import Slot
from nczfs.engine.chunks.spill import Spilled, SpillTier, no_tier
from nczfs.engine.chunks.spillfile import taken
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.errors import NczfsError, Unavailable

# Waiting for the disk must cost a reader no more than a request to a far store.
PATIENCE_S = 0.05
ENTRY_BYTES = 512  # approximate cost of an entry besides its values
_CLOSED = "the dataset was closed in the meantime"


class ChunkCache:
    """Decoded chunks, and the budget that they share with what is read ahead.

    `_lock` guards the entries, the loads and the sums of bytes; it is never held while a chunk is
    loaded. Eviction is the clock algorithm: a hit sets a bit without the lock, so that the event
    loop never waits for a thread; an entry whose bit is set gets a second round.

    Evicted chunks are offered to the disk tier; chunks that are not in memory are looked for there
    before they are loaded. Readers declare how they use a chunk: the tier wants chunks of which
    little was read.

    Parameters
    ----------
    tier : the disk tier of this cache alone, closed with it; None: there is none.

    Attributes
    ----------
    absences : chunks that are missing, of which nothing need be kept here. What is known of
        those of an array is dropped when a chunk of it is put here, dropped or discarded.
    """

    def __init__(
        self,
        limit_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        tier: SpillTier | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.absences = Absences(clock)
        self._tier = tier or no_tier()
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._loading = 0  # bytes of the loads that `pinned` has started
        # To find the first key of a dict that lost many takes time with their number.
        self._entries: OrderedDict[ChunkId, CacheEntry] = OrderedDict()
        self._loads: dict[ChunkId, ChunkLoad] = {}
        self._used = 0
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes of entries, of reservations, and of chunks on their way to the disk."""
        return self._used + self._tier.waiting_bytes

    @property
    def disk_bytes(self) -> int:
        """Bytes that the disk tier occupies."""
        return self._tier.used_bytes

    def peek(self, chunk_id: ChunkId, fresh_since: float, share: float = 1.0) -> Values | None:
        """Return the values if they are in memory, confirmed after `fresh_since`. Takes no lock."""
        entry = self._entries.get(chunk_id)
        if entry is None or entry.checked_at < fresh_since:
            return None
        entry.referenced = True
        entry.share_read += share
        return entry.loaded.values

    @contextmanager
    def pinned(
        self,
        chunk_id: ChunkId,
        load: Loader,
        nbytes: int,
        fresh_since: float,
        access: ChunkAccess = WHOLE,
    ) -> Iterator[Values]:
        """Keep the values of a chunk in memory while the context is open.

        A chunk that is not there, or was confirmed before `fresh_since`, is loaded by this thread.
        If another thread is loading it, this one waits, and raises its error as well. Loads whose
        `nbytes` together pass the budget take turns.

        Parameters
        ----------
        access : the part that will be read; the values beyond it are undefined.
        """
        found = self._acquire(chunk_id, load, nbytes, fresh_since, access)
        if not isinstance(found, CacheEntry):
            yield found
            return
        try:
            yield found.loaded.values
        finally:
            with self._lock:
                found.pins -= 1

    def keep(
        self, chunk_id: ChunkId, load: Loader, nbytes: int, fresh_since: float, keeping: Keeping
    ) -> None:
        """Load a chunk as `pinned` does, and keep it on the disk, or else in memory.

        Waits until the disk has taken enough of what was kept before.
        """
        if (slot := self._kept(chunk_id, fresh_since)) is None:
            # Before the load, so that a disk that hangs takes no turn from readers.
            self._tier.wait_for_room(nbytes)
            with self.pinned(chunk_id, load, nbytes, fresh_since, UNREAD), self._lock:
                entry = self._entries.get(chunk_id)
                if entry is not None:
                    self._tier.keep(chunk_id, entry.loaded, entry.checked_at)
            self._tier.flush()
            slot = self._tier.find(chunk_id)
        if slot is not None:
            keeping.on_disk(slot, taken(slot.nbytes))
        else:
            entry = self._entries.get(chunk_id)
            keeping.in_memory(0 if entry is None else entry.loaded.nbytes + ENTRY_BYTES)
        keeping.newest_lost = self._tier.newest_lost

    def settle(self, keeping: Keeping) -> None:
        """Wait until all that was kept is on the disk, or will never be there."""
        if keeping.last is not None:
            self._tier.wait_for(keeping.last)

    def holds(self, chunk_id: ChunkId) -> bool:
        """Return whether a chunk is in memory or on the disk, however old."""
        return chunk_id in self._entries or self._tier.find(chunk_id) is not None

    def start_load(self, load: ChunkLoad, nbytes: int, fresh_since: float) -> bool:
        """Claim the load of a chunk that is to be read ahead.

        True: the caller calls `begin_load`, and `finish_load` or `end_load`. Until it begins, a
        reader may load the chunk itself: then that is void, and the bytes were given back. False:
        the chunk is there or on its way, or there is no room for it: reading ahead is dropped,
        never queued.
        """
        chunk_id = load.chunk_id
        with self._lock:
            entry = self._entries.get(chunk_id)
            if self._closed or chunk_id in self._loads:
                return False
            known = entry or self._tier.find(chunk_id)
            if known is not None and known.checked_at >= fresh_since:
                return False
            granted = not self._tier.is_behind and self._make_room(nbytes)
            if granted:
                load.started_at = self._clock()
                # No call comes between these: an interrupted claim is granted whole, or not at all.
                load.held = nbytes
                self._used += nbytes
                self._loads[chunk_id] = load
        self._tier.flush()
        return granted

    def begin_load(self, load: ChunkLoad) -> bool:
        """Begin a claimed load. False: it has ended, or a reader has taken it over."""
        with self._lock:
            load.is_begun = self._loads.get(load.chunk_id) is load
        return load.is_begun

    def known(self, chunk_id: ChunkId) -> LoadedChunk | None:
        """Return what is in memory or on the disk of a chunk, however old."""
        entry = self._entries.get(chunk_id)
        return entry.loaded if entry is not None else self._tier.known(chunk_id)

    def finish_load(self, load: ChunkLoad, loaded: LoadedChunk, known: LoadedChunk | None) -> None:
        """End a load that `start_load` granted, unless it has ended.

        Parameters
        ----------
        known : what was known of the chunk; the same object as `loaded` if it was confirmed.
        """
        with self._lock:
            entry = self._finish(load, loaded, known, 0.0)
            if entry is not None:
                # It must not be evicted before chunks that were read, only because it was not read
                # yet.
                entry.referenced = True
        self._tier.flush()

    def end_load(self, load: ChunkLoad, error: NczfsError | None = None) -> None:
        """End a load without a chunk, unless it has ended.

        Parameters
        ----------
        error : waiting readers get it; None: they load the chunk.
        """
        with self._lock:
            self._give_up(load, error)

    def try_reserve(self, nbytes: int) -> bool:
        """Claim bytes for something other than a chunk. Returns False without room for them."""
        with self._lock:
            granted = not self._closed and self._make_room(nbytes)
            if granted:
                self._used += nbytes
        self._tier.flush()
        return granted

    def claim(self, nbytes: int) -> None:
        """Take bytes of the budget, or give them back if `nbytes` is negative.

        This is for memory that is in use in any case; chunks make room for it as far as they can.
        """
        with self._lock:
            is_full = self._used + nbytes > self.limit_bytes - self._tier.queue_bytes
            if is_full:
                self._make_room(nbytes)
            self._used += nbytes
        if is_full:
            self._tier.flush()

    def put(self, chunk_id: ChunkId, loaded: LoadedChunk) -> None:
        """Replace what is known of a chunk. The result of a running load is not kept."""
        self.absences.forget(chunk_id[0])
        with self._lock:
            self._disown(chunk_id)
            self._tier.forget(chunk_id)
            # Counted as read whole, since a program that writes an array does not also read it
            # across chunks.
            self._replace(chunk_id, CacheEntry(loaded, self._clock(), share_read=1.0))
        self._tier.flush()

    def drop(self, chunk_id: ChunkId) -> None:
        """Forget a chunk, in memory and on the disk. The result of a running load is not kept.

        Later readers, and those who wait for that load, get a newly loaded chunk.
        """
        self.absences.forget(chunk_id[0])
        with self._lock:
            self._disown(chunk_id)
            self._remove(chunk_id)
            self._tier.forget(chunk_id)

    def discard(self, array: StoredArray) -> Footprint:
        """Forget every chunk of an array, as `drop` does. Returns what the cache had of them."""
        self.absences.forget(array)
        with self._lock:
            on_disk = self._tier.discard(array)
            for chunk_id in [i for i in self._loads if i[0] is array]:
                self._disown(chunk_id)
            in_memory = [i for i in self._entries if i[0] is array]
            before = self._used
            for chunk_id in in_memory:
                self._remove(chunk_id)
            freed = before - self._used
        return Footprint(len(on_disk.keys() | in_memory), freed, sum(map(taken, on_disk.values())))

    def give_back(self) -> None:
        """Return the room on the disk of what was forgotten to the file system."""
        self._tier.give_back()

    def close(self) -> None:
        """Forget everything. Waiting readers get an error."""
        with self._lock:
            self._closed = True
            for load in list(self._loads.values()):
                self._give_up(load, Unavailable(_CLOSED))
            for chunk_id in list(self._entries):
                self._remove(chunk_id)
        self._tier.close()

    def _acquire(
        self,
        chunk_id: ChunkId,
        load: Loader,
        nbytes: int,
        fresh_since: float,
        access: ChunkAccess,
    ) -> CacheEntry | Values:
        """Return a pinned entry, or otherwise values from the disk."""
        while True:
            with self._lock:
                found: CacheEntry | Values | None = self._hit(chunk_id, fresh_since, access)
            if found is not None:
                return found
            ours = ChunkLoad(chunk_id)
            try:
                found = self._obtained(ours, load, nbytes, fresh_since, access)
            except BaseException as error:  # also if the program is interrupted, wherever that is
                self.end_load(ours, error if isinstance(error, NczfsError) else None)
                raise
            if found is not None:
                return found

    def _hit(self, chunk_id: ChunkId, fresh_since: float, access: ChunkAccess) -> CacheEntry | None:
        entry = self._entries.get(chunk_id)
        if entry is None or entry.checked_at < fresh_since:
            return None
        metrics.CACHE_HITS.inc()
        return entry.pinned(access.share)

    def _obtained(
        self,
        ours: ChunkLoad,
        load: Loader,
        nbytes: int,
        fresh_since: float,
        access: ChunkAccess,
    ) -> CacheEntry | Values | None:
        """Wait for another load of the chunk, or load it; None: it is to be looked for again."""
        chunk_id = ours.chunk_id
        if (under_way := self._loads.get(chunk_id)) is not None and not under_way.is_begun:
            under_way.done.wait(under_way.patience_s)
        with self._lock:
            if (hit := self._hit(chunk_id, fresh_since, access)) is not None:
                return hit
            entry = self._entries.get(chunk_id)
            slot = self._tier.find(chunk_id) if entry is None else None
            under_way = self._loads.get(chunk_id)
            is_spilled = slot is not None and slot.checked_at >= fresh_since
            waits = under_way is not None and under_way.is_begun
            if not waits and not is_spilled:
                if under_way is not None:  # whose claim may have to wait for other chunks
                    self._give_up(under_way, None)
                ours.started_at, ours.is_begun = self._clock(), True
                self._loads[chunk_id] = ours
        if under_way is not None and waits:
            under_way.done.wait()
            if under_way.error is not None:
                raise under_way.error
            entry = under_way.entry
            if entry is not None and entry.checked_at >= fresh_since:
                with self._lock:
                    # What a reader had no room for is not there for one who keeps it.
                    if access is not UNREAD or self.holds(chunk_id):
                        return entry.pinned(access.share)
            return None
        if not is_spilled:
            metrics.CACHE_MISSES.inc()
            known = entry.loaded if entry is not None else self._tier.known(chunk_id)
            loaded = self._loaded(ours, load, nbytes, known, access)
            if loaded is not None:
                return loaded
        return self._read_back(chunk_id, slot, access) if slot is not None else None

    def _read_back(
        self, chunk_id: ChunkId, slot: Slot, access: ChunkAccess
    ) -> CacheEntry | Values | None:
        """Return the wanted part of a chunk from the disk, or the whole; None if it is gone."""
        keep = slot.is_worth_memory(access.part)
        values = self._tier.read(slot, None if keep else access.part)
        if values is None or not keep:
            return values
        entry = CacheEntry(slot.loaded_from(values), slot.checked_at, share_read=0.0)
        with self._lock:
            if self._tier.find(chunk_id) is not slot:
                return None
            if chunk_id not in self._entries:
                self._insert(chunk_id, entry)
            entry.pinned(access.share)
        self._tier.flush()
        return entry

    def _kept(self, chunk_id: ChunkId, fresh_since: float) -> Slot | None:
        """Return where a chunk is in the tier, confirmed after `fresh_since`."""
        slot = self._tier.find(chunk_id)
        return slot if slot is not None and slot.checked_at >= fresh_since else None

    def _fits(self, nbytes: int) -> bool:
        return self._make_room(nbytes) or self._loading + nbytes <= self.limit_bytes

    def _loaded(
        self,
        ours: ChunkLoad,
        load: Loader,
        nbytes: int,
        known: LoadedChunk | None,
        access: ChunkAccess,
    ) -> CacheEntry | None:
        """Return the pinned entry; None if the copy on the disk was confirmed."""
        with self._turn:
            self._turn.wait_for(lambda: not self._loading or self._fits(nbytes))
            if self._closed:
                raise Unavailable(_CLOSED)
            ours.held, ours.is_in_turn = nbytes, True
            self._used += nbytes
            self._loading += nbytes
        self._tier.flush()
        loaded = load(known)
        self._tier.wait_briefly(nbytes, PATIENCE_S)
        with self._lock:
            entry = self._finish(ours, loaded, known, access.share, is_kept=access is UNREAD)
            if entry is not None:
                entry.pins += 1
        self._tier.flush()
        return entry

    def _finish(
        self,
        load: ChunkLoad,
        loaded: LoadedChunk,
        known: LoadedChunk | None,
        share_read: float,
        *,
        is_kept: bool = False,
    ) -> CacheEntry | None:
        """Return what was loaded; it is kept if the load has not ended meanwhile."""
        is_under_way = self._release(load)
        entry = None
        if isinstance(loaded, Spilled):
            if is_under_way:
                loaded.slot.checked_at = load.started_at
        else:
            entry = CacheEntry(loaded, min(load.started_at, loaded.as_of), share_read)
            if is_under_way and not load.is_dropped:
                if loaded is not known:  # what is confirmed may be on the disk alone by now
                    self._tier.forget(load.chunk_id)
                self._replace(load.chunk_id, entry)
                if is_kept:
                    self._tier.keep(load.chunk_id, entry.loaded, entry.checked_at)
        if is_under_way:
            load.end(None if load.is_dropped else entry)
        return entry

    def _replace(self, chunk_id: ChunkId, entry: CacheEntry) -> None:
        self._remove(chunk_id)
        self._insert(chunk_id, entry)

    def _insert(self, chunk_id: ChunkId, entry: CacheEntry) -> None:
        # A chunk larger than the whole budget is handed to its readers, and not kept.
        cost = entry.loaded.nbytes + ENTRY_BYTES
        if not self._closed and self._make_room(cost):
            self._entries[chunk_id] = entry
            self._used += cost
            metrics.CACHE_BYTES.set(self._used)
        else:
            self._offer(chunk_id, entry)

    def _offer(self, chunk_id: ChunkId, entry: CacheEntry) -> None:
        self._tier.offer(chunk_id, entry.loaded, entry.checked_at, share_read=entry.share_read)

    def _disown(self, chunk_id: ChunkId) -> None:
        load = self._loads.get(chunk_id)
        if load is not None:
            load.is_dropped = True
            if not load.is_begun:  # so what would be loaded is not needed
                self._give_up(load, None)

    def _give_up(self, load: ChunkLoad, error: NczfsError | None) -> None:
        if self._release(load):
            load.end(None, error)

    def _release(self, load: ChunkLoad) -> bool:
        """Give back what a load holds. False: it is under way no more."""
        if self._loads.get(load.chunk_id) is not load:
            return False
        del self._loads[load.chunk_id]
        self._used -= load.held
        if load.is_in_turn:
            self._loading -= load.held
            self._turn.notify_all()
        return True

    def _make_room(self, nbytes: int) -> bool:
        limit = self.limit_bytes - self._tier.queue_bytes
        if nbytes > limit:
            return False
        rounds = 2 * len(self._entries)
        while self._used + nbytes > limit and rounds:
            rounds -= 1
            chunk_id = next(iter(self._entries), None)
            if chunk_id is None:
                break
            entry = self._entries[chunk_id]
            if entry.pins or entry.referenced:
                entry.referenced = False
                self._entries.move_to_end(chunk_id)
            else:
                self._remove(chunk_id)
                self._offer(chunk_id, entry)
                metrics.CACHE_EVICTIONS.inc()
        return self._used + nbytes <= limit

    def _remove(self, chunk_id: ChunkId) -> None:
        entry = self._entries.pop(chunk_id, None)
        if entry is not None:
            self._used -= entry.loaded.nbytes + ENTRY_BYTES
            metrics.CACHE_BYTES.set(self._used)
