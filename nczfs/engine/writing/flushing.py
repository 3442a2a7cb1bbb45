"""The flush of dirty chunks: one thread takes each chunk, stores it, and notes the outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.loaded import ChunkId, Loaded
from nczfs.engine.pools import Pools
from nczfs.engine.retrying import StoreHealth, may_pass
from nczfs.engine.weight import weight_of_values
from nczfs.engine.writing.dirty import DirtyChunk, Snapshot
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.engine.writing.saving import Saver
from nczfs.engine.writing.storing import store_snapshots
from nczfs.errors import NczfsError, StructureChanged, Unavailable
from nczfs.zmap.base import Version

T = TypeVar("T")


@dataclass(slots=True)
class _Answers:
    """Why the store could not be reached the last time in one flush; None: it could."""

    error: NczfsError | None = None


class Flusher:
    """A storer of dirty chunks, several at a time. Chunks refused for good are saved at once.

    Parameters
    ----------
    cache : receives the stored chunks.
    health : records every success and failure.
    """

    def __init__(
        self, dirty: DirtyMap, saver: Saver, cache: ChunkCache, pools: Pools, health: StoreHealth
    ) -> None:
        self._dirty = dirty
        self._saver = saver
        self._cache = cache
        self._pools = pools
        self._health = health

    def flush(self, ids: list[ChunkId], *, only_due: bool = False) -> None:
        """Store what was written to some chunks so far.

        Chunks with appended records that have no place yet are left (`engine/arrays/appending.py`).

        Once the store is unreachable, the remaining chunks are not tried. Only the caller waits for
        chunks that other threads are storing: a waiting thread of the pool could be the one that
        they need.

        Parameters
        ----------
        only_due : skip chunks whose next attempt is not due yet.

        Raises
        ------
        the first error of a chunk that could not be stored; it stays dirty. StoreError, CodecError.
        """
        errors: list[NczfsError] = []
        answers = _Answers()
        while len(ids) > 1:
            futures = {i: self._submit(self._flush_one, i, answers, only_due) for i in ids}
            failed = {i: error for i, f in futures.items() if (error := _error_of(f)) is not None}
            errors += failed.values()
            ids = [i for i, f in futures.items() if i not in failed and not f.result()]
            self._dirty.wait_until_landed(ids)
        for chunk_id in ids:
            while not self._flush_one(chunk_id, answers, only_due):
                self._dirty.wait_until_landed([chunk_id])
        if errors:
            raise errors[0]

    def send(
        self,
        chunk_id: ChunkId,
        chunk: DirtyChunk,
        snapshot: Snapshot,
        kept: Callable[[DirtyChunk], None],
    ) -> Future[None]:
        """Store the values that a chunk was lent in another thread.

        Parameters
        ----------
        kept : called when the store did not take them; the chunk is dirty, and has a copy.

        Returns
        -------
        a future that is done when the lender's values are free again. It raises what `kept` raises,
        and StructureChanged if the array is gone.
        """
        returned: Future[None] = Future()

        def land(stored: Future[None]) -> None:
            if stored.cancelled():
                self._land_failed(chunk_id, chunk, _closed())
                error: BaseException | None = _closed()
            else:
                error = stored.exception()
            try:
                if error is not None and not isinstance(error, NczfsError):
                    raise error
                if isinstance(error, StructureChanged):
                    raise error
                if error is not None:
                    kept(chunk)
            except BaseException as reason:  # noqa: BLE001 - the lender gets it
                returned.set_exception(reason)
            else:
                returned.set_result(None)

        try:
            future = self._submit(self._store, chunk_id, chunk, snapshot)
        except Unavailable:
            future = Future()
            future.cancel()
        future.add_done_callback(land)
        return returned

    def _flush_one(self, chunk_id: ChunkId, answers: _Answers, only_due: bool) -> bool:
        """Store what was written to a chunk. Returns False if another thread is storing it."""
        chunk = self._dirty.chunks.get(chunk_id)
        if chunk is None:
            return True
        with chunk.lock:
            if chunk.flying is not None:
                return False
            if _is_held(chunk_id, chunk.io):
                return True
            if only_due and not (chunk.retry.is_due and self._health.is_due):
                return True
            if (last := answers.error) is not None:
                raise type(last)(str(last))
            snapshot = chunk.take()
        if snapshot is not None:
            try:
                self._store(chunk_id, chunk, snapshot)
            except NczfsError as error:
                answers.error = error if may_pass(error) else None
                raise
            answers.error = None
        return True

    def _submit(self, task: Callable[..., T], *arguments: object) -> Future[T]:
        try:
            return self._pools.write.submit(task, *arguments)
        except RuntimeError as error:
            raise _closed() from error

    def _store(self, chunk_id: ChunkId, chunk: DirtyChunk, snapshot: Snapshot) -> None:
        try:
            io, index = chunk.io, chunk.index
            group, version = store_snapshots(
                io,
                io.unit(index),
                {index: snapshot},
                partial(self._dirty.sending, chunk),
                self._newest(chunk_id, chunk, snapshot),
                is_in_doubt=bool(chunk.basis.sent),
            )
            values = group[index]
        except BaseException as error:
            known = error if isinstance(error, NczfsError) else Unavailable(repr(error))
            self._land_failed(chunk_id, chunk, known)
            if isinstance(error, Exception) and known is not error:
                raise known from error
            raise
        # Readers look at dirty chunks before they look into the cache, so the cache is updated
        # first.
        if snapshot.is_borrowed and values is snapshot.values:
            self._cache.drop(chunk_id)
        else:
            self._cache.put(chunk_id, Loaded(values, weight_of_values(values), version))
        self._health.stored()
        self._dirty.settle(chunk_id, chunk, values, version)
        if chunk.gone:
            self._saver.forget(chunk)
        elif chunk.saved is not None:
            self._saver.save_or_tell(chunk)  # what was written meanwhile, instead of what is stored
        else:
            self._dirty.count(chunk)

    def _newest(
        self, chunk_id: ChunkId, chunk: DirtyChunk, snapshot: Snapshot
    ) -> Callable[[], Version | None]:
        """Return what returns the version that a chunk replaces; None: it is unknown.

        The store is asked while it is asked whether it still has the array.
        """
        known, io, versions = chunk.basis.versions, chunk.io, self._dirty.versions
        if known or not snapshot.is_whole:
            return lambda: known[-1] if known else None
        if io.is_conditional and not versions.has_met(chunk_id[0], io):
            with contextlib.suppress(RuntimeError):  # the engine is closing
                self._pools.ask.submit(versions.ask, chunk_id, io)
        # Later, because a trial may still have to show whether it is conditional.
        return lambda: versions.ask(chunk_id, io) if io.is_conditional else None

    def _land_failed(self, chunk_id: ChunkId, chunk: DirtyChunk, error: NczfsError) -> None:
        # Threads that wait for the chunk must find the pause when the flush has ended.
        self._health.refused(error)
        with chunk.lock:
            chunk.own()
        self._dirty.fail(chunk, error)
        if isinstance(error, StructureChanged):
            chunk_id[0].has_lost = True
            if self._saver.abandon(chunk):
                self._dirty.drop(chunk_id)
        elif may_pass(error) and not self._saver.is_ending:
            self._dirty.count(chunk)
        else:
            self._saver.save_or_tell(chunk)


def _is_held(chunk_id: ChunkId, io: ChunkStore) -> bool:
    """Return whether a chunk may have appended records that have no place yet."""
    array, index = chunk_id
    first = array.held_from
    return first is not None and (index[0] + 1) * io.array.chunk_shape[0] > first


def _error_of(future: Future[bool]) -> NczfsError | None:
    try:
        error = future.exception()
    except CancelledError:
        return _closed()
    return error if error is None or isinstance(error, NczfsError) else Unavailable(repr(error))


def _closed() -> Unavailable:
    return Unavailable("the engine is closed")
