"""Dirty chunks: chunks with written elements that are not in the store yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.fillelement import fill_element
from nczfs.engine.chunks.base import ChunkStore, UnitIndex
from nczfs.engine.chunks.cache import ENTRY_BYTES
from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.retrying import Retry
from nczfs.engine.spool.basis import Basis, ObjectCopy, sent
from nczfs.engine.spool.saved import Attempt, Frozen, Saved
from nczfs.engine.weight import weight_held
from nczfs.engine.writing.attempts import Attempts
from nczfs.engine.writing.snapshot import Holding, Snapshot
from nczfs.engine.writing.written import Region, WrittenMask
from nczfs.errors import NczfsError
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Part, Version
from nczfs.zmap.keys import Key


@dataclass(eq=False, slots=True)
class DirtyUnit:
    """The dirty chunks of one unit, which are sent to the store together.

    `lock` guards all attributes that are not set at construction, and those of the chunks. It is
    held while elements are copied, never during a request to the store or while a codec runs. The
    dict of chunks is changed under the lock of the map: without that, a copy of it is gone through.

    Attributes
    ----------
    array, index : its identity in the store.
    io : reader and writer of the stored unit, for the array as it was at the last write.
    chunks : those in the map.
    is_written : whether anything was ever written to one of them.
    flying : what is on its way to the store.
    basis : what the stored unit was when it was written to, for putting it back later.
    copy : the last copy of the stored unit; None: there was none.
    taken_at, taken_ns : when the last flush began, on the monotonic clock and since 1970.
    sent : the parts of the object on its way to the store, while the basis has no digest of them.
    attempts : which revisions of the chunks each has of what was sent, as the basis says.
    error : of the last flush; None if it succeeded.
    retry : when the next attempt in the background is due.
    """

    array: StoredArray
    index: UnitIndex
    io: ChunkStore
    chunks: dict[ChunkIndex, DirtyChunk] = field(default_factory=dict)
    is_written: bool = False
    flying: Mapping[ChunkIndex, Snapshot] = field(default_factory=dict)
    basis: Basis = field(default_factory=Basis)
    copy: ObjectCopy | None = None
    taken_at: float = 0.0
    taken_ns: int = 0
    sent: Sequence[Part] | None = None
    attempts: Attempts = field(default_factory=Attempts)
    error: NczfsError | None = None
    retry: Retry = field(default_factory=Retry)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> ChunkId:
        return self.array, self.index

    def placed(self) -> list[DirtyChunk]:
        """Return the chunks without appended records whose place is uncertain."""
        chunks, first = list(self.chunks.values()), self.array.held_from
        if first is None:
            return chunks
        cuts = self.io.array.grid.cuts[0]
        return [chunk for chunk in chunks if cuts.place(chunk.index[0]).stop <= first]

    def take(
        self, chunks: Iterable[DirtyChunk]
    ) -> tuple[Mapping[ChunkIndex, Snapshot], NczfsError | None]:
        """Begin a flush of some chunks. The caller holds `lock`, and no flush is under way.

        Returns
        -------
        what is to be written, and why some of it cannot be read.
        """
        flying: dict[ChunkIndex, Snapshot] = {}
        unreadable = None
        self.taken_at, self.taken_ns = time.monotonic(), time.time_ns()
        for chunk in chunks:
            try:
                snapshot = chunk.take()
            except NczfsError as error:  # what is parked of it
                unreadable = error
                continue
            if snapshot is not None:
                flying[chunk.index] = snapshot
        self.flying = flying
        return flying, unreadable

    def sending(self, parts: Sequence[Part], replaces: Version | None) -> None:
        """Note that `flying` is about to be sent, over a known version. The caller holds `lock`."""
        self.basis, self.sent = self.basis.upon(replaces), parts

    def note_sent(self) -> None:
        """Put the digest of what was sent into the basis. Takes `lock`, but not for the digest.

        Afterwards `sent` is None, unless something else is sent just then.
        """
        parts = self.sent
        if parts is not None:
            digest = sent(parts)
            with self.lock:
                if self.sent is parts:  # no other thread has done it, and it was not stored
                    self.basis, self.sent = self.basis.sending(digest), None
                    taken = [(chunk, chunk.taken) for chunk in list(self.chunks.values())]
                    self.attempts.note(digest, taken, self.basis.sent)

    @property
    def has_entries(self) -> bool:
        """Whether the spool has something of a chunk. Takes no lock."""
        return any(chunk.saved is not None for chunk in list(self.chunks.values()))

    def unrecorded(self) -> list[tuple[Saved, Sequence[Attempt]]]:
        """Return what entries of the spool do not say of what was sent. The caller holds `lock`."""
        return [
            (chunk.saved, self.attempts.unrecorded(chunk, chunk.saved))
            for chunk in list(self.chunks.values())
            if chunk.saved is not None
        ]

    def own(self) -> None:
        """Copy lent values, so that the lender gets them back. The caller holds `lock`."""
        for chunk in list(self.chunks.values()):
            chunk.own()

    def settle(
        self, stored: Mapping[ChunkIndex, Values], version: Version | None
    ) -> list[DirtyChunk]:
        """End a flush that succeeded. The caller holds `lock`.

        Returns
        -------
        those of its chunks of which nothing is left to write.
        """
        flown, self.flying, self.sent, self.error = self.flying, {}, None, None
        self.retry.succeeded()
        chunks = [self.chunks[index] for index in flown]
        return [chunk for chunk in chunks if not chunk.settle(stored[chunk.index], version)]

    def fail(self, error: NczfsError) -> list[DirtyChunk]:
        """End a flush that failed. Returns its chunks. The caller holds `lock`.

        `note_sent` was called before.
        """
        flown, self.flying, self.error = self.flying, {}, error
        self.retry.failed()
        for index, snapshot in flown.items():
            self.chunks[index].take_back(snapshot)
        return [self.chunks[index] for index in flown]

    def rest_upon(self, version: Version | None) -> None:
        """Note what was stored, below what is left to write. The caller holds `lock`."""
        self.basis = Basis(self.taken_ns).upon(version if version is not None else ABSENT)
        if self.copy is not None and self.copy.source.version == version:
            self.basis = self.basis.upon(self.copy.version)
        self.attempts.clear()
        for chunk in self.chunks.values():
            chunk.revision += 1


@dataclass(eq=False, slots=True)
class DirtyChunk:
    """A chunk on its way from writers to the store.

    `lock`, that of its unit, guards all attributes that are not set at construction.

    Attributes
    ----------
    clip : the elements of the chunk that lie in the array.
    nbytes : its share of the budget, as last counted.
    values : of the whole chunk; None before the first write, and while the chunk is parked.
    held : bytes of the objects that `values` refers to, but for `fill`.
    fill : the object that stands for what was never written, in all elements the same one.
    holding : of the memory of `values`.
    written : the elements that were written since the last snapshot.
    complete : whether all of its values can be read.
    version : of the object that the unwritten elements came from, if known.
    since : time of the first unsaved write at the earliest, on the monotonic clock.
    written_ns : when the first of it was written, since 1970: another chunk of the unit may have
        been written before.
    revision : changes with each change of what the spool would hold.
    saved : the entry of the spool that has it, or had it before the latest writes.
    settled : the revision of which all is in the store; -1: none.
    taken : the one of which all is there or on its way there.
    """

    unit: DirtyUnit
    index: ChunkIndex
    clip: Box
    nbytes: int = 0
    values: Values | None = None
    held: int = 0
    fill: object = None
    holding: Holding = Holding.OWN
    written: WrittenMask = field(init=False)
    complete: bool = False
    version: Version | None = None
    since: float = field(default_factory=time.monotonic)
    written_ns: int = field(default_factory=time.time_ns)
    revision: int = 0
    saved: Saved | None = None
    settled: int = -1
    taken: int = -1
    lock: threading.Lock = field(init=False)

    def __post_init__(self) -> None:
        self.lock = self.unit.lock
        self.written = WrittenMask(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the chunk."""
        return self.unit.io.array.grid.extent(self.index)

    @property
    def memory(self) -> int:
        """Bytes of memory that the chunk takes."""
        if self._is_borrowed:
            return self.written.nbytes
        return self.unit.io.array.chunk_bytes + self.held + ENTRY_BYTES + self.written.nbytes

    @property
    def id(self) -> ChunkId:
        return self.unit.array, self.index

    @property
    def key(self) -> Key:
        """The current key of its object."""
        return self.unit.io.key(self.unit.index)

    @property
    def basis(self) -> Basis:
        """What it is based on, for putting it back later."""
        return self.unit.basis.since(self.written_ns)

    @property
    def gone(self) -> bool:
        """Whether the chunk is stored and has left the map: look it up again."""
        return self.unit.chunks.get(self.index) is not self

    @property
    def flying(self) -> Snapshot | None:
        """What is on its way to the store."""
        return self.unit.flying.get(self.index)

    @property
    def is_saved(self) -> bool:
        """Whether the spool has all unsaved elements."""
        return self.saved is not None and self.saved.revision == self.revision

    @property
    def is_only_here(self) -> bool:
        """Whether some unsaved elements are not in the spool either."""
        is_any = not self.written.is_empty or self.flying is not None
        return is_any and not self.is_saved and not self.gone

    @property
    def is_parked(self) -> bool:
        """Whether its values are in `saved` only."""
        return self.values is None and self.saved is not None

    @property
    def is_unmapped(self) -> bool:
        """Whether the chunk takes memory although the spool has it."""
        return self.is_saved and self.saved is not None and self.saved.values is None

    def write(self, region: Region, values: Values) -> None:
        """Put elements into a region of the chunk. The caller holds `lock`."""
        own = self._own_values(region)
        where = region.slices() if isinstance(region, Box) else region
        if own.dtype.hasobject:
            self.held -= weight_held(own[(*where, ...)], self.fill)
        own[where] = values
        if own.dtype.hasobject:
            self.held += weight_held(own[(*where, ...)], self.fill)
        self.written.add(region)
        self.unit.is_written = True
        self.revision += 1
        if not self.complete and self.written.covers(self.clip):
            self.complete = True
            self.version = None

    def lend(self, values: Values) -> None:
        """Let the caller's own array be the values of the whole chunk, until it is flushed."""
        self.values, self.holding, self.complete = values, Holding.LENT, True
        self.written.add(self.clip)
        self.unit.is_written = True
        self.revision += 1

    def readable(self) -> Values | None:
        """Return all values; None if some were never loaded. Raises Unavailable.

        Takes `lock` for a moment if they are lent: they are copied.
        """
        # Checked in this order: a complete chunk stays complete, and has values.
        while self.complete:
            if self.holding is Holding.LENT:  # and later never again
                with self.lock:  # meanwhile the lender does not get them back
                    return None if self.gone else np.array(self.values)
            values, saved = self.values, self.saved
            if values is not None:
                return values
            if self.gone:
                return None
            try:
                return _mapped(saved)
            except NczfsError:
                # The entry may have been replaced, or removed with the chunk, in between.
                if saved is self.saved and self.values is None and not self.gone:
                    raise
        return None

    def complete_with(self, base: Values) -> Values | None:
        """Return all values, the unwritten ones from `base`; None if the chunk is now clean.

        Takes `lock`. `base` must have been requested after this object was found in the map: then
        it lacks only what this object holds. Raises Unavailable.
        """
        with self.lock:
            if self.gone:
                return None
            if self.complete:
                return self._current()
            merged = np.array(base)
            if self.flying is not None:
                self.flying.written.copy_onto(merged, self.flying.values)
            if not self.written.is_empty:
                self.written.copy_onto(merged, self._values())
            if not self.is_parked:  # there was no memory for a copy
                self._have(merged)
                self.complete = True
                self.revision += 1
            return merged

    def take(self) -> Snapshot | None:
        """Begin a flush. Returns None if there is nothing to write, or a flush is under way.

        Raises Unavailable: what is parked cannot be read.
        """
        if self.gone or self.flying is not None or self.written.is_empty:
            return None
        values = self._values()
        whole = self.written.covers(self.clip)
        taken = Snapshot(
            values, self.written, whole, self.complete, self.version, self._is_borrowed
        )
        self.written = WrittenMask(self.shape)
        self.taken = self.revision
        self._share()
        return taken

    def settle(self, stored: Values, version: Version | None) -> bool:
        """End a flush that stored these values. Returns whether anything is left to write."""
        self.settled = self.taken
        if self.written.is_empty:
            return False
        assert self.values is not None
        merged = np.array(stored)
        self.written.copy_onto(merged, self.values)
        self._have(merged)
        self.complete = True
        self.version, self.since, self.revision = version, self.unit.taken_at, self.revision + 1
        return True

    def own(self) -> None:
        """Copy lent values, so that the lender gets them back."""
        if self.holding is Holding.LENT:
            self._have(np.array(self.values))

    def copy_of(self, box: Box) -> Values:
        """Return elements that were written. Takes `lock`. Raises Unavailable."""
        with self.lock:
            return np.array(self._values()[box.slices()])

    def without(self, box: Box) -> DirtyChunk | None:
        """Return the rest of it without some elements. Holds `lock`. Raises Unavailable."""
        assert self.flying is None
        flags = self.written.flags()
        flags[box.slices()] = False
        if not flags.any():
            return None
        left = DirtyChunk(self.unit, self.index, self.clip, revision=self.revision)
        left.since, left.written_ns = self.since, self.written_ns
        where = tuple(axis.astype(np.int64) for axis in np.nonzero(flags))
        left.write(where, self._values()[where])
        return left

    def take_back(self, flown: Snapshot) -> None:
        """End a flush that failed: its elements are dirty again, below those written meanwhile."""
        # `values` began as a copy of the flushed values, so it has both.
        flown.written.update(self.written)
        self.written, self.taken = flown.written, self.settled
        self.park()

    def freeze(self) -> Frozen | None:
        """Return all unsaved elements, including those on their way; None: the spool has them.

        The caller holds `lock`, and `sent` of the unit is None. Raises Unavailable.
        """
        if not self.is_only_here:
            return None
        values = self._values()
        self._share()
        written = WrittenMask(self.shape)
        if self.flying is not None:
            written.update(self.flying.written)
        written.update(self.written)
        flags = None if written.covers(self.clip) else written.flags()
        return Frozen(values, flags, self.version, self.revision, self.basis)

    def save(self, saved: Saved) -> Saved | None:
        """Note that the spool has the elements of a revision. The caller holds `lock`.

        Returns
        -------
        the entry that is not needed any more.
        """
        old = self.saved
        least = max(self.settled, -1 if old is None else old.revision)
        if self.gone or least >= saved.revision:
            return saved
        self.saved = saved
        if self.unit.copy is not None:
            saved.rest_upon(self.unit.copy)
        return old

    def park(self) -> None:
        """Release the memory, if the spool has all of it. The caller holds `lock`."""
        if self.saved is None or not self.is_saved or self.flying is not None or self.gone:
            return
        self.written.park(self.saved.flags)
        if self.saved.values is not None:
            self.values = None

    def _values(self) -> Values:
        values = self._current()
        assert values is not None
        return values

    def _current(self) -> Values | None:
        """Return the values; None: nothing was written. The caller holds `lock`."""
        return _mapped(self.saved) if self.is_parked else self.values

    def _own_values(self, region: Region) -> Values:
        array = self.unit.io.array
        if self.is_parked:
            self.written.load()
            self._have(np.array(self._current()))
        elif self.values is None:
            whole = isinstance(region, Box) and region.size == prod(self.shape)
            empty = np.empty(self.shape, array.dtype.native)
            if not whole:
                empty[...] = element = fill_element(array)
                self.fill = element[()]
            self._have(empty)
        elif self.holding is not Holding.OWN:
            self.values, self.holding = np.array(self.values), Holding.OWN
        assert self.values is not None
        return self.values

    def _have(self, values: Values) -> None:
        """Let an array of its own be the values, and count what its elements refer to."""
        self.values, self.holding = values, Holding.OWN
        self.held = weight_held(values, self.fill)

    @property
    def _is_borrowed(self) -> bool:
        """Whether the memory of its values belongs to the writer, or to a file of the spool."""
        return self.is_parked or self.holding is Holding.LENT

    def _share(self) -> None:
        """Let others have the values: the next write changes a copy."""
        if self.holding is Holding.OWN:
            self.holding = Holding.SHARED


def _mapped(saved: Saved | None) -> Values:
    assert saved is not None
    assert saved.values is not None
    return saved.values()
