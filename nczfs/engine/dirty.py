"""A chunk with elements that were written and are not in the store yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from nczfs.engine.cache import ENTRY_BYTES
from nczfs.engine.chunkio import ChunkIO, fill_element
from nczfs.engine.loaded import Values
from nczfs.engine.retrying import Retry
from nczfs.engine.spool.basis import Basis, sent
from nczfs.engine.written import Region, WrittenMask
from nczfs.errors import NczfsError
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Buffer, Version


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one flush writes.

    Attributes
    ----------
    values : of the chunk; those not in `written` count only when `complete`.
    is_whole : all elements that lie in the array were written.
    complete : the elements that were not written are those of `version`.
    version : of the object that they were read from; None: not known, or there was none.
    is_borrowed : `values` are not our memory: the caller's, or of a file of the spool.
    """

    values: Values
    written: WrittenMask
    is_whole: bool
    complete: bool
    version: Version | None
    is_borrowed: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """A chunk in the spool.

    Attributes
    ----------
    nbytes : that it counts for in the budget of the spool.
    values : maps them from the file, as a chunk has them; None where that cannot be done. A file
        that is mapped has a descriptor, so that it is done for each use anew. Raises Unavailable.
    flags : reads from the file which ones were written. Raises Unavailable.
    """

    path: Path
    nbytes: int
    values: Callable[[], Values] | None
    flags: Callable[[], Values]


@dataclass(frozen=True, slots=True)
class Frozen:
    """What of a chunk is not in the store, at one time.

    Attributes
    ----------
    values : of the whole chunk; they will not be changed.
    flags : which of them were written; None: all that lie in the array.
    version : of the object that the others came from, when it is known.
    revision : of the chunk then.
    basis : what it was written upon.
    """

    values: Values
    flags: Values | None
    version: Version | None
    revision: int
    basis: Basis = field(default_factory=Basis)


@dataclass(eq=False, slots=True)
class DirtyChunk:
    """One chunk between a writer and the store.

    `lock` guards all that is not said at its making; it is held while elements are copied, never
    while the store is asked or a codec runs.

    Attributes
    ----------
    io : where the chunk lies; of the array as it was when it was last written to.
    clip : the elements of the chunk that lie in the array.
    nbytes : that it counts for in the budget, as it was last counted.
    values : of the whole chunk; None before the first write, and while it is parked.
    written : since the last snapshot.
    complete : all of its values can be read.
    version : that the unwritten elements came from, when it is known.
    flying : what is on its way to the store.
    shared : `values` is also what flies (or belongs to the caller), so it must not be changed.
    gone : in the store, and not in the map any more: look again.
    error : of the last flush, None when it succeeded.
    since : when the first of what is written was, on the monotonic clock.
    retry : when it is tried again by itself.
    revision : another one after each change of what an entry of the spool would have.
    saved : the entry of the spool that has it, or had it before it was written to again.
    saved_revision : of the chunk that `saved` has.
    is_parked : its values are in `saved` alone.
    is_lent : `values` are the caller's own.
    basis : what it was written upon, for those who put it back later.
    sent : the bytes of what flies, of which the basis has no digest yet.
    """

    io: ChunkIO
    index: ChunkIndex
    clip: Box
    nbytes: int = 0
    values: Values | None = None
    written: WrittenMask = field(init=False)
    complete: bool = False
    version: Version | None = None
    flying: Snapshot | None = None
    shared: bool = False
    gone: bool = False
    error: NczfsError | None = None
    since: float = field(default_factory=time.monotonic)
    retry: Retry = field(default_factory=Retry)
    revision: int = 0
    saved: Saved | None = None
    saved_revision: int = -1
    is_parked: bool = False
    is_lent: bool = False
    basis: Basis = field(default_factory=Basis)
    sent: Buffer | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.written = WrittenMask(self.io.array.chunk_shape)

    @property
    def memory(self) -> int:
        """Bytes that it takes."""
        is_free = self.is_parked or self.is_lent
        own = 0 if is_free else self.io.array.chunk_bytes + ENTRY_BYTES
        return own + self.written.nbytes

    @property
    def is_saved(self) -> bool:
        """Whether the spool has all that is not in the store."""
        return self.saved_revision == self.revision

    @property
    def is_unmapped(self) -> bool:
        """Whether it takes memory although the spool has it."""
        return self.is_saved and self.saved is not None and self.saved.values is None

    def write(self, region: Region, values: Values) -> None:
        """Put elements into the chunk; `region` counts from its first element. Holds `lock`."""
        own = self._own_values(region)
        own[region.slices() if isinstance(region, Box) else region] = values
        self.written.add(region)
        self.revision += 1
        if not self.complete and self.written.covers(self.clip):
            self.complete = True
            self.version = None

    def lend(self, values: Values) -> None:
        """Let the caller's own array be the values of the whole chunk, until it is flushed."""
        self.values, self.shared, self.complete, self.is_lent = values, True, True, True
        self.written.add(self.clip)
        self.revision += 1

    def readable(self) -> Values | None:
        """All values, None when some were never loaded. Needs no lock. Raises Unavailable."""
        # In this order: what is complete stays so, and has values.
        while self.complete:
            values, saved = self.values, self.saved
            if values is not None:
                return values
            if self.gone:
                return None
            try:
                return _mapped(saved)
            except NczfsError:
                # The entry may have been replaced, or have gone with the chunk, in between.
                if saved is self.saved and self.values is None and not self.gone:
                    raise
        return None

    def complete_with(self, base: Values) -> Values | None:
        """All values, the unwritten ones from `base`; None when the chunk is not dirty any more.

        Takes `lock`. `base` must have been asked for after this object was found in the map:
        then it lacks nothing but what this object holds. Raises Unavailable.
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
            if not self.is_parked:  # there was no memory for it
                self.values, self.shared, self.complete = merged, False, True
                self.revision += 1
            return merged

    def take(self) -> Snapshot | None:
        """Begin a flush; None when nothing is to be written, or a flush is under way.

        Raises Unavailable: what is parked cannot be read.
        """
        if self.gone or self.flying is not None or self.written.is_empty:
            return None
        values = self._values()
        whole = self.written.covers(self.clip)
        is_borrowed = self.is_parked or self.is_lent
        self.flying = Snapshot(
            values, self.written, whole, self.complete, self.version, is_borrowed
        )
        self.written = WrittenMask(self.io.array.chunk_shape)
        self.shared = True
        return self.flying

    def settle(self, stored: Values, version: Version | None) -> bool:
        """End a flush that succeeded with these values; True when nothing is left to write."""
        self.flying, self.error, self.sent = None, None, None
        self.retry.succeeded()
        if self.written.is_empty:
            self.gone = True
            return True
        assert self.values is not None
        merged = np.array(stored)
        self.written.copy_onto(merged, self.values)
        self.values, self.shared, self.complete, self.version = merged, False, True, version
        self.since, self.revision = time.monotonic(), self.revision + 1
        self.basis = Basis().upon(version if version is not None else ABSENT)
        return False

    def sending(self, data: Buffer, replaces: Version | None) -> None:
        """What flies is about to be sent, over a version where that is known. Holds `lock`."""
        self.basis, self.sent = self.basis.upon(replaces), data

    def note_sent(self) -> None:
        """Have the basis tell what was sent, by its digest. Holds `lock`."""
        if self.sent is not None:
            self.basis, self.sent = self.basis.sending(sent([self.sent])), None

    def own(self) -> None:
        """Copy what was lent: whoever lent it gets it back."""
        if self.is_lent:
            self.values, self.shared, self.is_lent = np.array(self.values), False, False

    def fail(self, error: NczfsError) -> None:
        """End a flush that failed: what flew is dirty again, under what was written meanwhile."""
        assert self.flying is not None
        self.note_sent()
        # `values` began as a copy of what flew, so it has both.
        self.flying.written.update(self.written)
        self.written = self.flying.written
        self.flying, self.error = None, error
        self.retry.failed()
        self.park()

    def freeze(self) -> Frozen | None:
        """What is not in the store, what is on its way included; None: the spool has it.

        Holds `lock`. Raises Unavailable.
        """
        if self.gone or self.is_saved or (self.written.is_empty and self.flying is None):
            return None
        values = self._values()
        self.note_sent()
        self.shared = True
        written = WrittenMask(self.io.array.chunk_shape)
        if self.flying is not None:
            written.update(self.flying.written)
        written.update(self.written)
        flags = None if written.covers(self.clip) else written.flags()
        return Frozen(values, flags, self.version, self.revision, self.basis)

    def save(self, frozen: Frozen, saved: Saved) -> Saved | None:
        """Note that the spool has what was frozen. Holds `lock`.

        Returns
        -------
        the entry that is not needed any more.
        """
        if self.gone or self.saved_revision >= frozen.revision:
            return saved
        old, self.saved = self.saved, saved
        self.saved_revision = frozen.revision
        return old

    def park(self) -> None:
        """Let go of the memory, where the spool has all of it. Holds `lock`."""
        if self.saved is None or not self.is_saved or self.flying is not None or self.gone:
            return
        self.written.park(self.saved.flags)
        if self.saved.values is not None:
            self.is_parked, self.values = True, None

    def _values(self) -> Values:
        values = self._current()
        assert values is not None
        return values

    def _current(self) -> Values | None:
        """The values wherever they are; None: nothing was written. Holds `lock`."""
        return _mapped(self.saved) if self.is_parked else self.values

    def _own_values(self, region: Region) -> Values:
        array = self.io.array
        if self.is_parked:
            self.written.load()
            self.values, self.shared, self.is_parked = np.array(self._current()), False, False
        elif self.values is None:
            whole = isinstance(region, Box) and region.size == prod(array.chunk_shape)
            empty = np.empty(array.chunk_shape, array.dtype.native)
            if not whole:
                empty[...] = fill_element(array)
            self.values = empty
        elif self.shared:
            self.values, self.shared, self.is_lent = np.array(self.values), False, False
        return self.values


def _mapped(saved: Saved | None) -> Values:
    assert saved is not None
    assert saved.values is not None
    return saved.values()
