"""Write-back: dirty chunks under the budget, and their way into the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future

import numpy as np

from nczfs import metrics
from nczfs.engine.cache import ENTRY_BYTES, ChunkCache, ChunkId, Loaded, Values
from nczfs.engine.chunkio import ChunkIO, memory_of
from nczfs.engine.conflicts import until_stored
from nczfs.engine.dirty import DirtyChunk, Region, Snapshot
from nczfs.engine.pools import Pools
from nczfs.errors import NczfsError, Unavailable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import Version

DIRTY_SHARE = 2  # of the budget of the chunk cache: one in so many bytes may be dirty


class WriteBack:
    """The dirty chunks of all arrays of an engine. Nothing evicts them.

    Writing elements never loads a chunk, and a chunk whose elements were all written is never read
    first. Of any other one the newest values are loaded when it is flushed, the written elements
    are put over them, and the result replaces just that version; on a conflict all of that is done
    again.

    Dirty bytes have a share of the budget; who writes more stores the oldest ones first. `_lock`
    guards the map and the sum of bytes; each chunk has a lock of its own, which is never
    held together with a request to the store. The order is map, then chunk.
    """

    def __init__(self, cache: ChunkCache, pools: Pools) -> None:
        self._cache = cache
        self._pools = pools
        self._lock = threading.Lock()
        self._flushed = threading.Condition(self._lock)
        self._chunks: dict[ChunkId, DirtyChunk] = {}
        self._bytes = 0
        self._limit = cache.limit_bytes // DIRTY_SHARE

    @property
    def dirty_bytes(self) -> int:
        """Decoded bytes that wait for being stored."""
        return self._bytes

    def write(
        self, chunk_id: ChunkId, io: ChunkIO, clip: Box, region: Region, values: Values
    ) -> None:
        """Write elements of a chunk.

        Parameters
        ----------
        clip : the elements of the chunk that lie in the array.
        region : the elements to write, counted like `clip` from the first one of the chunk.
        """
        while True:
            chunk = self._entry(chunk_id, io, clip)
            with chunk.lock:
                if not chunk.gone:
                    chunk.io, chunk.clip = io, clip
                    chunk.write(region, values)
                    break
        if not chunk.nbytes:
            self._count_lent(chunk_id, chunk)
        if self._bytes > self._limit:
            self._make_room()

    def write_through(
        self, chunk_id: ChunkId, io: ChunkIO, clip: Box, values: Values
    ) -> Future[None] | None:
        """Store a whole chunk without keeping a copy of its values.

        Returns
        -------
        what tells when it is stored; until then `values` must not change. None: the chunk is dirty
        already, and must be written by `write`.
        """
        with self._lock:
            if chunk_id in self._chunks:
                return None
            chunk = DirtyChunk(io, chunk_id[1], clip)
            chunk.lend(values)
            snapshot = chunk.take()
            assert snapshot is not None
            self._chunks[chunk_id] = chunk
        try:
            return self._pools.write.submit(self._store, chunk_id, chunk, snapshot, lent=True)
        except RuntimeError as error:
            known = Unavailable(str(error))
            self._land_failed(chunk_id, chunk, known, lent=True)
            raise known from error

    def find(self, chunk_id: ChunkId) -> DirtyChunk | None:
        """The chunk, if it is dirty. No lock."""
        return self._chunks.get(chunk_id)

    def flush(self, arrays: Iterable[int] | None = None) -> None:
        """Have everything that was written to some arrays (None: to all) before this call stored.

        Raises
        ------
        the first error of a chunk that could not be stored; it stays dirty. StoreError, CodecError.
        """
        wanted = None if arrays is None else frozenset(arrays)
        with self._lock:
            ids = [i for i in self._chunks if wanted is None or i[0] in wanted]
        self._flush_all(ids)

    def drop(self, number: int, is_wanted: Callable[[ChunkId], bool]) -> None:
        """Forget the dirty chunks of an array for which `is_wanted` is false; what flies, lands."""
        with self._lock:
            dropped = [i for i in self._chunks if i[0] == number and not is_wanted(i)]
        while dropped:
            self._wait_for(dropped)
            dropped = [chunk_id for chunk_id in dropped if not self._dropped(chunk_id)]

    def _dropped(self, chunk_id: ChunkId) -> bool:
        """Take a chunk out of the map; False when it is on its way to the store."""
        with self._lock:
            chunk = self._chunks.get(chunk_id)
            if chunk is None:
                return True
            with chunk.lock:
                if chunk.flying is None:
                    self._remove(chunk_id, chunk)
                return chunk.gone

    def _entry(self, chunk_id: ChunkId, io: ChunkIO, clip: Box) -> DirtyChunk:
        with self._lock:
            chunk = self._chunks.get(chunk_id)
            if chunk is None:
                chunk = DirtyChunk(io, chunk_id[1], clip, io.array.chunk_bytes + ENTRY_BYTES)
                self._chunks[chunk_id] = chunk
                self._bytes += chunk.nbytes
                metrics.DIRTY_BYTES.set(self._bytes)
            return chunk

    def _count_lent(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Count the memory of a chunk that was lent, and has values of its own now."""
        with self._lock, chunk.lock:
            if not chunk.gone and not chunk.nbytes:
                chunk.nbytes = chunk.io.array.chunk_bytes + ENTRY_BYTES
                self._bytes += chunk.nbytes
                metrics.DIRTY_BYTES.set(self._bytes)

    def _make_room(self) -> None:
        """Flush the oldest chunks until half of what may be dirty is; whoever writes pays."""
        with self._lock:
            oldest = sorted(self._chunks.items(), key=lambda item: item[1].since)
            excess = self._bytes - self._limit // 2
            ids: list[ChunkId] = []
            for chunk_id, chunk in oldest:
                if excess <= 0:
                    break
                if chunk.nbytes:
                    ids.append(chunk_id)
                    excess -= chunk.nbytes
        self._flush_all(ids)

    def _flush_all(self, ids: list[ChunkId]) -> None:
        """Have what was written to some chunks so far stored.

        Only the caller waits for chunks that others are storing: a thread of the pool that waited
        could be the one that they wait for.
        """
        errors: list[BaseException] = []
        while len(ids) > 1:
            futures = {i: self._pools.write.submit(self._flush_one, i) for i in ids}
            failed = {i: error for i, f in futures.items() if (error := f.exception()) is not None}
            errors += failed.values()
            ids = [i for i, f in futures.items() if i not in failed and not f.result()]
            self._wait_for(ids)
        for chunk_id in ids:
            while not self._flush_one(chunk_id):
                self._wait_for([chunk_id])
        if errors:
            raise errors[0]

    def _flush_one(self, chunk_id: ChunkId) -> bool:
        """Store what was written to a chunk so far; False when another thread is storing it."""
        chunk = self._chunks.get(chunk_id)
        if chunk is None:
            return True
        with chunk.lock:
            if chunk.flying is not None:
                return False
            snapshot = chunk.take()
        if snapshot is not None:
            self._store(chunk_id, chunk, snapshot)
        return True

    def _wait_for(self, ids: list[ChunkId]) -> None:
        """Wait until none of some chunks is on its way to the store."""

        def landed() -> bool:
            found = (self._chunks.get(chunk_id) for chunk_id in ids)
            return all(chunk is None or chunk.flying is None for chunk in found)

        with self._flushed:
            self._flushed.wait_for(landed)

    def _store(
        self, chunk_id: ChunkId, chunk: DirtyChunk, snapshot: Snapshot, *, lent: bool = False
    ) -> None:
        try:
            values, version = _stored(chunk.io, chunk.index, snapshot)
        except BaseException as error:
            known = error if isinstance(error, NczfsError) else Unavailable(repr(error))
            self._land_failed(chunk_id, chunk, known, lent=lent)
            raise
        # Readers look here before they look into the cache, so that its turn comes first.
        if lent:
            self._cache.drop(chunk_id)
        else:
            self._cache.put(chunk_id, Loaded(values, memory_of(values), version))
        with self._flushed:
            with chunk.lock:
                if chunk.settle(values, version):
                    self._remove(chunk_id, chunk)
            self._flushed.notify_all()

    def _land_failed(
        self, chunk_id: ChunkId, chunk: DirtyChunk, error: NczfsError, *, lent: bool
    ) -> None:
        """End a flush that failed. What was lent is forgotten: the caller is told, and has it."""
        with self._flushed:
            with chunk.lock:
                chunk.fail(error)
                if lent and chunk.shared:
                    self._remove(chunk_id, chunk)
            self._flushed.notify_all()

    def _remove(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Take a chunk out of the map; both locks are held."""
        if chunk.gone and self._chunks.get(chunk_id) is not chunk:
            return
        chunk.gone = True
        del self._chunks[chunk_id]
        self._bytes -= chunk.nbytes
        metrics.DIRTY_BYTES.set(self._bytes)


def _stored(io: ChunkIO, index: ChunkIndex, snapshot: Snapshot) -> tuple[Values, Version | None]:
    """Store a snapshot: the values that the store has then, and their version."""
    if snapshot.is_whole:
        return snapshot.values, io.store(index, snapshot.values, None)

    def store(attempt: int) -> tuple[Values, Version | None]:
        known = snapshot.version if snapshot.complete and not attempt else None
        if known is not None:
            values = snapshot.values
        else:
            base, known = io.newest(index)
            values = np.array(base)
            snapshot.written.copy_onto(values, snapshot.values)
        return values, io.store(index, values, known)

    return until_stored(store, io.key(index))
