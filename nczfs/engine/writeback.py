"""Write-back: dirty chunks under the budget, and their way into the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from nczfs import metrics
from nczfs.engine.background import Background
from nczfs.engine.cache import ChunkCache
from nczfs.engine.chunkio import ChunkIO, memory_of
from nczfs.engine.dirty import DirtyChunk, Retry, Snapshot
from nczfs.engine.loaded import ChunkId, Loaded, Values
from nczfs.engine.pools import Pools
from nczfs.engine.spool.chunks import discard, save_chunk
from nczfs.engine.spool.journal import Journal
from nczfs.engine.spool.space import Spool
from nczfs.engine.storing import store_snapshot
from nczfs.engine.written import Region
from nczfs.errors import DeadlinePassed, NczfsError, NoSpace, StoreBusy, Unavailable
from nczfs.model.boxes import Box

T = TypeVar("T")

log = logging.getLogger(__name__)

PASSING = (Unavailable, DeadlinePassed, StoreBusy)  # what may be otherwise a moment later
ENDED = Unavailable("the mount ended before it was stored")
DIRTY_SHARE = 2  # of the budget of the chunk cache: one in so many bytes may be dirty


class WriteBack:
    """The dirty chunks of all arrays of an engine. Nothing evicts them.

    Writing elements never loads a chunk, and a chunk whose elements were all written is never read
    first. Of any other one the newest values are loaded when it is flushed, the written elements
    are put over them, and the result replaces just that version; on a conflict all of that is done
    again.

    Dirty bytes have a share of the budget; who writes more stores the oldest ones first, or puts
    them into the spool where the store does not take them: they stay dirty, and are tried again.
    What the store refuses for good goes there at once. A store that failed is left in peace for a
    while, by all but `flush`: a writer waits for no more than one failure of it.

    `_lock` guards the map, the sum of bytes and `_retry`; each chunk has a lock of its own, which
    is never held together with a request to the store. The order is map, then chunk.

    Parameters
    ----------
    spool : None: writers get the error of the store when there is no room, and what is dirty at the
        end is lost.
    age_s : what was written is stored in the background after so long; None: when somebody asks.
    journal : has what was written before the writer is told; boxes alone can be written then.
    """

    def __init__(
        self,
        cache: ChunkCache,
        pools: Pools,
        spool: Spool | None = None,
        age_s: float | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._cache = cache
        self._spool = spool
        self._journal = journal
        self._retry = Retry()
        self._error: NczfsError = ENDED
        self._is_failing = False
        self._closed = False
        self._background = Background(self._store_aged, age_s) if age_s is not None else None
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
        if self._bytes > self._limit:  # there was no room at the last time
            self._make_room()
        while True:
            chunk = self._entry(chunk_id, io, clip)
            try:
                with chunk.lock:
                    if not chunk.gone:
                        self._put_into_journal(io, chunk, region, values)
                        chunk.io, chunk.clip = io, clip
                        chunk.write(region, values)
                        break
            except BaseException:
                self._remove_unwritten(chunk_id, chunk)
                raise
        if chunk.nbytes != chunk.memory:
            self._count(chunk)
        if self._closed and self._spool is not None:
            self._save(chunk)
        if self._background is not None:
            is_much = self._bytes > self._limit // 2 or self._is_journal_long
            self._background.expect(at_once=is_much and self._retry.is_due)
        if self._bytes > self._limit:
            self._make_room()
        if self._journal is not None and io.array.dtype.vlen is not None:
            self._flush_all([chunk_id])

    @property
    def _is_journal_long(self) -> bool:
        return self._journal is not None and self._journal.is_long

    def _put_into_journal(
        self, io: ChunkIO, chunk: DirtyChunk, region: Region, values: Values
    ) -> None:
        if self._journal is not None and io.array.dtype.vlen is None:
            assert isinstance(region, Box)
            self._journal.wrote(io, chunk.index, region, values)

    def _remove_unwritten(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Take a chunk out of the map if nothing was ever written to it."""
        with self._lock, chunk.lock:
            if not chunk.revision and not chunk.gone:
                self._remove(chunk_id, chunk)

    def settled(self) -> None:
        """Have the journal hold no lengths of arrays that the store knows."""
        if self._journal is not None:
            with self._lock:
                self._journal.settled(is_clean=not self._chunks)

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
            future = self._submit(self._store, chunk_id, chunk, snapshot)
        except Unavailable as error:
            self._land_failed(chunk_id, chunk, error)
            raise

        def check(stored: Future[None]) -> None:
            if stored.cancelled():
                self._land_failed(chunk_id, chunk, _closed())

        future.add_done_callback(check)
        return future

    @property
    def unsaved(self) -> int:
        """How many chunks wait for being stored."""
        return len(self._chunks)

    def has_unsaved(self, arrays: Iterable[int]) -> bool:
        """Whether a chunk of some arrays waits for being stored."""
        wanted = frozenset(arrays)
        with self._lock:
            return any(number in wanted for number, _ in self._chunks)

    def close(self) -> None:
        """Put what is still dirty into the spool. Asks no store, and waits for none."""
        if self._background is not None:
            self._background.close()
        if self._spool is None or self._closed:
            return
        self._closed = True  # who writes from now on saves it himself
        with self._lock:
            left = list(self._chunks.values())
        for chunk in left:
            self._save_or_tell(chunk)
        if count := sum(chunk.saved is not None for chunk in left):
            log.error(
                "%d chunks are not stored, and saved in %s: `nczfs recover` puts them back",
                count,
                self._spool.directory,
            )

    def join(self) -> None:
        """Wait for the thread in the background, after `close`."""
        if self._background is not None:
            self._background.join()

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
        if chunk.gone:
            self._discard_saved(chunk)
        return chunk.gone

    def _entry(self, chunk_id: ChunkId, io: ChunkIO, clip: Box) -> DirtyChunk:
        with self._lock:
            chunk = self._chunks.get(chunk_id)
            if chunk is None:
                chunk = self._chunks[chunk_id] = DirtyChunk(io, chunk_id[1], clip)
            return chunk

    def _count(self, chunk: DirtyChunk) -> None:
        """Count the memory that a chunk takes by now."""
        with self._lock, chunk.lock:
            if not chunk.gone:
                self._take(chunk.memory - chunk.nbytes)
                chunk.nbytes = chunk.memory

    def _make_room(self) -> None:
        """Flush the oldest chunks until half of what may be dirty is; whoever writes pays.

        What the store does not take goes into the spool. Raises NoSpace, StoreError, CodecError.
        """
        ids = self._oldest(self._bytes - self._limit // 2)
        if self._spool is None:
            self._flush_all(ids)
            return
        try:
            self._flush_all(ids, only_due=True)
        except NczfsError as error:
            log.info("written to the spool: %s", error)
        held = 0
        for chunk_id in ids:
            chunk = self._chunks.get(chunk_id)
            if chunk is not None and (chunk.error is not None or not self._retry.is_due):
                self._save(chunk)
                held += chunk.nbytes if chunk.is_unmapped else 0
        if held and self._bytes > self._limit:
            raise NoSpace(
                "memory has no room for more values of variable length that are not stored: "
                f"{self._error}"
            )

    def _store_aged(self, before: float) -> bool:
        """Store what was written before some time, and what is more than half of what may be.

        Returns
        -------
        whether anything is left to wait for.
        """
        ended = self._ended_segment()
        with self._lock:
            # What never failed comes first: what fails each time must not keep it waiting.
            aged = sorted(
                (chunk.retry.attempts, chunk_id)
                for chunk_id, chunk in self._chunks.items()
                if ended is not None or chunk.since <= before
            )
        oldest = self._oldest(self._bytes - self._limit // 2)
        try:
            self._flush_all(
                list(dict.fromkeys([*(chunk_id for _, chunk_id in aged), *oldest])),
                only_due=ended is None,
            )
            if self._journal is not None and ended is not None:
                self._journal.drop(ended)
        except Exception as error:  # noqa: BLE001 - the thread has nobody to tell it to
            if not self._is_failing and not self._closed:
                log.warning("what was written is kept, and tried again: %s", error)
        with self._lock:
            self._is_failing = any(chunk.error is not None for chunk in self._chunks.values())
        return bool(self._chunks)

    def _ended_segment(self) -> int | None:
        """The segment of the journal up to which all can go once everything is stored.

        None where there is none, or it is not time yet to try that.
        """
        if self._journal is None or not self._journal.is_long:
            return None
        with self._lock:
            chunks = self._chunks.values()
            is_due = self._retry.is_due and all(chunk.retry.is_due for chunk in chunks)
        return self._journal.ended() if is_due else None

    def _oldest(self, excess: int) -> list[ChunkId]:
        """The oldest chunks that take so many bytes together, those that failed last."""
        if excess <= 0:
            return []
        with self._lock:
            oldest = sorted(
                self._chunks.items(), key=lambda item: (item[1].retry.attempts, item[1].since)
            )
        ids: list[ChunkId] = []
        for chunk_id, chunk in oldest:
            if excess <= 0:
                break
            if chunk.nbytes:
                ids.append(chunk_id)
                excess -= chunk.nbytes
        return ids

    def _save(self, chunk: DirtyChunk) -> None:
        """Put a chunk into the spool, and let go of its memory. Raises NoSpace, StoreError."""
        assert self._spool is not None
        with chunk.lock:
            frozen = chunk.freeze()
            io = chunk.io
        if frozen is not None:
            reason = str(chunk.error or self._error)
            saved = save_chunk(self._spool, io, chunk.index, frozen, reason)
            with chunk.lock:
                unneeded = chunk.save(frozen, saved)
            if unneeded is not None:
                discard(self._spool, unneeded)
        with chunk.lock:
            chunk.park()
        self._count(chunk)

    def _discard_saved(self, chunk: DirtyChunk) -> None:
        """Remove the entry of a chunk that is gone."""
        if chunk.saved is not None and self._spool is not None:
            discard(self._spool, chunk.saved)

    def _flush_all(self, ids: list[ChunkId], *, only_due: bool = False) -> None:
        """Have what was written to some chunks so far stored.

        Only the caller waits for chunks that others are storing: a thread of the pool that waited
        could be the one that they wait for.

        Parameters
        ----------
        only_due : leave those alone for which it is not time yet to be tried again.
        """
        errors: list[NczfsError] = []
        while len(ids) > 1:
            futures = {i: self._submit(self._flush_one, i, only_due) for i in ids}
            failed = {i: error for i, f in futures.items() if (error := _error_of(f)) is not None}
            errors += failed.values()
            ids = [i for i, f in futures.items() if i not in failed and not f.result()]
            self._wait_for(ids)
        for chunk_id in ids:
            while not self._flush_one(chunk_id, only_due):
                self._wait_for([chunk_id])
        if errors:
            raise errors[0]

    def _flush_one(self, chunk_id: ChunkId, only_due: bool) -> bool:
        """Store what was written to a chunk so far; False when another thread is storing it."""
        chunk = self._chunks.get(chunk_id)
        if chunk is None:
            return True
        with chunk.lock:
            if chunk.flying is not None:
                return False
            if only_due and not (chunk.retry.is_due and self._retry.is_due):
                return True
            snapshot = chunk.take()
        if snapshot is not None:
            self._store(chunk_id, chunk, snapshot)
        return True

    def _submit(self, task: Callable[..., T], *arguments: object) -> Future[T]:
        try:
            return self._pools.write.submit(task, *arguments)
        except RuntimeError as error:
            raise _closed() from error

    def _wait_for(self, ids: list[ChunkId]) -> None:
        """Wait until none of some chunks is on its way to the store."""

        def landed() -> bool:
            found = (self._chunks.get(chunk_id) for chunk_id in ids)
            return all(chunk is None or chunk.flying is None for chunk in found)

        with self._flushed:
            self._flushed.wait_for(landed)

    def _store(self, chunk_id: ChunkId, chunk: DirtyChunk, snapshot: Snapshot) -> None:
        try:
            values, version = store_snapshot(chunk.io, chunk.index, snapshot)
        except BaseException as error:
            known = error if isinstance(error, NczfsError) else Unavailable(repr(error))
            self._land_failed(chunk_id, chunk, known)
            if isinstance(error, Exception) and known is not error:
                raise known from error
            raise
        # Readers look here before they look into the cache, so that its turn comes first.
        if snapshot.is_borrowed and values is snapshot.values:
            self._cache.drop(chunk_id)
        else:
            self._cache.put(chunk_id, Loaded(values, memory_of(values), version))
        with self._flushed:
            self._retry.succeeded()
            self._error = ENDED
            with chunk.lock:
                if chunk.settle(values, version):
                    self._remove(chunk_id, chunk)
            self._flushed.notify_all()
        if chunk.gone:
            self._discard_saved(chunk)
        elif chunk.saved is not None:
            self._save_or_tell(chunk)  # what was written meanwhile, instead of what is stored
        else:
            self._count(chunk)

    def _land_failed(self, chunk_id: ChunkId, chunk: DirtyChunk, error: NczfsError) -> None:
        """End a flush that failed. What was lent is forgotten: the caller is told, and has it."""
        is_passing = isinstance(error, PASSING)
        with self._flushed:
            if is_passing and self._retry.is_due:  # one of many that failed together counts
                self._retry.failed()
            self._error = error
            with chunk.lock:
                chunk.fail(error)
                if chunk.is_lent:
                    self._remove(chunk_id, chunk)
            self._flushed.notify_all()
        if chunk.gone:
            self._discard_saved(chunk)
        elif not is_passing:
            self._save_or_tell(chunk)
        else:
            self._count(chunk)

    def _save_or_tell(self, chunk: DirtyChunk) -> None:
        if self._spool is None:
            self._count(chunk)
            return
        try:
            self._save(chunk)
        except NczfsError as error:
            log.critical("%s: is in memory only: %s", chunk.io.key(chunk.index), error)

    def _remove(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Take a chunk out of the map; both locks are held."""
        if chunk.gone and self._chunks.get(chunk_id) is not chunk:
            return
        chunk.gone = True
        del self._chunks[chunk_id]
        self._take(-chunk.nbytes)
        if self._journal is not None:
            self._journal.stored(chunk.io, chunk.index, is_last=not self._chunks)

    def _take(self, nbytes: int) -> None:
        """Count bytes, in the budget of the cache too: what it keeps makes room for them."""
        self._bytes += nbytes
        self._cache.claim(nbytes)
        metrics.DIRTY_BYTES.set(self._bytes)


def _error_of(future: Future[bool]) -> NczfsError | None:
    try:
        error = future.exception()
    except CancelledError:
        return _closed()
    return error if error is None or isinstance(error, NczfsError) else Unavailable(repr(error))


def _closed() -> Unavailable:
    return Unavailable("the engine is closed")
