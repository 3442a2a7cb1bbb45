"""A chunk with elements that were written and are not in the store yet."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.engine.cache import Values
from nczfs.engine.chunkio import ChunkIO, fill_element
from nczfs.errors import NczfsError
from nczfs.model.boxes import Box, joined
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import Version

BOXES_MAX = 32

Region: TypeAlias = "Box | tuple[slice | np.ndarray[Any, np.dtype[np.int64]], ...]"
"""Elements of a chunk: a box of them, or what a numpy index selects."""


class WrittenMask:
    """Which elements of a chunk were written: a few boxes, or else a flag for each element.

    A sequential writer leaves one growing box; only scattered writes need the flags, which take a
    byte an element.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._boxes: list[Box] = []
        self._flags: Values | None = None

    @property
    def is_empty(self) -> bool:
        return not self._boxes and self._flags is None

    @property
    def nbytes(self) -> int:
        return 0 if self._flags is None else self._flags.nbytes

    def add(self, region: Region) -> None:
        """Note that the elements of a region were written."""
        if not isinstance(region, Box):
            self._as_flags()[region] = True
            return
        if region.size == 0:
            return
        if self._flags is not None:
            self._flags[region.slices()] = True
            return
        self._boxes.append(region)
        while len(self._boxes) > 1 and (both := joined(self._boxes[-2], self._boxes[-1])):
            self._boxes[-2:] = [both]
        if len(self._boxes) > BOXES_MAX:
            self._as_flags()

    def update(self, other: WrittenMask) -> None:
        """Note that what `other` notes was written, too."""
        for box in other._boxes:
            self.add(box)
        if other._flags is not None:
            self._as_flags()[other._flags] = True

    def covers(self, box: Box) -> bool:
        """Whether every element of a box was written."""
        if self._flags is None:
            if box.size == 0 or any(known.contains(box) for known in self._boxes):
                return True
            if sum(known.size for known in self._boxes) < box.size:
                return False
        return bool(self._as_flags()[box.slices()].all())

    def copy_onto(self, target: Values, values: Values) -> None:
        """Copy the written elements of `values` into `target`, both of the chunk's shape."""
        if self._flags is not None:
            np.copyto(target, values, where=self._flags)
        for box in self._boxes:
            target[box.slices()] = values[box.slices()]

    def _as_flags(self) -> Values:
        if self._flags is None:
            self._flags = np.zeros(self._shape, bool)
            for box in self._boxes:
                self._flags[box.slices()] = True
            self._boxes = []
        return self._flags


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one flush writes.

    Attributes
    ----------
    values : of the chunk; those not in `written` count only when `complete`.
    is_whole : all elements that lie in the array were written.
    complete : the elements that were not written are those of `version`.
    version : of the object that they were read from; None: not known, or there was none.
    """

    values: Values
    written: WrittenMask
    is_whole: bool
    complete: bool
    version: Version | None


@dataclass(eq=False, slots=True)
class DirtyChunk:
    """One chunk between a writer and the store.

    `lock` guards all that is not said at its making; it is held while elements are copied, never
    while the store is asked or a codec runs.

    Attributes
    ----------
    io : where the chunk lies; of the array as it was when it was last written to.
    clip : the elements of the chunk that lie in the array.
    nbytes : that it counts for in the budget.
    values : of the whole chunk, None before the first write.
    written : since the last snapshot.
    complete : all of `values` can be read.
    version : that the unwritten elements came from, when it is known.
    flying : what is on its way to the store.
    shared : `values` is also what flies (or belongs to the caller), so it must not be changed.
    gone : in the store, and not in the map any more: look again.
    error : of the last flush, until somebody was told.
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
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.written = WrittenMask(self.io.array.chunk_shape)

    def write(self, region: Region, values: Values) -> None:
        """Put elements into the chunk; `region` counts from its first element. Holds `lock`."""
        own = self._own_values(region)
        own[region.slices() if isinstance(region, Box) else region] = values
        self.written.add(region)
        if not self.complete and self.written.covers(self.clip):
            self.complete = True
            self.version = None

    def lend(self, values: Values) -> None:
        """Let the caller's own array be the values of the whole chunk, until it is flushed."""
        self.values, self.shared, self.complete = values, True, True
        self.written.add(self.clip)

    def readable(self) -> Values | None:
        """All values, None when some were never loaded. Needs no lock."""
        # In this order: what is complete stays so, and has values.
        return self.values if self.complete else None

    def complete_with(self, base: Values) -> Values | None:
        """All values, the unwritten ones from `base`; None when the chunk is not dirty any more.

        Takes `lock`. `base` must have been asked for after this object was found in the map:
        then it lacks nothing but what this object holds.
        """
        with self.lock:
            if self.gone:
                return None
            if not self.complete:
                merged = np.array(base)
                if self.flying is not None:
                    self.flying.written.copy_onto(merged, self.flying.values)
                if self.values is not None:
                    self.written.copy_onto(merged, self.values)
                self.values, self.shared, self.complete = merged, False, True
            return self.values

    def take(self) -> Snapshot | None:
        """Begin a flush; None when nothing is to be written, or a flush is under way."""
        if self.gone or self.flying is not None or self.written.is_empty:
            return None
        assert self.values is not None
        whole = self.written.covers(self.clip)
        self.flying = Snapshot(self.values, self.written, whole, self.complete, self.version)
        self.written = WrittenMask(self.io.array.chunk_shape)
        self.shared = True
        return self.flying

    def settle(self, stored: Values, version: Version | None) -> bool:
        """End a flush that succeeded with these values; True when nothing is left to write."""
        self.flying, self.error = None, None
        if self.written.is_empty:
            self.gone = True
            return True
        assert self.values is not None
        merged = np.array(stored)
        self.written.copy_onto(merged, self.values)
        self.values, self.shared, self.complete, self.version = merged, False, True, version
        return False

    def fail(self, error: NczfsError) -> None:
        """End a flush that failed: what flew is dirty again, under what was written meanwhile."""
        assert self.flying is not None
        # `values` began as a copy of what flew, so it has both.
        self.written.update(self.flying.written)
        self.flying, self.error = None, error

    def _own_values(self, region: Region) -> Values:
        array = self.io.array
        if self.values is None:
            whole = isinstance(region, Box) and region.size == prod(array.chunk_shape)
            empty = np.empty(array.chunk_shape, array.dtype.native)
            if not whole:
                empty[...] = fill_element(array)
            self.values = empty
        elif self.shared:
            self.values, self.shared = np.array(self.values), False
        return self.values
