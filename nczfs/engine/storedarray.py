"""What an array of a store is to all who have it open: one object, for as long as it is there."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Hashable
from itertools import count
from weakref import WeakValueDictionary

from nczfs.errors import StructureChanged
from nczfs.model.hierarchy import ArrayDescription, CodecSpec
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix

_revisions = count(1)


class StoredArray:
    """The identity of an array: what its chunks in memory, clean and dirty, are kept under.

    An `Array` is what somebody knows of it at a time, and is replaced when its metadata are read
    anew. This is not: so a chunk that was written through any handle is found by all others, and
    by those who store it. An array that was removed and made anew is another one.

    Attributes
    ----------
    revision : another one after each write, and when all is asked for anew; a reader that saw the
        same twice kept no old values.
    written_ns : the time of the last write; 0: there was none.
    has_lost : something that was written to it went into the spool for good, because another client
        had removed it, or made it anew.
    """

    __slots__ = ("__weakref__", "_over", "_prefix", "_zmap", "has_lost", "revision", "written_ns")

    def __init__(self, zmap: ZMap, prefix: Prefix) -> None:
        self._zmap = zmap
        self._prefix = prefix
        self._over: str | None = None
        self.has_lost = False
        self.revision = 0
        self.written_ns = 0

    def __repr__(self) -> str:
        return f"<array {self._zmap.name}/{self._prefix}>"

    @property
    def is_over(self) -> bool:
        """Whether the array is no more."""
        return self._over is not None

    def is_within(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Whether it lies at a prefix of a store, or below it."""
        below = not prefix or self._prefix == prefix or self._prefix.startswith(f"{prefix}/")
        return below and self._zmap is zmap

    def is_at(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Whether it lies at a prefix of a store."""
        return self._prefix == prefix and self._zmap is zmap

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
    """Those that somebody has open, or of which a chunk is in memory. `_lock` guards the map."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[Hashable, StoredArray] = WeakValueDictionary()

    def of(self, zmap: ZMap, prefix: Prefix, array: ArrayDescription) -> StoredArray:
        """The array at a prefix of a store whose chunks are as described."""
        key = (zmap, prefix, chunk_layout(array))
        with self._lock:
            found = self._known.get(key)
            if found is None or found.is_over:
                found = self._known[key] = StoredArray(zmap, prefix)
            return found

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
