"""A store of which nothing is changed but in a context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from nczfs.zmap.base import Blob, Buffer, Entry, Features, Part, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix


class Guarded(ZMap):
    """A store whose changes have a context round them. Closing it closes the other.

    Parameters
    ----------
    guard : makes the context; what it raises is raised, and nothing was changed.
    """

    def __init__(self, zmap: ZMap, guard: Callable[[], AbstractContextManager[None]]) -> None:
        self._zmap = zmap
        self._guard = guard

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
        with self._guard():
            return self._zmap.write(key, data, replaces=replaces, mtime_ns=mtime_ns)

    def copy(
        self,
        source: Stat,
        goal: Key,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        with self._guard():
            return self._zmap.copy(source, goal, replaces=replaces, mtime_ns=mtime_ns)

    def write_parts(
        self,
        key: Key,
        parts: Sequence[Part],
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        with self._guard():
            return self._zmap.write_parts(key, parts, replaces=replaces, mtime_ns=mtime_ns)

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        with self._guard():
            return self._zmap.set_mtime(stat, mtime_ns)

    def delete(self, key: Key) -> None:
        with self._guard():
            self._zmap.delete(key)

    def delete_many(self, keys: Iterable[Key]) -> None:
        with self._guard():
            self._zmap.delete_many(keys)

    def stat(self, key: Key) -> Stat:
        return self._zmap.stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._zmap.search(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return self._zmap.list(prefix)

    def exists(self, prefix: Prefix) -> bool:
        return self._zmap.exists(prefix)

    def mark(self, prefix: Prefix) -> None:
        with self._guard():
            self._zmap.mark(prefix)

    def unmark(self, prefix: Prefix) -> None:
        with self._guard():
            self._zmap.unmark(prefix)

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        return self._zmap.markers(prefix)

    def flush(self) -> None:
        self._zmap.flush()

    def close(self) -> None:
        """Close the store that is guarded."""
        self._zmap.close()
