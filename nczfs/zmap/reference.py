"""A store whose objects are bytes in a document, or ranges of objects in other stores.

kerchunk makes such documents for netCDF, HDF5, GRIB and TIFF files, so that these read as Zarr.
`reference_json` and `reference_parquet` read the documents, `reference_targets` finds the objects
that they name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Protocol, TypeVar, Unpack

from nczfs.buffers import Buffer
from nczfs.errors import (
    AccessDenied,
    Conflict,
    CorruptStore,
    NczfsError,
    NoSuchObject,
    ReadOnlyStore,
    Unsupported,
)
from nczfs.plaindata import frozen
from nczfs.zmap.base import Blob, Entry, Features, Stat, Version, WriteOptions, ZMap
from nczfs.zmap.keys import Key, Prefix, join
from nczfs.zmap.parallel import in_parallel
from nczfs.zmap.ranges import clipped
from nczfs.zmap.reference_json import read_references
from nczfs.zmap.reference_parquet import ParquetReferences, read_bounded
from nczfs.zmap.reference_table import UNREADABLE_BYTES, WHOLE, Reference
from nczfs.zmap.reference_targets import Targets
from nczfs.zmap.registry import StoreOptions, around, open_store, plain_kind
from nczfs.zmap.url import REFERENCE_DIRECTORIES, StoreUrl

PINNED_MAX = 100_000

_T = TypeVar("_T")
_A = TypeVar("_A")

_FEATURES = Features(writable=False, conditional_writes=False, near=False)


@frozen
class ReferenceDocument:
    """The document of references.

    Attributes
    ----------
    version : of the document, which is part of the version of all its keys.
    """

    name: str
    version: Version
    mtime_ns: int | None


class References(Protocol):
    """References by key."""

    def find(self, key: str) -> Reference | None:
        """Return the reference of a key."""

    def below(self, prefix: Prefix) -> Iterator[tuple[Key, Reference]]:
        """Yield all references below a prefix."""

    def children(self, prefix: Prefix) -> Iterator[tuple[str, Reference | None, bool]]:
        """Yield names of the next level with their references, and whether others are below."""

    def broken_below(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        """Yield the known references below a prefix that cannot be read, and why."""

    @property
    def memory_bytes(self) -> int:
        """About what the references take in memory."""


class ReferenceZMap(ZMap):
    """The keys of a document of references.

    Referenced objects are pinned at the version that was first read: once one is replaced, the
    offsets no longer fit it, and reading from it raises `Conflict`.

    A reference that cannot be read, or that leads to nothing, is a key like all others, of
    `UNREADABLE_BYTES`: only reading it is an error. Were it left out, its chunk would be one that
    was never written.

    Parameters
    ----------
    targets : finds the objects; closed with this store.
    near : whether the objects are on this machine.
    """

    def __init__(
        self,
        document: ReferenceDocument,
        references: References,
        targets: Targets,
        *,
        near: bool = False,
    ) -> None:
        self._name = document.name
        self._version = document.version
        self._mtime_ns = document.mtime_ns
        self._near = near
        self._references = references
        self._targets = targets
        self._lock = threading.Lock()  # guards _pins
        self._pins: dict[str, tuple[Version, int]] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return replace(_FEATURES, near=self._near)

    @property
    def silent_s(self) -> float:
        return self._targets.silent_s

    @property
    def memory_bytes(self) -> int:
        return self._references.memory_bytes

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        found = self._find(key)
        here = self._version_of(found)
        if version is not None and version != here:
            raise Conflict(f"{self._name}/{key}: another version than the requested one")
        if found.problem:
            raise CorruptStore(f"{self._name}/{key}: {found.problem}")
        if found.data is not None:
            return Blob(found.data[start:stop], here, len(found.data), self._mtime_ns)
        size = found.size if found.size != WHOLE else self._pinned(key, found)[1]
        start, stop = clipped(start, stop, size)
        if start >= stop:
            return Blob(b"", here, size, self._mtime_ns)
        data = self._fetch(key, found, found.offset + start, found.offset + stop)
        return Blob(data, here, size, self._mtime_ns)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        raise ReadOnlyStore(f"{self._name}/{key}: stores of references are read-only")

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        raise ReadOnlyStore(f"{self._name}/{key}: stores of references are read-only")

    def stat(self, key: Key) -> Stat:
        return self._stat(key, self._find(key))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        def entry(child: tuple[str, Reference | None, bool]) -> Entry:
            name, found, is_prefix = child
            stat = self._stat(join(prefix, name), found) if found is not None else None
            return Entry(name, stat, is_prefix)

        def is_asked(child: tuple[str, Reference | None, bool]) -> bool:
            return child[1] is not None and _leads_to_all(child[1])

        return _answered(entry, is_asked, self._references.children(prefix))

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return _answered(
            lambda pair: self._stat(*pair),
            lambda pair: _leads_to_all(pair[1]),
            self._references.below(prefix),
        )

    def broken(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        return self._references.broken_below(prefix)

    def close(self) -> None:
        self._targets.close()

    def _find(self, key: Key) -> Reference:
        found = self._references.find(key)
        if found is None:
            raise NoSuchObject(f"{self._name}/{key}: no such reference")
        return found

    def _version_of(self, found: Reference) -> Version:
        return Version(f"{self._version}:{found.row:x}")

    def _stat(self, key: Key, found: Reference) -> Stat:
        size = found.size
        if found.problem:
            size = UNREADABLE_BYTES
        elif size == WHOLE:
            try:
                size = self._pinned(key, found)[1]
            except (AccessDenied, CorruptStore, Unsupported):
                size = UNREADABLE_BYTES
        return Stat(key, size, self._version_of(found), self._mtime_ns)

    def _pinned(self, key: Key, found: Reference) -> tuple[Version, int]:
        """Return the first version and size of the object that a reference leads to."""
        pin = self._pins.get(found.url)
        if pin is None:
            zmap, target = self._target(key, found)
            try:
                stat = zmap.stat(target)
            except NoSuchObject as error:
                raise self._gone(key, error) from error
            pin = self._pin(found.url, stat.version, stat.size)
        return pin

    def _pin(self, url: str, version: Version, size: int) -> tuple[Version, int]:
        with self._lock:
            if len(self._pins) >= PINNED_MAX:
                self._pins.pop(next(iter(self._pins)))
            return self._pins.setdefault(url, (version, size))

    def _fetch(self, key: Key, found: Reference, start: int, stop: int) -> Buffer:
        zmap, target = self._target(key, found)
        pin = self._pins.get(found.url)
        try:
            blob = zmap.read(target, start, stop, version=pin[0] if pin else None)
        except NoSuchObject as error:
            raise self._gone(key, error) from error
        if pin is None:
            pin = self._pin(found.url, blob.version, blob.object_size)
        if pin[0] != blob.version:
            raise Conflict(f"{self._name}/{key}: the object it refers to was replaced")
        end = found.offset + (found.size if found.size != WHOLE else blob.object_size)
        if end > blob.object_size or len(blob.data) != stop - start:
            raise CorruptStore(
                f"{self._name}/{key}: refers to bytes up to {end} of {zmap.name}/{target}, "
                f"which has {blob.object_size}"
            )
        return blob.data

    def _target(self, key: Key, found: Reference) -> tuple[ZMap, Key]:
        """Return the store and the key that a reference leads to."""
        try:
            return self._targets.find(found.url)
        except NczfsError as error:
            raise type(error)(f"{self._name}/{key}: {error}") from error

    def _gone(self, key: Key, error: NoSuchObject) -> CorruptStore:
        # Not NoSuchObject, which would mean that the chunk was never written.
        return CorruptStore(f"{self._name}/{key}: refers to something that does not exist: {error}")


def open_reference(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Open the store that a document of references describes.

    Raises
    ------
    BadMetadata, Unsupported : it is not such a document, or of an unsupported kind.
    """
    if url.text.rstrip("/").lower().endswith(REFERENCE_DIRECTORIES) or os.path.isdir(url.path):
        return _of_directory(url, options)
    home, key = around(url)
    store = open_store(home, options)
    try:
        blob = read_bounded(store, key, options.memory_bytes)
    except NoSuchObject:
        if url.path:
            raise
        return _of_directory(url, options)  # as mode=reference implies
    finally:
        store.close()
    table = read_references(blob.data, url.text, options.memory_bytes)
    document = ReferenceDocument(url.text, blob.version, blob.mtime_ns)
    return ReferenceZMap(document, table, Targets(home, options), near=_is_near(home, options))


def _of_directory(url: StoreUrl, options: StoreOptions) -> ZMap:
    form = options.documents.parquet
    if form is None:
        raise Unsupported(f"{url.text}: references in parquet are not read")
    home = replace(url, kind=plain_kind(url))
    store = open_store(home, options)
    try:
        blob = read_bounded(store, Key(form.key), options.memory_bytes)
        references = ParquetReferences(store, blob.data, url.text, form, options.memory_bytes)
    except BaseException:
        store.close()
        raise
    document = ReferenceDocument(url.text, blob.version, blob.mtime_ns)
    targets = Targets(home, options, store)
    return ReferenceZMap(document, references, targets, near=_is_near(home, options))


def _answered(
    answer: Callable[[_T], _A], is_asked: Callable[[_T], bool], items: Iterable[_T]
) -> Iterator[_A]:
    """Yield answers for items, with several threads for those in other stores."""
    for asked, group in groupby(items, is_asked):
        answers = in_parallel if asked else map
        yield from answers(answer, group)


def _leads_to_all(found: Reference) -> bool:
    """Return whether a reference is to all of an object, which must be asked for its size."""
    return found.size == WHOLE and not found.problem


def _is_near(home: StoreUrl, options: StoreOptions) -> bool:
    return bool(home.path) and not options.allow_references
