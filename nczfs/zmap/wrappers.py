"""Wrappers of a store: unchanged, below a prefix, without writes, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Literal, TypeAlias, Unpack

from nczfs.buffers import Buffer
from nczfs.errors import ReadOnlyStore
from nczfs.metrics import STORE_BYTES_READ, STORE_REQUESTS
from nczfs.zmap.aside import Aside, Exchanges
from nczfs.zmap.base import (
    Blob,
    ByteRange,
    Entry,
    Features,
    Glance,
    Part,
    Stat,
    Version,
    WriteOptions,
    ZMap,
)
from nczfs.zmap.capacity import Capacity
from nczfs.zmap.keys import Key, Prefix, checked_length, is_within
from nczfs.zmap.run import ListedRange

Change: TypeAlias = Literal["write", "copy", "write_parts", "delete"]


class Wrapper(ZMap):
    """A store that passes everything on to another one. Closing it closes the other."""

    def __init__(self, zmap: ZMap) -> None:
        self._zmap = zmap

    @property
    def name(self) -> str:
        return self._zmap.name

    @property
    def features(self) -> Features:
        return self._zmap.features

    def prepare_writing(self) -> Features:
        return self._zmap.prepare_writing()

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        return self._zmap.read(key, start, stop, version=version)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        with self._changing("write", key):
            return self._zmap.write(key, data, **options)

    def copy(self, source: Stat, goal: Key, **options: Unpack[WriteOptions]) -> Version:
        with self._changing("copy", goal):
            return self._zmap.copy(source, goal, **options)

    def copy_from(self, origin: ZMap, key: Key, goal: Key) -> Version:
        with self._changing("copy", goal):
            return self._zmap.copy_from(origin, key, goal)

    def located(self, key: Key) -> tuple[ZMap, Key]:
        return self._zmap.located(key)

    def write_parts(
        self, key: Key, parts: Sequence[Part], **options: Unpack[WriteOptions]
    ) -> Version:
        with self._changing("write_parts", key):
            return self._zmap.write_parts(key, parts, **options)

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        with self._changing("copy", stat.key):
            return self._zmap.set_mtime(stat, mtime_ns)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        with self._changing("delete", key):
            self._zmap.delete(key, version=version)

    def delete_many(self, keys: Iterable[Key]) -> None:
        with self._changing("delete", ""):
            self._zmap.delete_many(keys)

    def stat(self, key: Key) -> Stat:
        return self._zmap.stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._zmap.search(prefix)

    def glance(self, prefix: Prefix) -> Glance:
        return self._zmap.glance(prefix)

    def prefixes(self, prefix: Prefix) -> Iterator[str]:
        return self._zmap.prefixes(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return self._zmap.list(prefix)

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        return self._zmap.run_from(prefix, first)

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        return self._zmap.exists(prefix, marked=marked)

    @contextmanager
    def aside(self, prefix: Prefix, path: str = "") -> Iterator[Aside]:
        with self._changing("write", prefix):
            opened = self._zmap.aside(prefix, path)
        with opened as found:

            def exchange() -> None:
                with self._changing("write", prefix):
                    found.exchange()

            yield Aside(found.prefix, exchange)

    def mark(self, prefix: Prefix) -> None:
        with self._changing("write", prefix):
            self._zmap.mark(prefix)

    def unmark(self, prefix: Prefix) -> None:
        with self._changing("delete", prefix):
            self._zmap.unmark(prefix)

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        return self._zmap.markers(prefix)

    def broken(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        return self._zmap.broken(prefix)

    def capacity(self) -> Capacity:
        return self._zmap.capacity()

    @property
    def silent_s(self) -> float:
        return self._zmap.silent_s

    @property
    def memory_bytes(self) -> int:
        return self._zmap.memory_bytes

    def flush(self) -> None:
        self._zmap.flush()

    def close(self) -> None:
        """Close the wrapped store."""
        self._zmap.close()

    def _changing(self, change: Change, key: str) -> AbstractContextManager[None]:
        """Return the context of a call that changes something; its errors are raised.

        Parameters
        ----------
        key : of an object or a directory; "" for many.
        """
        del change, key
        return nullcontext()


class KeptOpen(Wrapper):
    """A store that somebody else closes: closing this one neither flushes nor closes the other."""

    def close(self) -> None:
        pass


class Prefixed(Wrapper):
    """The part of a store below a prefix, as a separate store. Closing it closes the other.

    A key that together with the prefix has more than 1024 bytes raises `KeyTooLong`.
    """

    def __init__(self, zmap: ZMap, prefix: Prefix) -> None:
        super().__init__(zmap)
        self._prefix = prefix
        self._before = f"{prefix}/" if prefix else ""

    @property
    def name(self) -> str:
        return f"{self._zmap.name}/{self._prefix}" if self._prefix else self._zmap.name

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        return self._zmap.read(self._outer(key), start, stop, version=version)

    def read_ranges(
        self, key: Key, ranges: Sequence[tuple[int, int]], *, version: Version
    ) -> Sequence[Buffer]:
        return self._zmap.read_ranges(self._outer(key), ranges, version=version)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        return self._zmap.write(self._outer(key), data, **options)

    def copy(self, source: Stat, goal: Key, **options: Unpack[WriteOptions]) -> Version:
        return self._zmap.copy(self._outer_stat(source), self._outer(goal), **options)

    def copy_from(self, origin: ZMap, key: Key, goal: Key) -> Version:
        return self._zmap.copy_from(origin, key, self._outer(goal))

    def located(self, key: Key) -> tuple[ZMap, Key]:
        return self._zmap.located(self._outer(key))

    def write_parts(
        self, key: Key, parts: Sequence[Part], **options: Unpack[WriteOptions]
    ) -> Version:
        outer = [
            replace(part, stat=self._outer_stat(part.stat)) if isinstance(part, ByteRange) else part
            for part in parts
        ]
        return self._zmap.write_parts(self._outer(key), outer, **options)

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        return self._zmap.set_mtime(self._outer_stat(stat), mtime_ns)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        self._zmap.delete(self._outer(key), version=version)

    def delete_many(self, keys: Iterable[Key]) -> None:
        self._zmap.delete_many(map(self._outer, keys))

    def stat(self, key: Key) -> Stat:
        return self._inner(self._zmap.stat(self._outer(key)))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return map(self._inner_entry, self._zmap.search(self._outer_prefix(prefix)))

    def glance(self, prefix: Prefix) -> Glance:
        found, rest = self._zmap.glance(self._outer_prefix(prefix))
        inner = list(map(self._inner_entry, found))
        return inner, None if rest is None else lambda: map(self._inner_entry, rest())

    def prefixes(self, prefix: Prefix) -> Iterator[str]:
        return self._zmap.prefixes(self._outer_prefix(prefix))

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return map(self._inner, self._zmap.list(self._outer_prefix(prefix)))

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        outer = None if first is None else self._outer(first)
        run = self._zmap.run_from(self._outer_prefix(prefix), outer)
        if run is None:
            return None
        start = len(self._before)
        versions = {Key(key[start:]): version for key, version in run.versions.items()}
        return ListedRange(
            versions, run.first[start:], None if run.last is None else run.last[start:]
        )

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        return self._zmap.exists(self._outer_prefix(prefix), marked=marked)

    @contextmanager
    def aside(self, prefix: Prefix, path: str = "") -> Iterator[Aside]:
        with self._zmap.aside(self._outer_prefix(prefix), path) as found:
            if not is_within(found.prefix, self._prefix):
                raise ReadOnlyStore(f"{self.name}/{prefix}: cannot be replaced in one step")
            yield Aside(Prefix(found.prefix[len(self._before) :]), found.exchange)

    def mark(self, prefix: Prefix) -> None:
        self._zmap.mark(self._outer_prefix(prefix))

    def unmark(self, prefix: Prefix) -> None:
        self._zmap.unmark(self._outer_prefix(prefix))

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        for found in self._zmap.markers(self._outer_prefix(prefix)):
            if found != self._prefix:
                yield Prefix(found[len(self._before) :])

    def broken(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        for key, why in self._zmap.broken(self._outer_prefix(prefix)):
            yield Key(key[len(self._before) :]), why

    def _outer(self, key: Key) -> Key:
        return checked_length(self._before + key)

    def _outer_prefix(self, prefix: Prefix) -> Prefix:
        return Prefix(self._before + prefix) if prefix else self._prefix

    def _outer_stat(self, stat: Stat) -> Stat:
        return stat._replace(key=self._outer(stat.key))

    def _inner(self, stat: Stat) -> Stat:
        return stat._replace(key=Key(stat.key[len(self._before) :]))

    def _inner_entry(self, entry: Entry) -> Entry:
        return entry._replace(stat=self._inner(entry.stat)) if entry.stat else entry


class ReadOnly(Wrapper):
    """A store that refuses writes. Closing it closes the other."""

    @property
    def features(self) -> Features:
        return replace(
            self._zmap.features,
            writable=False,
            conditional_writes=False,
            server_copies=False,
            exchanges=Exchanges.NOTHING,
        )

    def prepare_writing(self) -> Features:
        return self.features

    def _changing(self, change: Change, key: str) -> AbstractContextManager[None]:
        where = f"{self.name}/{key}".rstrip("/")
        raise ReadOnlyStore(f"{where}: the store was opened read-only")


class Metered(Wrapper):
    """A store whose calls and bytes read are counted. Closing it closes the other.

    A call is counted when it is made, whether it succeeds or not; a search, a listing with any
    number of pages, and a deletion of many keys count once.

    Parameters
    ----------
    label : of this store in the metrics.
    """

    def __init__(self, zmap: ZMap, label: str) -> None:
        super().__init__(zmap)
        self._reads = STORE_REQUESTS.labels(label, "read")
        self._writes = STORE_REQUESTS.labels(label, "write")
        self._deletes = STORE_REQUESTS.labels(label, "delete")
        self._stats = STORE_REQUESTS.labels(label, "stat")
        self._searches = STORE_REQUESTS.labels(label, "search")
        self._lists = STORE_REQUESTS.labels(label, "list")
        self._bytes_read = STORE_BYTES_READ.labels(label)

    def _changing(self, change: Change, key: str) -> AbstractContextManager[None]:
        (self._deletes if change == "delete" else self._writes).inc()
        return nullcontext()

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self._reads.inc()
        blob = self._zmap.read(key, start, stop, version=version)
        self._bytes_read.inc(len(blob.data))
        return blob

    def read_ranges(
        self, key: Key, ranges: Sequence[tuple[int, int]], *, version: Version
    ) -> Sequence[Buffer]:
        if not self.features.near:  # several requests, each of which counts
            return super().read_ranges(key, ranges, version=version)
        self._reads.inc()
        found = self._zmap.read_ranges(key, ranges, version=version)
        self._bytes_read.inc(sum(map(len, found)))
        return found

    def stat(self, key: Key) -> Stat:
        self._stats.inc()
        return self._zmap.stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        self._searches.inc()
        return self._zmap.search(prefix)

    def glance(self, prefix: Prefix) -> Glance:
        self._searches.inc()
        found, rest = self._zmap.glance(prefix)
        if rest is None:
            return found, None

        def others() -> Iterator[Entry]:
            self._searches.inc()
            return rest()

        return found, others

    def prefixes(self, prefix: Prefix) -> Iterator[str]:
        self._searches.inc()
        return self._zmap.prefixes(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        self._lists.inc()
        return self._zmap.list(prefix)

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        run = self._zmap.run_from(prefix, first)
        if run is not None:  # otherwise there was no request
            self._lists.inc()
        return run

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        self._searches.inc()
        return self._zmap.exists(prefix, marked=marked)

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        self._lists.inc()
        return self._zmap.markers(prefix)
