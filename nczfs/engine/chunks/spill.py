"""The disk tier of the chunk cache, for decoded chunks that were evicted from memory."""

from __future__ import annotations

import errno
import logging
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import count

import numpy as np

from nczfs import metrics
from nczfs.buffers import Values
from nczfs.engine.chunks.loaded import ChunkId, LoadedChunk
from nczfs.engine.chunks.slots import SLOTS_MAX, Ghosts, Slot
from nczfs.engine.chunks.spillfile import DEFAULT_LIMIT_BYTES, SpillFile, default_directory, taken
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.errors import Unavailable
from nczfs.messages import size_text
from nczfs.model.boxes import Box

log = logging.getLogger(__name__)

# A chunk of which less than this share was read before its eviction is read across the grain, and
# will be needed again. One that was read whole will not, as far as one pass shows.
READ_WHOLE_SHARE = 0.5

# Bytes that may wait to be written: one in so many of the memory budget, and no more than keeps a
# disk busy.
QUEUE_SHARE = 8
QUEUE_BYTES_MAX = 64 << 20

_FULL = (errno.ENOSPC, errno.EDQUOT)

_LIVING: weakref.WeakSet[SpillTier] = weakref.WeakSet()


class Spilled(LoadedChunk):
    """A chunk in the tier, as loaders see it: its values are read on access."""

    __slots__ = ("_tier", "slot")
    _tier: SpillTier
    slot: Slot

    def __init__(self, tier: SpillTier, slot: Slot) -> None:
        for name, value in (
            ("nbytes", slot.nbytes),
            ("version", slot.version),
            ("slot", slot),
            ("_tier", tier),
        ):
            object.__setattr__(self, name, value)

    @property
    def values(self) -> Values:  # a field of the base class, read on demand here
        """The values. Raises Unavailable if the chunk has left the tier meanwhile."""
        values = self._tier.read(self.slot)
        if values is None:
            raise Unavailable("a spilled chunk cannot be read back")
        return values


class SpillTier:
    """A bounded number of bytes of evicted chunks on a disk, for one chunk cache.

    A chunk is worth its place there if it will be needed again: if little of it was read before its
    eviction (reading across the grain), or if it is evicted for the second time within a span that
    the tier can bridge. So reading in order writes nothing. A separate thread writes chunks; if it
    does not keep up after a short wait, chunks are dropped. The tier turns itself off when the disk
    fails; it never causes an error.

    `_lock` guards the records. The cache calls `offer` and `forget` with its own lock held, so that
    a chunk cannot be forgotten in between; the tier never calls the cache.

    Parameters
    ----------
    submit : runs a function in another thread; RuntimeError if none can be started.
    queue_bytes : may wait to be written, in memory that the cache leaves free for them.

    Attributes
    ----------
    newest_lost : the number of the newest chunk that made room for others; 0: none did.
    """

    def __init__(
        self,
        submit: Callable[[Callable[[], None]], object],
        queue_bytes: int,
        directory: str | None = None,
        limit_bytes: int | None = None,
    ) -> None:
        self._submit = submit
        self.queue_bytes = queue_bytes if limit_bytes != 0 else 0
        self._directory = directory or default_directory()
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._written = threading.Condition(self._lock)
        self._is_on = limit_bytes != 0
        self._file: SpillFile | None = None
        self._slots: OrderedDict[ChunkId, Slot] = OrderedDict()
        self._queue: deque[Slot] = deque()
        self._is_writing = False
        self._is_stuck = False
        self._is_short = False
        self._ghosts = Ghosts()
        self.waiting_bytes = 0
        self._numbers = count(1)
        self.newest_lost = 0
        _LIVING.add(self)

    @property
    def used_bytes(self) -> int:
        """Bytes taken on the disk."""
        file = self._file
        return file.used_bytes if file is not None else 0

    def find(self, chunk_id: ChunkId) -> Slot | None:
        """Return where a chunk is in the tier. Takes no lock."""
        return self._slots.get(chunk_id)

    def known(self, chunk_id: ChunkId) -> LoadedChunk | None:
        """Return a chunk in the tier, as loaders see it."""
        slot = self._slots.get(chunk_id)
        return Spilled(self, slot) if slot is not None else None

    def offer(
        self, chunk_id: ChunkId, loaded: LoadedChunk, checked_at: float, *, share_read: float
    ) -> None:
        """Take an evicted chunk if it is worth it. Does not touch the disk; see `flush`."""
        if not loaded.nbytes or loaded.values.dtype.hasobject:
            return
        nbytes = loaded.values.nbytes
        with self._lock:
            if not self._is_on or taken(nbytes) > self._limit:
                return
            slot = self._slots.get(chunk_id)
            if slot is not None:
                slot.checked_at = max(slot.checked_at, checked_at)
                return
            comes_back = self._ghosts.forget(chunk_id)
            if self._has_room(nbytes) and (comes_back or share_read < READ_WHOLE_SHARE):
                self._take(Slot(chunk_id, loaded, checked_at))
            else:
                self._ghosts.remember(chunk_id, nbytes, self._limit)

    def keep(self, chunk_id: ChunkId, loaded: LoadedChunk, checked_at: float) -> None:
        """Take a chunk whether it is worth it or not. Does not touch the disk; see `flush`.

        One that was never written, and so takes no bytes, stays known without any.
        """
        if loaded.values.dtype.hasobject:
            return
        with self._lock:
            slot = self._slots.get(chunk_id)
            if slot is not None:
                slot.checked_at = max(slot.checked_at, checked_at)
            elif self._is_on and taken(loaded.nbytes) <= self._limit:
                self._ghosts.forget(chunk_id)
                self._take(Slot(chunk_id, loaded, checked_at))

    def _take(self, slot: Slot) -> None:
        if len(self._slots) >= SLOTS_MAX:
            _, oldest = self._slots.popitem(last=False)
            self._release(oldest)
            self.newest_lost = oldest.number
        slot.number = next(self._numbers)
        self._slots[slot.chunk_id] = slot
        if slot.nbytes:
            self._queue.append(slot)
            self.waiting_bytes += slot.nbytes

    def flush(self) -> None:
        """Let another thread write what waits. Called without any lock."""
        if not self._queue or self._is_writing:
            return
        try:
            with self._lock:
                if self._is_writing:
                    return
                self._is_writing = True
            self._submit(self._write_all)
        except RuntimeError:  # the system starts no thread
            self._drop_waiting()
        except BaseException:  # the program is interrupted; two that write come one after the other
            with self._lock:
                self._is_writing = False
            raise

    @property
    def is_behind(self) -> bool:
        """Whether chunks come faster than they are written."""
        return 2 * self.waiting_bytes > self.queue_bytes and not self._is_stuck

    def wait_briefly(self, nbytes: int, timeout_s: float) -> None:
        """Wait for a limited time until the writer has room for so many bytes.

        A writer that makes no progress is waited for only once.
        """
        if not self._has_room(nbytes) and not self._is_stuck:
            with self._written:
                self._is_stuck = not self._written.wait_for(
                    lambda: self._has_room(nbytes), timeout_s
                )

    def wait_for_room(self, nbytes: int) -> None:
        """Wait until the writer has room for so many bytes."""
        with self._written:
            self._written.wait_for(lambda: self._has_room(nbytes))

    def wait_for(self, slot: Slot) -> None:
        """Wait until a chunk is on the disk, or has left the tier."""
        with self._written:
            self._written.wait_for(
                lambda: slot.place is not None or self._slots.get(slot.chunk_id) is not slot
            )

    def read(self, slot: Slot, part: Box | None = None) -> Values | None:
        """Read the values of a chunk; those outside `part` are undefined.

        Returns None if the chunk is not there any more.
        """
        loaded = slot.loaded
        if loaded is not None:
            metrics.SPILL_HITS.inc()
            return loaded.values
        file, place = self._file, slot.place
        if file is None or place is None:
            return None
        values = np.empty(slot.shape, slot.dtype)
        try:
            is_sound = file.read(place, _bytes_of(values), *slot.covered(part))
        except OSError as error:
            self._turn_off(error)
            return None
        if place.segment.is_gone or self._slots.get(slot.chunk_id) is not slot:
            return None
        if not is_sound:
            self._turn_off("a chunk read back differs from the one written")
            return None
        values.flags.writeable = False
        metrics.SPILL_HITS.inc()
        return values

    def forget(self, chunk_id: ChunkId) -> None:
        """Drop a chunk, even if it is about to be written."""
        with self._lock:
            self._release(self._slots.pop(chunk_id, None))
            self._written.notify_all()

    def discard(self, array: StoredArray) -> dict[ChunkId, int]:
        """Drop every chunk of an array. Returns how many bytes of each were here."""
        with self._lock:
            gone = [self._slots.pop(i) for i in [i for i in self._slots if i[0] is array]]
            for slot in gone:
                self._release(slot)
            self._written.notify_all()
        return {slot.chunk_id: slot.nbytes for slot in gone}

    def give_back(self) -> None:
        """Return the room of what was dropped to the file system. Called without any lock."""
        file = self._file
        if file is not None:
            try:
                file.give_back()
            except OSError as error:
                self._turn_off(error)
            metrics.SPILL_BYTES.set(self.used_bytes)

    def close(self) -> None:
        """Drop everything and take nothing more."""
        with self._lock:
            self._is_on = False
            self.queue_bytes = 0
            file = self._drop_all()
        if file is not None:
            file.close()
            metrics.SPILL_BYTES.set(0)

    def _drop_all(self) -> SpillFile | None:
        self._slots = OrderedDict()
        self._ghosts = Ghosts()
        self._empty_queue()
        file, self._file = self._file, None
        return file

    def _drop_waiting(self) -> None:
        with self._lock:
            for slot in self._queue:
                if self._slots.get(slot.chunk_id) is slot:
                    del self._slots[slot.chunk_id]
            self._empty_queue()
            self._is_writing = False

    def _empty_queue(self) -> None:
        self.waiting_bytes -= sum(slot.nbytes for slot in self._queue)
        self._queue.clear()
        self._written.notify_all()

    def _has_room(self, nbytes: int) -> bool:
        return not self.waiting_bytes or self.waiting_bytes + nbytes <= self.queue_bytes

    @property
    def _limit(self) -> int:
        file = self._file
        if file is not None:
            return file.limit_bytes
        return DEFAULT_LIMIT_BYTES if self._limit_bytes is None else self._limit_bytes

    def _write_all(self) -> None:
        try:
            while (slot := self._next()) is not None:
                try:
                    self._write(slot)
                finally:
                    with self._lock:
                        self.waiting_bytes -= slot.nbytes
                        self._is_stuck = False
                        self._written.notify_all()
        except Exception as error:  # noqa: BLE001 - the result is not awaited
            self._turn_off(error)

    def _next(self) -> Slot | None:
        with self._lock:
            while self._queue:
                slot = self._queue.popleft()
                if self._slots.get(slot.chunk_id) is slot:
                    return slot
                self.waiting_bytes -= slot.nbytes
                self._written.notify_all()
            self._is_writing = False
            return None

    def _write(self, slot: Slot) -> None:
        loaded, file = slot.loaded, self._open()
        assert loaded is not None
        if taken(slot.nbytes) > file.limit_bytes:
            self._drop(slot)
            return
        if file.make_room(slot.nbytes):
            self._note_lost()
        try:
            place = file.append(_bytes_of(np.ascontiguousarray(loaded.values)))
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._be_content(file, error)
            self._drop(slot)
            return
        metrics.SPILLED_CHUNKS.inc()
        metrics.SPILL_BYTES.set(file.used_bytes)
        with self._lock:
            if self._slots.get(slot.chunk_id) is slot:
                slot.place = place
                slot.loaded = None
            else:
                file.release(place)

    def _note_lost(self) -> None:
        """Forget the chunks whose segments were emptied; those that had been forgotten are none."""
        with self._lock:
            for slot in [slot for slot in self._slots.values() if slot.is_gone]:
                del self._slots[slot.chunk_id]
                self.newest_lost = slot.number

    def _be_content(self, file: SpillFile, error: OSError) -> None:
        """Go on with the room that there is, because the disk has no more, or raise the error."""
        file.limit_to_present()
        if not file.limit_bytes:
            raise error
        level = logging.DEBUG if self._is_short else logging.WARNING
        self._is_short = True
        log.log(
            level,
            "%s: %s: no more than %s of chunks are cached there from now on",
            self._directory,
            error.strerror,
            size_text(file.limit_bytes),
        )

    def _drop(self, slot: Slot) -> None:
        with self._lock:
            if self._slots.get(slot.chunk_id) is slot:
                del self._slots[slot.chunk_id]

    def _open(self) -> SpillFile:
        file = self._file
        if file is None:
            file = SpillFile(self._directory, self._limit_bytes)
            with self._lock:
                if self._is_on:
                    self._file = file
                    return file
            file.close()
        return file

    def _release(self, slot: Slot | None) -> None:
        if slot is not None and slot.place is not None and self._file is not None:
            self._file.release(slot.place)

    def _turn_off(self, reason: object) -> None:
        with self._lock:
            was_on, self._is_on = self._is_on, False
        if was_on:
            log.warning("%s: chunks are no longer cached on this disk: %s", self._directory, reason)
            self.close()

    def _forget_parent(self) -> None:
        """Forget everything after a fork: the threads are gone, and the files are the parent's."""
        self._lock = threading.Lock()
        self._written = threading.Condition(self._lock)
        with self._lock:
            file = self._drop_all()
        if file is not None:
            file.abandon()
        self.waiting_bytes = 0
        self._is_writing = False


def spill_tier(options: EngineOptions, pools: Pools) -> SpillTier:
    """Return the tier of an engine, without a file or thread before its first chunk."""
    return SpillTier(
        lambda task: pools.spill.submit(task),
        min(options.memory_limit_bytes // QUEUE_SHARE, QUEUE_BYTES_MAX),
        options.cache_dir,
        options.cache_bytes_max,
    )


def no_tier() -> SpillTier:
    """Return a tier that takes nothing."""
    return SpillTier(lambda task: None, 0, limit_bytes=0)


def _bytes_of(values: Values) -> memoryview:
    return memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _after_fork() -> None:
    for tier in list(_LIVING):
        tier._forget_parent()


os.register_at_fork(after_in_child=_after_fork)
