"""The flush of dirty chunks: one thread takes each unit, stores it, and notes the outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.loaded import ChunkId, LoadedChunk
from nczfs.engine.pools import Pools
from nczfs.engine.retrying import StoreHealth, error_to_raise, may_pass
from nczfs.engine.weight import weight_of_values
from nczfs.engine.writing.dirty import DirtyChunk, DirtyUnit
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.engine.writing.saving import Saver
from nczfs.engine.writing.snapshot import Snapshot
from nczfs.engine.writing.storing import fills, store_snapshots
from nczfs.errors import NczfsError, StructureChanged, Unavailable
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import Version

CLOSED = "the engine is closed"

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
        only_due : skip units whose next attempt is not due yet.

        Raises
        ------
        StoreError, CodecError : a chunk could not be stored, and stays dirty. StructureChanged :
            what was written to an array is lost. Of several errors it is that of `error_to_raise`.
        """
        errors: list[NczfsError] = []
        answers = _Answers()
        units = self._dirty.units(ids)
        while len(units) > 1:
            futures = {u: self._submit(self._flush_one, u, answers, only_due) for u in units}
            failed = {u: error for u, f in futures.items() if (error := _error_of(f)) is not None}
            errors += failed.values()
            units = [u for u, f in futures.items() if u not in failed and not f.result()]
            self._dirty.wait_until_landed(units)
        for unit in units:
            try:
                while not self._flush_one(unit, answers, only_due):
                    self._dirty.wait_until_landed([unit])
            except NczfsError as error:
                errors.append(error)
        for array in {chunk_id[0] for chunk_id in ids}:
            try:
                array.check_kept()  # another thread may have met the error
            except StructureChanged as error:
                errors.append(error)
        if errors:
            raise error_to_raise(errors)

    def send(
        self,
        unit: DirtyUnit,
        snapshots: Mapping[ChunkIndex, Snapshot],
        kept: Callable[[DirtyChunk], None],
    ) -> Future[None]:
        """Store the values that the chunks of a unit were lent in another thread.

        Parameters
        ----------
        kept : called for each chunk when the store did not take them; it is dirty, and has a copy.

        Returns
        -------
        a future that is done when the lender's values are free again. It raises what `kept` raises,
        and StructureChanged if the array is gone.
        """
        returned: Future[None] = Future()
        chunks = list(unit.chunks.values())

        def land(stored: Future[None]) -> None:
            if stored.cancelled():
                self._land_failed(unit, _closed())
                error: BaseException | None = _closed()
            else:
                error = stored.exception()
            try:
                if error is not None and not isinstance(error, NczfsError):
                    raise error
                if isinstance(error, StructureChanged):
                    raise error
                if error is not None:
                    for chunk in chunks:
                        kept(chunk)
            except BaseException as reason:  # noqa: BLE001 - the lender gets it
                returned.set_exception(reason)
            else:
                returned.set_result(None)

        try:
            future = self._submit(self._store, unit, snapshots)
        except Unavailable:
            future = Future()
            future.cancel()
        future.add_done_callback(land)
        return returned

    def _flush_one(self, unit: DirtyUnit, answers: _Answers, only_due: bool) -> bool:
        """Store what was written to a unit. Returns False if another thread is storing it."""
        with unit.lock:
            if unit.flying:
                return False
            chunks = unit.placed()
            if only_due and not (self._health.is_due and unit.retry.is_due):
                return True
            if chunks and (last := answers.error) is not None:
                raise type(last)(str(last))
            snapshots, unreadable = unit.take(chunks)
        if snapshots:
            try:
                self._store(unit, snapshots)
            except NczfsError as error:
                answers.error = error if may_pass(error) else None
                raise
            answers.error = None
        if unreadable is not None:
            raise unreadable
        return True

    def _submit(self, task: Callable[..., T], *arguments: object) -> Future[T]:
        try:
            return self._pools.write.submit(task, *arguments)
        except RuntimeError as error:
            raise _closed() from error

    def _store(self, unit: DirtyUnit, snapshots: Mapping[ChunkIndex, Snapshot]) -> None:
        try:
            values, version = store_snapshots(
                unit.io,
                unit.index,
                snapshots,
                partial(self._dirty.sending, unit),
                self._newest(unit, snapshots),
                is_in_doubt=bool(unit.basis.sent),
            )
        except BaseException as error:
            known = error if isinstance(error, NczfsError) else Unavailable(repr(error))
            self._land_failed(unit, known)
            if isinstance(error, Exception) and known is not error:
                raise known from error
            raise
        # Readers look at dirty chunks before they look into the cache, so the cache is updated
        # first.
        for index, stored in values.items():
            if snapshots[index].is_borrowed and stored is snapshots[index].values:
                self._cache.drop((unit.array, index))
            else:
                loaded = LoadedChunk(stored, weight_of_values(stored), version)
                self._cache.put((unit.array, index), loaded)
        unit.array.on_stored()
        self._health.stored()
        done, left = self._dirty.settle(unit, values, version)
        for chunk in done:
            self._saver.forget(chunk)
        for chunk in left:
            if chunk.saved is not None:
                self._saver.save_or_tell(chunk)  # what is not stored, upon what is
            else:
                self._dirty.count(chunk)

    def _newest(
        self, unit: DirtyUnit, snapshots: Mapping[ChunkIndex, Snapshot]
    ) -> Callable[[], Version | None]:
        """Return a function that returns the version that a unit replaces; None: it is unknown.

        The versions of units are requested beside the question whether the store still has the
        array.
        """
        io, known, versions = unit.io, unit.basis.versions, self._dirty.versions
        if known or not fills(io, unit.index, snapshots):
            return lambda: known[-1] if known else None
        if io.is_conditional and not versions.has_met(unit.array, io):
            with contextlib.suppress(RuntimeError):  # the engine is closing
                self._pools.ask.submit(versions.ask, unit.id, io)
        # Later, because a trial may still have to show whether it is conditional.
        return lambda: versions.ask(unit.id, io) if io.is_conditional else None

    def _land_failed(self, unit: DirtyUnit, error: NczfsError) -> None:
        # Threads that wait for the chunks must find the pause when the flush has ended.
        self._health.refused(error)
        with unit.lock:
            unit.own()
        for chunk in self._dirty.fail(unit, error):
            if isinstance(error, StructureChanged):
                unit.array.has_lost = True
                if self._saver.abandon(chunk):
                    self._dirty.drop(chunk.id)
            elif may_pass(error) and not self._saver.is_ending:
                self._dirty.count(chunk)
            else:
                self._saver.save_or_tell(chunk)


def _error_of(future: Future[bool]) -> NczfsError | None:
    try:
        error = future.exception()
    except CancelledError:
        return _closed()
    return error if error is None or isinstance(error, NczfsError) else Unavailable(repr(error))


def _closed() -> Unavailable:
    return Unavailable(CLOSED)
