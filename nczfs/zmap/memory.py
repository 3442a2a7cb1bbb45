"""A store in memory: the simplest one that keeps every promise, for tests and temporary data."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, NoSuchObject, ObjectExists
from nczfs.plaindata import frozen
from nczfs.zmap.aside import Aside, Exchanges, new_aside
from nczfs.zmap.base import ABSENT, Blob, Entry, Features, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, is_own, is_within, join


@frozen
class _Object:
    data: bytes
    stat: Stat


class MemoryZMap(ZMap):
    """Objects in a dict. One lock guards the dict and the counter of versions."""

    def __init__(self, name: str = "memory://") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._objects: dict[Key, _Object] = {}
        self._writes = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return Features(exchanges=Exchanges.ALL, time_resolution_ns=1)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        found = self._find(key)
        if version is not None and version != found.stat.version:
            raise Conflict(f"{self._name}/{key}: replaced since it was opened")
        data = memoryview(found.data)[start:stop] if start or stop is not None else found.data
        return Blob(data, found.stat.version, len(found.data), found.stat.mtime_ns)

    def write(
        self,
        key: Key,
        data: Buffer,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        copy = bytes(data)
        with self._lock:
            found = self._objects.get(key)
            if replaces is not None:
                current = found.stat.version if found else ABSENT
                if replaces == ABSENT != current:
                    raise ObjectExists(f"{self._name}/{key}: exists already")
                if replaces != current:
                    raise Conflict(f"{self._name}/{key}: replaced by another client")
            self._writes += 1
            version = Version(str(self._writes))
            self._objects[key] = _Object(copy, Stat(key, len(copy), version, time.time_ns()))
        return version

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        with self._lock:
            found = self._find(key)
            if version is not None and version != found.stat.version:
                raise Conflict(f"{self._name}/{key}: replaced by another client")
            del self._objects[key]

    def stat(self, key: Key) -> Stat:
        return self._find(key).stat

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        entries: dict[str, Entry] = {}
        for stat in self.list(prefix):
            name, _, below = stat.key[len(prefix) + 1 if prefix else 0 :].partition("/")
            known = entries.get(name)
            entries[name] = Entry(
                name,
                stat if not below else known.stat if known else None,
                bool(below) or (known is not None and known.is_prefix),
            )
        return iter(entries.values())

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        with self._lock:
            stats = [found.stat for found in self._objects.values()]
        below = f"{prefix}/" if prefix else ""
        shown = (stat for stat in stats if stat.key.startswith(below))
        return (stat for stat in shown if not is_own(stat.key[len(below) :]))

    @contextmanager
    def aside(self, prefix: Prefix, path: str = "") -> Iterator[Aside]:
        if next(self.list(prefix), None) is None:
            raise NoSuchObject(f"{self._name}/{prefix}: nothing is there")
        place = Prefix(join(prefix, new_aside()))
        try:
            yield Aside(
                place, lambda: self._exchange(prefix, Prefix(join(place, path).rstrip("/")))
            )
        finally:
            with self._lock:
                kept = self._objects.items()
                self._objects = {key: each for key, each in kept if not is_within(key, place)}

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _exchange(self, prefix: Prefix, new: Prefix) -> None:
        below = len(prefix) + 1 if prefix else 0
        with self._lock:
            kept, found = dict[Key, _Object](), dict[Key, _Object]()
            for key, each in self._objects.items():
                if key.startswith(f"{new}/"):
                    goal = join(prefix, key[len(new) + 1 :])
                    found[goal] = _Object(each.data, each.stat._replace(key=goal))
                elif not is_within(key, prefix) or is_own(key[below:]):
                    kept[key] = each
            if not found:
                raise NoSuchObject(f"{self._name}/{new}: nothing is there")
            self._objects = kept | found

    def _find(self, key: Key) -> _Object:
        try:
            return self._objects[key]
        except KeyError:
            raise NoSuchObject(f"{self._name}/{key}: no such object") from None
