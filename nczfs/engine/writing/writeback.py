"""Write-back: written chunks wait in memory until they are stored."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from nczfs.buffers import Values
from nczfs.engine.background import Background
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.pools import Pools
from nczfs.engine.retrying import StoreHealth, Trouble
from nczfs.engine.spool.journal import Journal
from nczfs.engine.spool.space import Spool
from nczfs.engine.writing.copies import UnitCopies
from nczfs.engine.writing.dirty import DirtyChunk
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.engine.writing.extents import are_inside, check_inside
from nczfs.engine.writing.flushing import CLOSED, Flusher
from nczfs.engine.writing.saving import Saver
from nczfs.engine.writing.written import Region
from nczfs.errors import NczfsError, NoSpace, Unavailable
from nczfs.messages import counted
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex

log = logging.getLogger(__name__)

DIRTY_SHARE = 2  # of the budget of the chunk cache: one in so many bytes may be dirty


class WriteBack:
    """The dirty chunks of all arrays of an engine. Nothing evicts them.

    Writing elements never loads a chunk, and a chunk whose elements were all written is never read
    first. For any other chunk, a flush loads the newest values, puts the written elements over
    them, and replaces exactly that version; on a conflict it begins again.

    Dirty bytes have a share of the budget. A writer that exceeds it stores the oldest chunks first,
    or puts them into the spool if the store does not take them: they stay dirty, and are tried
    again. Chunks that the store refuses for good go there at once. After a failure only `flush`
    uses the store for a while, so a writer waits for at most one failure.

    Parameters
    ----------
    spool : None: writers get the store's error if there is no room, and chunks that are dirty at
        the end are lost.
    age_s : time after which writes are stored in the background; None: only on request.
    journal : holds each write before its writer returns; it takes only boxes.
    store_others : stores other changes from before some time, and returns whether anything is left;
        called in the background.

    Attributes
    ----------
    is_closed : whether nothing is stored any more, but for what is on its way.
    """

    def __init__(
        self,
        cache: ChunkCache,
        pools: Pools,
        spool: Spool | None = None,
        age_s: float | None = None,
        journal: Journal | None = None,
        store_others: Callable[[float], bool] = lambda _: False,
    ) -> None:
        self._spool = spool
        self._cache = cache
        self._journal = journal
        self._health = StoreHealth()
        self._dirty = DirtyMap(cache, journal)
        self._saver = Saver(spool, self._dirty, self._health)
        self._flusher = Flusher(self._dirty, self._saver, cache, pools, self._health)
        self._background = Background(self._store_aged, age_s) if age_s is not None else None
        self._limit = cache.limit_bytes // DIRTY_SHARE
        self._store_others = store_others
        self._is_failing = False
        self.is_closed = False

    @property
    def dirty_bytes(self) -> int:
        """The decoded bytes of chunks that are not stored yet."""
        return self._dirty.decoded_bytes

    @property
    def memory_bytes(self) -> int:
        """The memory that chunks take that are not stored yet, as counted in the budget."""
        return self._dirty.nbytes

    @property
    def unsaved(self) -> int:
        """The number of chunks that are not stored yet."""
        return len(self._dirty.chunks)

    @property
    def trouble(self) -> Trouble | None:
        """Why chunks are not stored; None: nothing has failed."""
        failed = self._dirty.failed()
        if not failed:
            return None
        pause_s = max(self.pause_s, min(unit.retry.pause_s for unit in failed))
        newest = max(failed, key=lambda unit: unit.retry.failed_at)
        return Trouble(str(newest.error), newest.retry.failed_at, pause_s)

    @property
    def pause_s(self) -> float:
        """The seconds for which the background leaves the store alone after a failure."""
        return self._health.retry.pause_s

    def has_unsaved(self, is_wanted: Callable[[StoredArray], bool]) -> bool:
        """Return whether a chunk of the arrays selected by `is_wanted` is not stored yet."""
        return self._dirty.has_any(is_wanted)

    def find(self, chunk_id: ChunkId) -> DirtyChunk | None:
        """Return the chunk if it is dirty. Takes no lock."""
        return self._dirty.chunks.get(chunk_id)

    def write(
        self,
        chunk_id: ChunkId,
        io: ChunkStore,
        clip: Box,
        region: Region,
        values: Values,
        shape: Callable[[], tuple[int, ...]] | None = None,
    ) -> None:
        """Write elements of a chunk.

        Parameters
        ----------
        clip : the elements of the chunk that lie in the array.
        region : the elements to write, counted like `clip` from the first one of the chunk.
        shape : returns the present shape of the array; None: whatever lies beyond its ends is
            written as well.

        Raises
        ------
        StructureChanged : the array is gone, or was made too short for them.
        """
        self.wait_for_room()
        while True:
            chunk = self._dirty.entry(chunk_id, io, clip)
            unit = chunk.unit
            try:
                if shape is not None:
                    check_inside(unit.array, io, chunk.index, region, shape)
                version = None if unit.is_written else self._dirty.known_version(chunk_id, io)
                with unit.lock:
                    if not chunk.gone and (
                        shape is None or are_inside(unit.array, io, chunk.index, region)
                    ):
                        if not unit.is_written:
                            unit.basis = self._dirty.first_basis(unit, version)
                        self._dirty.note_appended(unit)
                        self._put_into_journal(io, chunk, region, values, chunk.revision + 1)
                        unit.io, chunk.clip = io, clip
                        chunk.write(region, values)
                        break
            except BaseException:
                self._dirty.remove_unwritten(chunk_id, chunk)
                raise
        if self.is_closed and self._spool is None:
            raise Unavailable(CLOSED)
        if chunk.nbytes != chunk.memory:
            self._dirty.count(chunk)
        if self._saver.is_ending:
            self._saver.save(chunk)
        self.settle()
        if self._journal is not None and io.array.dtype.vlen is not None:
            self._flusher.flush([chunk_id])

    def send(
        self, unit_id: ChunkId, io: ChunkStore, lent: Mapping[ChunkIndex, tuple[Box, Values]]
    ) -> Future[None] | None:
        """Write a whole unit, and store it at once from the caller's memory.

        Parameters
        ----------
        unit_id : its array, and its index.
        lent : `clip`, as in `write`, and all values of each of its chunks.

        Returns
        -------
        a future that is done when the unit is stored, or dirty because the store did not take it;
        until then the values must not change. None: use `write`, since chunks of the unit are dirty
        already, or the store pauses after a failure, or may not be written yet.
        """
        if self._saver.is_ending or not self._health.is_due or unit_id[0].is_waiting():
            return None
        found = self._dirty.lend(unit_id, io, lent)
        return None if found is None else self._flusher.send(*found, self._keep)

    def wait_for_room(self) -> None:
        """Wait for room after it was missing the last time.

        Raises
        ------
        NoSpace, StoreError, CodecError : there is no room.
        """
        if self._dirty.nbytes > self._limit:
            self._make_room()

    def settle(self) -> None:
        """Wake the background thread after a write, and make room if needed.

        Raises
        ------
        NoSpace, StoreError, CodecError : there is too much of it.
        """
        if self._dirty.chunks:
            self.expect()
        self.wait_for_room()

    def expect(self) -> None:
        """Wake the background thread for what is not stored yet."""
        if self._background is not None:
            is_much = self._dirty.nbytes > self._limit // 2 or self._is_journal_long
            self._background.expect(at_once=is_much and self._health.is_due)

    def flush(self, is_wanted: Callable[[StoredArray], bool] = lambda _: True) -> None:
        """Store everything that was written to some arrays before this call, through any handle.

        Raises
        ------
        as `Flusher.flush`.
        """
        self._flusher.flush(self._dirty.ids(is_wanted))

    def note_copies(self, made: UnitCopies) -> None:
        """As `DirtyMap.note_copies`."""
        self._dirty.note_copies(made)

    def has_stored(self, unit_id: ChunkId) -> bool:
        """Return whether this process stored a unit lately. Takes no lock."""
        return self._dirty.versions.latest(unit_id) is not None

    def held(self, chunk_id: ChunkId, box: Box) -> Values:
        """Return a copy of elements that were written. Raises Unavailable."""
        chunk = self.find(chunk_id)
        if chunk is None:
            chunk_id[0].check()
            raise Unavailable("a record that was appended is not in memory any more")
        return chunk.copy_of(box)

    def retract(self, chunk_id: ChunkId, io: ChunkStore, box: Box) -> None:
        """Take back that elements were written. Raises Unavailable."""
        self._dirty.wait_until_landed(self._dirty.units([chunk_id]))
        chunk = self._dirty.retract(chunk_id, io, box)
        if chunk is not None:
            left = self.find(chunk_id)
            if left is not None and chunk.saved is not None and self._journal is not None:
                self._saver.save_or_tell(left)  # the journal may have no values that the entry has
            self._saver.forget(chunk)
        self._cache.drop(chunk_id)

    @property
    def is_crowded(self) -> bool:
        """Whether so much is dirty that some of it should be stored, and the store can be asked."""
        return self._excess > 0 and self._health.is_due

    def settled(self) -> None:
        """Remove array lengths that the store knows from the journal."""
        self._dirty.settle_journal()

    def drop(self, array: StoredArray, is_wanted: Callable[[ChunkId], bool]) -> None:
        """Forget dirty chunks for which `is_wanted` is false; those on their way still arrive."""
        left = [i for i in self._dirty.ids(lambda known: known is array) if not is_wanted(i)]
        while left:
            self._dirty.wait_until_landed(self._dirty.units(left))
            left = [chunk_id for chunk_id in left if not self._is_dropped(chunk_id)]

    def save(self) -> list[DirtyChunk]:
        """Put dirty chunks into the spool, even beyond its limit; they stay dirty.

        Later writes that are not stored at once go there, too. Never raises.
        """
        self._saver.is_ending = self._spool is not None
        left = self._dirty.all()
        for chunk in left:
            self._saver.save_or_tell(chunk)
        return left

    def close(self) -> None:
        """Put chunks that are still dirty into the spool, without using the store.

        Without a spool they are dropped, and later writes get an error.
        """
        if self._background is not None:
            self._background.close()
        was_closed, self.is_closed = self.is_closed, True
        if self._spool is None or was_closed:
            return
        left = self.save()
        if count := sum(chunk.is_saved for chunk in left):
            log.error(
                "%s not stored, but kept in %s: `nczfs recover` puts %s back",
                _chunks_are(count),
                self._spool.directory,
                "it" if count == 1 else "them",
            )
        if lost := sum(chunk.is_only_here for chunk in left):
            log.critical(
                "%s lost: neither the store nor the spool took %s",
                _chunks_are(lost),
                "it" if lost == 1 else "them",
            )

    def lost(self) -> list[str]:
        """Return which chunks are only in memory, in words."""
        lost = [chunk for chunk in self._dirty.all() if chunk.is_only_here]
        if not lost:
            return []
        error = next((e for c in lost if (e := c.unit.error) is not None), self._health.error)
        return [f"{counted(len(lost), 'chunk')}, such as {lost[0].key}: {error}"]

    def keeps_length(self, array: StoredArray, axis: int, length: int) -> bool:
        """Return whether `nczfs recover` will make an array so long, because of values there."""
        if self._journal is not None and self._journal.keeps_length(array.prefix, axis, length):
            return True
        chunks = (self.find(chunk_id) for chunk_id in self._dirty.ids(lambda a: a is array))
        saved = (chunk.unit.io.array for chunk in chunks if chunk is not None and chunk.is_saved)
        return any(each.shape[axis] >= length for each in saved)

    def join(self) -> None:
        """Wait for the background thread after `close`."""
        if self._background is not None:
            self._background.join()

    @property
    def _is_journal_long(self) -> bool:
        return self._journal is not None and self._journal.log.is_long

    @property
    def _excess(self) -> int:
        """Dirty bytes beyond half of the limit."""
        return self._dirty.nbytes - self._limit // 2

    def _put_into_journal(
        self, io: ChunkStore, chunk: DirtyChunk, region: Region, values: Values, revision: int
    ) -> None:
        if self._journal is not None and io.array.dtype.vlen is None:
            assert isinstance(region, Box)
            when = chunk.written_ns
            self._journal.wrote(io, chunk.index, region, values, chunk.unit.basis, when, revision)

    def _keep(self, chunk: DirtyChunk) -> None:
        """Put a chunk that was sent in vain into the journal, with all of its values.

        Raises
        ------
        NoSpace, Unavailable : it would not survive as promised.
        """
        if self.is_closed and self._spool is None:
            raise Unavailable(f"{chunk.key}: not stored: {chunk.unit.error}")
        if self._journal is None:
            return
        with chunk.lock:
            # Stored meanwhile, with all that was sent, or in the spool.
            if chunk.gone or chunk.settled >= 0 or chunk.values is None:
                return
            if chunk.unit.io.array.dtype.vlen is not None:
                raise Unavailable(f"{chunk.key}: not stored: {chunk.unit.error}")
            values = chunk.values[chunk.clip.slices()]
            # Of what is on its way again, later writes are in the journal by themselves.
            revision = chunk.taken if chunk.flying is not None else chunk.revision
            self._put_into_journal(chunk.unit.io, chunk, chunk.clip, values, revision)

    def _is_dropped(self, chunk_id: ChunkId) -> bool:
        """Forget a chunk. Returns False if it is on its way to the store."""
        chunk = self._dirty.drop(chunk_id)
        if chunk is None:
            return True
        if chunk.gone:
            self._saver.forget(chunk)
        return chunk.gone

    def _make_room(self) -> None:
        """Flush the oldest chunks until dirty bytes are half of the limit. The writer waits for it.

        Chunks that the store does not take go into the spool. Raises NoSpace, StoreError,
        CodecError.
        """
        ids = self._dirty.oldest(self._excess)
        if self._spool is None:
            self._flusher.flush(ids)
            return
        try:
            self._flusher.flush(ids, only_due=True)
        except NczfsError as error:
            log.info("written to the spool: %s", error)
        held = 0
        for chunk_id in ids:
            chunk = self.find(chunk_id)
            # The pause in which it was not tried may have ended.
            if chunk is not None and (chunk.unit.error is not None or self._health.is_failing):
                self._saver.save(chunk)
                held += chunk.nbytes if chunk.is_unmapped else 0
        if held and self._dirty.nbytes > self._limit:
            raise NoSpace(
                "memory has no room for more values of variable length that are not stored: "
                f"{self._health.error}"
            )

    def _store_aged(self, before: float) -> bool:
        """Store what was written before some time, and dirty bytes beyond half of the limit.

        Returns
        -------
        whether anything is left to wait for.
        """
        ended, now = self._ended_segment(), time.monotonic()
        if ended is not None:
            self._store_others(now)  # which gives appended records their place
        aged = self._dirty.aged(before if ended is None else math.inf)
        oldest = self._dirty.oldest(self._excess)
        try:
            self._flusher.flush(list(dict.fromkeys([*aged, *oldest])), only_due=ended is None)
            if self._journal is not None and ended is not None and self._is_stored(now):
                self._journal.log.drop(ended)
        except Exception as error:  # noqa: BLE001 - the thread has nobody to tell it to
            if not self.is_closed:
                level = logging.INFO if self._is_failing else logging.WARNING
                trouble = self.trouble
                log.log(
                    level,
                    "what was written is kept, and tried again in %.0f s: %s",
                    trouble.pause_s if trouble is not None else 0.0,
                    error,
                )
        self._is_failing = bool(self._dirty.failed())
        is_left = self._store_others(before) if self._health.is_due else True
        return is_left or bool(self._dirty.chunks)

    def _is_stored(self, before: float) -> bool:
        """Return whether all that was written before some time is stored.

        A flush leaves chunks with appended records that have no place yet.
        """
        is_any_held = self._dirty.has_any(lambda array: array.held_from is not None)
        return not is_any_held and not self._dirty.aged(before)

    def _ended_segment(self) -> int | None:
        """Return the journal's segment up to which all can be removed once everything is stored.

        None if there is none, or it is not time yet to try that.
        """
        if self._journal is None or not self._journal.log.is_long:
            return None
        is_due = self._health.is_due and self._dirty.are_due
        return self._journal.log.ended() if is_due else None


def _chunks_are(count: int) -> str:
    return "1 chunk is" if count == 1 else f"{count} chunks are"
