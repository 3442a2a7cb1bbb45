"""The dirty chunks of an engine, and the memory that they take."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from weakref import WeakSet

from nczfs import metrics
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.loaded import ChunkId, Values
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.chunks.storedversions import StoredVersions
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.journal import Journal
from nczfs.engine.writing.dirty import DirtyChunk, Snapshot
from nczfs.errors import NczfsError
from nczfs.model.boxes import Box
from nczfs.zmap.base import ABSENT, Buffer, Version

log = logging.getLogger(__name__)

_LIVING: Final[WeakSet[DirtyMap]] = WeakSet()
_living_lock = threading.Lock()  # guards the set


class DirtyMap:
    """All chunks with unsaved elements. Nothing evicts them.

    They are listed by their identity in the store, whichever handle they were written through.
    `_lock` guards the map and the sum of bytes; each chunk has its own lock. The order is map, then
    chunk. No lock is held during a request to the store.

    Parameters
    ----------
    cache : its clean chunks make room for dirty ones.
    journal : is informed about chunks that leave the map.

    Attributes
    ----------
    chunks : may be read without a lock; only this class changes it.
    nbytes : of all chunks together, as counted in the budget.
    versions : those of stored chunks.
    """

    def __init__(self, cache: ChunkCache, journal: Journal | None) -> None:
        self.chunks: dict[ChunkId, DirtyChunk] = {}
        self.nbytes = 0
        self._of_array: dict[StoredArray, dict[ChunkId, None]] = {}
        self._cache = cache
        self._journal = journal
        self.versions = StoredVersions()
        self._lock = threading.Lock()
        self._landed = threading.Condition(self._lock)
        with _living_lock:
            _LIVING.add(self)

    def ids(self, is_wanted: Callable[[StoredArray], bool]) -> list[ChunkId]:
        """Return the chunks of the arrays for which `is_wanted` returns true."""
        with self._lock:
            wanted = (ids for array, ids in self._of_array.items() if is_wanted(array))
            return [chunk_id for ids in wanted for chunk_id in ids]

    def has_any(self, is_wanted: Callable[[StoredArray], bool]) -> bool:
        """Return whether there is a chunk of an array for which `is_wanted` returns true."""
        with self._lock:
            return any(map(is_wanted, self._of_array))

    def all(self) -> list[DirtyChunk]:
        """Return the present chunks."""
        with self._lock:
            return list(self.chunks.values())

    def aged(self, before: float) -> list[ChunkId]:
        """Return the chunks written before some time, then those that failed, whatever their age.

        Chunks that fail each time must not keep the others waiting.
        """
        with self._lock:
            found = [
                item
                for item in self.chunks.items()
                if item[1].since <= before or item[1].error is not None
            ]
        return [i for i, _ in sorted(found, key=lambda item: item[1].retry.attempts)]

    def oldest(self, excess: int) -> list[ChunkId]:
        """Return the oldest chunks up to so many bytes; those that failed come last."""
        if excess <= 0:
            return []
        with self._lock:
            oldest = sorted(
                self.chunks.items(), key=lambda item: (item[1].retry.attempts, item[1].since)
            )
        ids: list[ChunkId] = []
        for chunk_id, chunk in oldest:
            if excess <= 0:
                break
            if chunk.nbytes:
                ids.append(chunk_id)
                excess -= chunk.nbytes
        return ids

    def entry(self, chunk_id: ChunkId, io: ChunkStore, clip: Box) -> DirtyChunk:
        """Return the chunk, which is made if it is not dirty yet."""
        with self._lock:
            chunk = self.chunks.get(chunk_id)
            if chunk is None:
                chunk = DirtyChunk(io, chunk_id[1], clip)
                self._put(chunk_id, chunk)
            return chunk

    def known_version(self, chunk_id: ChunkId, io: ChunkStore) -> Version | None:
        """Return the stored version of a chunk if it is known without a request, otherwise None."""
        if (known := self._cache.known(chunk_id)) is not None:
            return ABSENT if known.version is None else known.version
        if (latest := self.versions.latest(chunk_id)) is not None or io.is_dated:
            return latest
        try:
            stat = io.stat(io.unit(chunk_id[1]))
        except NczfsError as error:
            log.debug("%s: its version is unknown: %s", io.key(io.unit(chunk_id[1])), error)
            return None
        return stat.version if stat is not None else ABSENT

    def sending(self, chunk: DirtyChunk, data: Buffer, replaces: Version | None) -> None:
        """Note what is about to be sent of a chunk: it may arrive although the answer is lost."""
        with chunk.lock:
            chunk.sending(data, replaces)
            if self._journal is not None:
                chunk.note_sent()
                self._journal.sending(chunk.io, chunk.index, chunk.basis)

    def lend(
        self, chunk_id: ChunkId, io: ChunkStore, clip: Box, values: Values
    ) -> tuple[DirtyChunk, Snapshot] | None:
        """Begin a flush of the caller's own values. Returns None if the chunk is dirty already."""
        if chunk_id in self.chunks:
            return None
        basis = Basis().upon(self.known_version(chunk_id, io))
        with self._lock:
            if chunk_id in self.chunks:
                return None
            chunk = DirtyChunk(io, chunk_id[1], clip, basis=basis)
            chunk.lend(values)
            snapshot = chunk.take()
            assert snapshot is not None
            self._put(chunk_id, chunk)
        return chunk, snapshot

    def count(self, chunk: DirtyChunk) -> None:
        """Count the memory that a chunk takes now."""
        with self._lock, chunk.lock:
            if not chunk.gone:
                self._take(chunk.memory - chunk.nbytes)
                chunk.nbytes = chunk.memory

    def settle(
        self, chunk_id: ChunkId, chunk: DirtyChunk, values: Values, version: Version | None
    ) -> None:
        """End a flush that succeeded. The chunk leaves the map if nothing is left to write."""
        with self._landed:
            with chunk.lock:
                if chunk.settle(values, version):
                    self._remove(chunk_id, chunk)
                else:
                    self.note_appended(chunk_id, chunk, always=True)
            self.versions.note(chunk_id, version)
            self._landed.notify_all()

    def note_appended(self, chunk_id: ChunkId, chunk: DirtyChunk, *, always: bool = False) -> None:
        """Note from which record on the place is not certain. The caller holds the chunk's lock.

        Parameters
        ----------
        always : whether the basis has changed otherwise.
        """
        first = chunk_id[0].appended_from
        if always or chunk.basis.appended_from != first:
            chunk.basis = replace(chunk.basis, appended_from=first)
            if self._journal is not None:
                self._journal.sending(chunk.io, chunk.index, chunk.basis)

    def fail(self, chunk: DirtyChunk, error: NczfsError) -> None:
        """End a flush that failed."""
        with self._landed:
            with chunk.lock:
                chunk.fail(error)
            self._landed.notify_all()

    def wait_until_landed(self, ids: list[ChunkId]) -> None:
        """Wait until none of some chunks is on its way to the store."""

        def landed() -> bool:
            found = (self.chunks.get(chunk_id) for chunk_id in ids)
            return all(chunk is None or chunk.flying is None for chunk in found)

        with self._landed:
            self._landed.wait_for(landed)

    def remove_unwritten(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Remove a chunk if nothing was ever written to it."""
        with self._lock, chunk.lock:
            if not chunk.revision and not chunk.gone:
                self._remove(chunk_id, chunk)

    def drop(self, chunk_id: ChunkId) -> DirtyChunk | None:
        """Remove a chunk if it is in the map; what is on its way to the store still arrives."""
        with self._lock:
            chunk = self.chunks.get(chunk_id)
            if chunk is not None:
                with chunk.lock:
                    if chunk.flying is None:
                        self._remove(chunk_id, chunk)
            return chunk

    def retract(self, chunk_id: ChunkId, box: Box) -> DirtyChunk | None:
        """Take elements out of a chunk that is not on its way to the store.

        Returns
        -------
        the chunk as it was.

        Raises
        ------
        Unavailable : it cannot be read; nothing is taken out.
        """
        with self._lock:
            chunk = self.chunks.get(chunk_id)
            if chunk is None:
                return None
            with chunk.lock:
                left = chunk.without(box)
                self._remove(chunk_id, chunk)
            if left is not None:
                self._put(chunk_id, left)
                self._take(left.memory)
                left.nbytes = left.memory
            return chunk

    @property
    def are_due(self) -> bool:
        """Whether no chunk pauses after its own failure."""
        with self._lock:
            return all(chunk.retry.is_due for chunk in self.chunks.values())

    @property
    def is_any_failed(self) -> bool:
        """Whether the last flush of any chunk failed."""
        with self._lock:
            return any(chunk.error is not None for chunk in self.chunks.values())

    def settle_journal(self) -> None:
        """Remove array lengths that the store knows from the journal."""
        if self._journal is not None:
            with self._lock:
                self._journal.settled(is_clean=not self.chunks)

    def _put(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Add a chunk. Raises StructureChanged if its array is gone."""
        chunk_id[0].check()
        self.chunks[chunk_id] = chunk
        self._of_array.setdefault(chunk_id[0], {})[chunk_id] = None

    def _remove(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Remove a chunk. The caller holds both locks."""
        if chunk.gone and self.chunks.get(chunk_id) is not chunk:
            return
        chunk.gone = True
        del self.chunks[chunk_id]
        of_array = self._of_array[chunk_id[0]]
        del of_array[chunk_id]
        if not of_array:
            del self._of_array[chunk_id[0]]
        self._take(-chunk.nbytes)
        if self._journal is not None:
            self._journal.stored(chunk.io, chunk.index, is_last=not self.chunks)

    def _take(self, nbytes: int) -> None:
        """Count bytes, also in the budget of the cache."""
        self.nbytes += nbytes
        self._cache.claim(nbytes)


def _dirty_bytes() -> int:
    """Return the bytes of all maps of the process."""
    with _living_lock:
        return sum(each.nbytes for each in _LIVING)


metrics.DIRTY_BYTES.set_function(_dirty_bytes)
