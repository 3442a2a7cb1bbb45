"""A store that gathers nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nczfs.zmap.base import Blob, Buffer, Entry, Features, Part, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix


class Prompt(ZMap):
    """Another store, flushed by each change: what it took survives this process.

    Where the flush fails, the change is there, and is tried again with the next. Closing it closes
    the other.
    """

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

    def write(
        self,
        key: Key,
        data: Buffer,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        return self._flushed(self._zmap.write(key, data, replaces=replaces, mtime_ns=mtime_ns))

    def copy(
        self,
        source: Stat,
        goal: Key,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        return self._flushed(self._zmap.copy(source, goal, replaces=replaces, mtime_ns=mtime_ns))

    def write_parts(
        self,
        key: Key,
        parts: Sequence[Part],
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        return self._flushed(
            self._zmap.write_parts(key, parts, replaces=replaces, mtime_ns=mtime_ns)
        )

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        return self._flushed(self._zmap.set_mtime(stat, mtime_ns))

    def delete(self, key: Key) -> None:
        self._zmap.delete(key)
        self._zmap.flush()

    def delete_many(self, keys: Iterable[Key]) -> None:
        self._zmap.delete_many(keys)
        self._zmap.flush()

    def stat(self, key: Key) -> Stat:
        return self._zmap.stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._zmap.search(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return self._zmap.list(prefix)

    def exists(self, prefix: Prefix) -> bool:
        return self._zmap.exists(prefix)

    def mark(self, prefix: Prefix) -> None:
        self._zmap.mark(prefix)
        self._zmap.flush()

    def unmark(self, prefix: Prefix) -> None:
        self._zmap.unmark(prefix)
        self._zmap.flush()

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        return self._zmap.markers(prefix)

    def flush(self) -> None:
        self._zmap.flush()

    def close(self) -> None:
        """Close the store that is flushed."""
        self._zmap.close()

    def _flushed(self, version: Version) -> Version:
        self._zmap.flush()
        return version
