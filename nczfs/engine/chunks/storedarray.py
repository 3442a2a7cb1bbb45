"""The identity of an array in a store, shared by all who have it open."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count
from typing import ClassVar
from weakref import WeakValueDictionary

from nczfs.engine.chunks.ends import Ends
from nczfs.engine.chunks.place import ArrayPlace, Gate
from nczfs.engine.opennode import NodePlaces
from nczfs.errors import StructureChanged
from nczfs.model.hierarchy import ArrayDescription, CodecSpec, Variable
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, is_within, moved

_revisions = count(1)


class StoredArray:
    """The identity of an array, by which its clean and dirty chunks in memory are found.

    An `Array` describes it as of some time, and is replaced when metadata are read anew. This
    object is not replaced: so all handles, and the threads that store chunks, find a chunk that was
    written through any handle. An array that was removed and made again is another one.

    Attributes
    ----------
    place : its place; the same object as long as the array exists.
    ends : within which it is written to.
    on_writing : called before something is written to it.
    revision : changes after each write, and when everything is read anew; a reader that sees the
        same revision twice has read no old values in between.
    changed_at : the time of the last such change, on the monotonic clock.
    last_revision : of all arrays; while it is the same, no array has another revision.
    written_ns : the time of the last write; 0: there was none.
    doubts : how often its documents may have been changed in this process by others than its
        editor: then the store is asked for them before a chunk is stored.
    held_from : the first appended record whose place is uncertain
        (`engine/arrays/appending.py`): from it on, other threads store nothing.
        None: there is none.
    appended_from : the same, or where such records are being put now.
    is_new : whether it was made here, so that the store has no chunk that was not stored here.
    on_stored : called after something was stored that other arrays may have in memory, too.
    is_waiting : returns whether the right to store is being acquired: nothing is sent at once.
    weight : of the heaviest chunk that was loaded, in bytes of memory.
    has_lost : whether something that was written to it went into the spool for good, because
        another client had removed or replaced it.
    """

    __slots__ = (
        "__weakref__",
        "_over",
        "_zmap",
        "appended_from",
        "changed_at",
        "doubts",
        "ends",
        "has_lost",
        "held_from",
        "is_new",
        "is_waiting",
        "on_stored",
        "on_writing",
        "place",
        "revision",
        "weight",
        "written_ns",
    )

    last_revision: ClassVar[int] = 0

    def __init__(self, zmap: ZMap, place: ArrayPlace) -> None:
        self._zmap = zmap
        self.place = place
        self.ends = Ends()
        self._over: str | None = None
        self.doubts = 0
        self.has_lost = False
        self.is_new = False
        self.is_waiting: Callable[[], bool] = lambda: False
        self.on_stored: Callable[[], None] = lambda: None
        self.on_writing: Callable[[], None] = lambda: None
        self.held_from: int | None = None
        self.appended_from: int | None = None
        self.changed_at = 0.0
        self.weight = 0
        self.revision = 0
        self.written_ns = 0

    def __repr__(self) -> str:
        return f"<array {self._zmap.name}/{self.prefix}>"

    @property
    def prefix(self) -> Prefix:
        """The prefix that stands for it: of its chunks, unless it depends on another array."""
        return self.place.identity

    @property
    def is_over(self) -> bool:
        """Whether the array is gone."""
        return self._over is not None

    def is_within(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Return whether it lies at or below a prefix of a store."""
        return self._zmap is zmap and is_within(self.place.prefix, prefix)

    def is_at(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Return whether it is the array at a prefix of a store."""
        return self.prefix == prefix and self._zmap is zmap

    def end(self, why: str) -> None:
        """Note that the array is gone: it is neither read nor written any more."""
        self._over = self._over or why
        self.note_changed()

    def check(self) -> None:
        """Raise StructureChanged if the array is gone."""
        if self._over is not None:
            raise StructureChanged(self._over)

    def check_kept(self) -> None:
        """Raise StructureChanged if something that was written to the array is not kept."""
        if self.has_lost:
            self.check()

    def note_written(self) -> None:
        """Note that something was written, or may have been."""
        self.written_ns = time.time_ns()
        self.note_changed()

    def note_changed(self) -> None:
        """Note a change, so that readers look at the chunks again."""
        self.changed_at = time.monotonic()
        self.revision = revision = next(_revisions)
        # Afterwards: a reader that sees it sees the revision of the array as well.
        StoredArray.last_revision = revision


def newest_revision(arrays: Iterable[StoredArray]) -> int:
    """Return a number that changes with each change of any of some arrays."""
    return max((array.revision for array in arrays), default=0)


class StoredArrays:
    """The arrays that are open or have chunks in memory. `_lock` guards the map.

    Parameters
    ----------
    moving : returns what encloses a move from one prefix to another; None: nothing does.

    Attributes
    ----------
    gate : is closed where arrays move; a thread that stores a chunk or a document is inside.
    nodes : of which files are open; they move with their arrays.
    """

    def __init__(
        self, moving: Callable[[Prefix, Prefix], AbstractContextManager[None]] | None = None
    ) -> None:
        self._moving = moving or (lambda prefix, goal: nullcontext())
        self.gate = Gate()
        self.nodes = NodePlaces()
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[Hashable, StoredArray] = WeakValueDictionary()

    def of(
        self, zmap: ZMap, prefix: Prefix, array: ArrayDescription, name: str = ""
    ) -> StoredArray:
        """Return the array at a prefix of a store with chunks as described.

        Parameters
        ----------
        name : of an array that depends on the one at the prefix.
        """
        layout = chunk_layout(array)
        with self._lock:
            prefix = self.nodes.present(zmap, prefix)
            key = (zmap, prefix, name, layout)
            found = self._known.get(key)
            if found is None or found.is_over:
                place = ArrayPlace(prefix, self.gate, name)
                found = self._known[key] = StoredArray(zmap, place)
            return found

    def move(self, zmap: ZMap, prefix: Prefix, goal: Prefix) -> None:
        """Move the arrays at or below a prefix to another one. The caller has closed the gate."""
        with self._lock, self._moving(prefix, goal):
            self.nodes.move(zmap, prefix, goal)
            there = {key: a for key, a in self._known.items() if a.is_within(zmap, prefix)}
            for key, array in there.items():
                assert isinstance(key, tuple)
                self._known.pop(key, None)
                array.place.prefix = Prefix(moved(array.place.prefix, prefix, goal))
                self._known[zmap, array.place.prefix, *key[2:]] = array

    def within(self, zmap: ZMap, prefix: Prefix) -> list[StoredArray]:
        """Return the arrays at or below a prefix of a store."""
        with self._lock:
            return [found for found in self._known.values() if found.is_within(zmap, prefix)]

    def beside(self, array: StoredArray) -> list[StoredArray]:
        """Return the other arrays that have their chunks at the place of one."""
        prefix = array.place.prefix
        found = self.within(array._zmap, prefix)
        return [each for each in found if each is not array and each.place.prefix == prefix]


def chunk_layout(array: ArrayDescription) -> Hashable:
    """Return a key that is equal for arrays whose chunks are interchangeable."""
    shapes = array.chunk_shape, array.unit_shape, array.cuts
    return shapes, array.chunk_keys, array.dtype.typestr, codecs_digest(array)


def has_same_chunks(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Return whether the chunks of two arrays are interchangeable."""
    if one.codecs == other.codecs and one.dtype.typestr == other.dtype.typestr:
        ours = one.chunk_shape, one.cuts, one.shards, one.chunk_keys
        return ours == (other.chunk_shape, other.cuts, other.shards, other.chunk_keys)
    return chunk_layout(one) == chunk_layout(other)


def codecs_digest(array: ArrayDescription) -> str:
    """Return a digest that is equal for arrays whose chunks are encoded in the same way."""
    chain = array.codecs
    described = [chain.zarr_format, chain.order, chain.compressed, list(map(_spec, chain.codecs))]
    for shards in array.shards:
        index_codecs = list(map(_spec, shards.index_codecs))
        described.append([shards.shape, shards.order, shards.index_at_end, index_codecs])
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def _spec(spec: CodecSpec) -> list[object]:
    return [spec.name, dict(spec.configuration)]


def is_same_array(one: Variable, other: Variable) -> bool:
    """Return whether two variables describe one array in the same way."""
    if one is other:
        return True
    ours, theirs = one.array, other.array
    if one.key != other.key or ours.shape != theirs.shape:
        return False
    if ours.fill_value is theirs.fill_value and ours == theirs:
        return True
    # The fill value as text because NaN equals nothing, not even itself, and 0.0 equals -0.0.
    is_same_fill = repr(ours.fill_value) == repr(theirs.fill_value)
    if is_same_fill and replace(ours, fill_value=None) == replace(theirs, fill_value=None):
        return True
    return repr(ours) == repr(theirs)


def is_resized(one: Variable, other: Variable) -> bool:
    """Return whether two variables describe the same chunks, and only their shapes differ."""
    if len(one.array.shape) != len(other.array.shape):
        return False
    return is_same_array(replace(one, array=replace(one.array, shape=other.array.shape)), other)
