"""What an array of a store is to all who have it open: one object, for as long as it is there."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Hashable
from itertools import count
from weakref import WeakValueDictionary

from nczfs.engine.place import ArrayPlace, Gate
from nczfs.errors import StructureChanged
from nczfs.model.hierarchy import ArrayDescription, CodecSpec
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, is_within, moved

_revisions = count(1)


class StoredArray:
    """The identity of an array: what its chunks in memory, clean and dirty, are kept under.

    An `Array` is what somebody knows of it at a time, and is replaced when its metadata are read
    anew. This is not: so a chunk that was written through any handle is found by all others, and
    by those who store it. An array that was removed and made anew is another one.

    Attributes
    ----------
    place : where it lies; the same object as long as it is there.
    revision : another one after each write, and when all is asked for anew; a reader that saw the
        same twice kept no old values.
    written_ns : the time of the last write; 0: there was none.
    has_lost : something that was written to it went into the spool for good, because another client
        had removed it, or made it anew.
    """

    __slots__ = ("__weakref__", "_over", "_zmap", "has_lost", "place", "revision", "written_ns")

    def __init__(self, zmap: ZMap, place: ArrayPlace) -> None:
        self._zmap = zmap
        self.place = place
        self._over: str | None = None
        self.has_lost = False
        self.revision = 0
        self.written_ns = 0

    def __repr__(self) -> str:
        return f"<array {self._zmap.name}/{self.place.prefix}>"

    @property
    def is_over(self) -> bool:
        """Whether the array is no more."""
        return self._over is not None

    def is_within(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Whether it lies at a prefix of a store, or below it."""
        return self._zmap is zmap and is_within(self.place.prefix, prefix)

    def is_at(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Whether it lies at a prefix of a store."""
        return self.place.prefix == prefix and self._zmap is zmap

    def end(self, why: str) -> None:
        """The array is no more: it is neither read nor written from now on."""
        self._over = why
        self.note_changed()

    def check(self) -> None:
        """Raise StructureChanged when the array is no more."""
        if self._over is not None:
            raise StructureChanged(self._over)

    def note_written(self) -> None:
        """Something was written, or may have been."""
        self.written_ns = time.time_ns()
        self.note_changed()

    def note_changed(self) -> None:
        """Who reads shall look anew at what the chunks hold."""
        self.revision = next(_revisions)


class StoredArrays:
    """Those that somebody has open, or of which a chunk is in memory. `_lock` guards the map.

    Attributes
    ----------
    gate : is closed while arrays get another place; who stores a chunk of any is inside.
    """

    def __init__(self) -> None:
        self.gate = Gate()
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[Hashable, StoredArray] = WeakValueDictionary()

    def of(self, zmap: ZMap, prefix: Prefix, array: ArrayDescription) -> StoredArray:
        """The array at a prefix of a store whose chunks are as described."""
        key = (zmap, prefix, chunk_layout(array))
        with self._lock:
            found = self._known.get(key)
            if found is None or found.is_over:
                found = self._known[key] = StoredArray(zmap, ArrayPlace(prefix, self.gate))
            return found

    def move(self, zmap: ZMap, prefix: Prefix, goal: Prefix) -> None:
        """Those at or below a prefix lie at another one from now on. The gate is closed."""
        with self._lock:
            there = {key: a for key, a in self._known.items() if a.is_within(zmap, prefix)}
            for key, array in there.items():
                assert isinstance(key, tuple)
                self._known.pop(key, None)
                array.place.prefix = Prefix(moved(array.place.prefix, prefix, goal))
                self._known[zmap, array.place.prefix, key[2]] = array

    def within(self, zmap: ZMap, prefix: Prefix) -> list[StoredArray]:
        """Those at a prefix of a store, and below it."""
        with self._lock:
            return [found for found in self._known.values() if found.is_within(zmap, prefix)]


def chunk_layout(array: ArrayDescription) -> Hashable:
    """What is the same for two arrays when a chunk of the one can be a chunk of the other."""
    return array.chunk_shape, array.chunk_keys, array.dtype.typestr, codecs_digest(array)


def codecs_digest(array: ArrayDescription) -> str:
    """What is the same for two arrays whose chunks are encoded in the same way."""
    chain = array.codecs
    described = [chain.zarr_format, chain.order, chain.compressed, list(map(_spec, chain.codecs))]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def _spec(spec: CodecSpec) -> list[object]:
    return [spec.name, dict(spec.configuration)]
