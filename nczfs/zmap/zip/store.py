"""A store that is a zip archive, itself an object of another store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final, Protocol, Unpack

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, CorruptStore, NoSuchObject, ReadOnlyStore
from nczfs.zmap.base import Blob, Entry, Features, Stat, Version, WriteOptions, ZMap
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.ranges import clipped
from nczfs.zmap.zip.index import ZipIndex, ZipMember
from nczfs.zmap.zip.indexcache import IndexCache, load_index
from nczfs.zmap.zip.members import MAX_INFLATED_BYTES, MemberReader, read_exactly
from nczfs.zmap.zip.points import AccessPoints
from nczfs.zmap.zip.source import ArchiveBytes, ObjectBytes
from nczfs.zmap.zip.view import ArchiveView, MemberChanges, version_of

log = logging.getLogger(__name__)

ENCODING: Final = ("utf-8", "surrogateescape")


class OpenArchive:
    """An archive with its index: its members as objects. Thread-safe.

    Attributes
    ----------
    view : its members.
    """

    def __init__(
        self,
        source: ArchiveBytes,
        index: ZipIndex,
        max_inflated_bytes: int = MAX_INFLATED_BYTES,
        aside: MemberChanges | None = None,
    ) -> None:
        self.view = ArchiveView(index, MemberChanges() if aside is None else aside)
        self.nbytes = index.nbytes
        self._source = source
        self._reader = MemberReader(source, index, AccessPoints(), max_inflated_bytes)

    def read(self, key: Key, start: int, stop: int | None, version: Version | None) -> Blob:
        """Read as `ZMap.read` does."""
        member = self.find(key)
        found = version_of(member)
        if version is not None and version != found:
            raise Conflict(f"{self._source.name}/{key}: another version than the requested one")
        start, stop = clipped(start, stop, member.size)
        data: Buffer = b""
        if start < stop:
            data = self._reader.read(key, member, start, stop)
        return Blob(data, found, member.size, self._source.mtime_ns)

    def find(self, key: Key) -> ZipMember:
        """Return the member with a key. Raises NoSuchObject."""
        member = self.view.find(key.encode(*ENCODING))
        if member is None:
            raise NoSuchObject(f"{self._source.name}/{key}: no such member")
        return member

    def stat(self, key: Key) -> Stat:
        """Return the `Stat` as `ZMap.stat` does."""
        return self._stat(key, self.find(key))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        """Search as `ZMap.search` does."""
        before = f"{prefix}/" if prefix else ""
        for raw, member, is_prefix in self.view.children(prefix.encode(*ENCODING)):
            name = raw.decode(*ENCODING)
            stat = self._stat(Key(before + name), member) if member else None
            yield Entry(name, stat, is_prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        """List as `ZMap.list` does."""
        mtime_ns = self._source.mtime_ns
        for key, member in self.view.below(prefix.encode(*ENCODING)):
            yield Stat(Key(key.decode(*ENCODING)), member.size, version_of(member), mtime_ns)

    def _stat(self, key: Key, member: ZipMember) -> Stat:
        return Stat(key, member.size, version_of(member), self._source.mtime_ns)


class KeptArchives(Protocol):
    """Keeps archives whose index was read, as long as there is room for them."""

    def get(self, key: object) -> OpenArchive | None:
        """Return what is kept under a key; None: nothing."""

    def put(self, key: object, value: OpenArchive, nbytes: int) -> None:
        """Keep an archive that takes so many bytes of memory."""


class _Always:
    """Keeps the one archive of a store."""

    def __init__(self) -> None:
        self._value: OpenArchive | None = None

    def get(self, key: object) -> OpenArchive | None:
        return self._value

    def put(self, key: object, value: OpenArchive, nbytes: int) -> None:
        self._value = value


class ZipZMap(ZMap):
    """The members of an archive as objects, fetched by ranged reads of the archive's store.

    The archive is pinned: once it is replaced every read raises `Conflict`. Archives of
    netcdf-c (everything in one directory named after the dataset) and of zarr-python (keys at the
    root) are distinguished. Members whose names are not keys are left out, logged once.

    Parameters
    ----------
    source : the store of the archive.
    key : of the archive.
    top : the directory of the archive that is the root of the keys, "" for the archive's own
        root; None: detected.
    max_inflated_bytes : longer reads of compressed members are refused.
    owns_source : close `source` with this store.
    index_cache : for the indexes of large archives.
    kept : keeps the archive with its index, which is read again if it is gone; None: it stays in
        memory. `_lock` is held while it is read again.

    Raises
    ------
    NoSuchObject : there is no archive.
    CorruptStore : it is not a zip archive, or its central directory is damaged.
    """

    def __init__(
        self,
        source: ZMap,
        key: Key,
        *,
        top: str | None = None,
        max_inflated_bytes: int = MAX_INFLATED_BYTES,
        owns_source: bool = False,
        index_cache: IndexCache | None = None,
        kept: KeptArchives | None = None,
    ) -> None:
        self._source = source
        self._owns_source = owns_source
        archive = ObjectBytes(source, key)
        self._name = archive.name
        index = open_index(archive, top, index_cache)
        self._top, self._dropped = index.top, index.dropped
        self._lock = threading.Lock()
        self._id = object()
        self._kept = kept if kept is not None else _Always()
        self._kept.put(
            self._id, found := OpenArchive(archive, index, max_inflated_bytes), found.nbytes
        )
        self._make: Callable[[], OpenArchive] = lambda: OpenArchive(
            archive, read_whole_index(archive, top, index_cache), max_inflated_bytes
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return Features(writable=False, conditional_writes=False, near=self._source.features.near)

    @property
    def silent_s(self) -> float:
        return self._source.silent_s

    @property
    def top(self) -> str:
        """The directory of the archive that is the root of the keys; "" for the archive's root."""
        return self._top

    @property
    def dropped(self) -> int:
        """How many members were left out because their names are not keys."""
        return self._dropped

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        return self._opened().read(key, start, stop, version)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        raise self._read_only(key)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        raise self._read_only(key)

    def stat(self, key: Key) -> Stat:
        return self._opened().stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._opened().search(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return self._opened().list(prefix)

    def close(self) -> None:
        """Close the source if it belongs to this store."""
        if self._owns_source:
            self._source.close()

    def _opened(self) -> OpenArchive:
        """Return the archive; its index is read again if there was no room to keep it."""
        with self._lock:
            found = self._kept.get(self._id)
            if found is None:
                found = self._make()
                self._kept.put(self._id, found, found.nbytes)
            return found

    def _read_only(self, key: Key) -> ReadOnlyStore:
        return ReadOnlyStore(
            f"{self._name}/{key}: an archive inside a store is read-only; only archives that "
            "are local files can be written to"
        )


def open_index(archive: ArchiveBytes, top: str | None, cache: IndexCache | None) -> ZipIndex:
    """Read the index of an archive as `read_whole_index` does, and log what is left out of it."""
    index = read_whole_index(archive, top, cache)
    if index.dropped:
        log.warning("%s: left out %d members whose names are not keys", archive.name, index.dropped)
    return index


def read_whole_index(archive: ArchiveBytes, top: str | None, cache: IndexCache | None) -> ZipIndex:
    """Read the index of an archive, or take it from a cache, and log what it leaves out.

    Raises
    ------
    CorruptStore : it is not a zip archive, or its central directory is damaged.
    """

    def read_at(start: int, stop: int) -> Buffer:
        return read_exactly(archive, start, stop)

    try:
        return load_index(read_at, archive.size, top=top, identity=archive.identity, cache=cache)
    except CorruptStore as error:
        raise CorruptStore(f"{archive.name}: {error}") from error
