"""The times that are stored with objects: no listing has them, so each is requested once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.pools import Pools
from nczfs.errors import NczfsError, NoSuchObject, NoSuchPath
from nczfs.vfs.objects.names import parent_of
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key, Prefix

OBJECTS_MAX = 100_000  # of about 300 bytes each
DIRECTORIES_MAX = 64
AT_ONCE_MAX = 256  # each time the whole listing is searched


class _Seen(NamedTuple):
    """The evidence that an object is unchanged, since on S3 its version only covers its bytes."""

    version: Version
    stored_ns: int | None


class _Asked(NamedTuple):
    """How far the objects of a directory were requested, in the order of its listing."""

    last: Key
    step: int


class KnownTimes:
    """The known times of objects.

    When a program asks for the objects of a directory in turn (``ls -l``), the next ones are
    requested at the same time. `_lock` guards the two tables, and is not held during requests to
    the store.
    """

    def __init__(self, metadata: MetadataCache, pools: Pools) -> None:
        self._metadata = metadata
        self._pools = pools
        self._lock = threading.Lock()
        self._times: OrderedDict[Key, dict[_Seen, int]] = OrderedDict()
        self._asked: OrderedDict[Prefix, _Asked] = OrderedDict()

    def of(self, stat: Stat) -> int | None:
        """Return the time of an object; None if it is unknown. Never blocks."""
        if stat.kept_mtime_ns is not None:
            return stat.kept_mtime_ns
        return self._times.get(stat.key, {}).get(_Seen(stat.version, stat.mtime_ns))

    def learn(self, stat: Stat, mtime_ns: int | None = None) -> None:
        """Note the time of an object; None: as the store gave it for the object alone."""
        if mtime_ns is None:
            mtime_ns = stat.mtime_ns if stat.kept_mtime_ns is None else stat.kept_mtime_ns
        if mtime_ns is None:  # the store has none: use one that stays
            mtime_ns = time.time_ns()
        with self._lock:
            # A listing and a HEAD may round the time of storing differently.
            known = self._times.get(stat.key, {})
            latest = dict([*known.items()][-1:])
            self._times[stat.key] = {**latest, _Seen(stat.version, stat.mtime_ns): mtime_ns}
            self._times.move_to_end(stat.key)
            if len(self._times) > OBJECTS_MAX:
                self._times.popitem(last=False)

    def forget(self, key: Key) -> None:
        """Note that an object was stored or deleted here."""
        with self._lock:
            self._times.pop(key, None)

    def ask(self, stat: Stat) -> Stat:
        """Return a listed object as the store has it now. Raises NoSuchPath."""
        stats = [stat, *self._following(stat)]
        ahead = [self._pools.fetch.submit(self._ask, other) for other in stats[1:]]
        try:
            return self._ask(stat)
        finally:
            _wait(ahead)

    def _ask(self, stat: Stat) -> Stat:
        try:
            found = self._metadata.zmap.stat(stat.key)
        except NoSuchObject as error:
            raise NoSuchPath(f"{stat.key}: no such object") from error
        self.learn(found)
        if found.version == stat.version:
            self.learn(stat, self.of(found))
        return found

    def _following(self, stat: Stat) -> Sequence[Stat]:
        """Return the next objects, to be requested as well."""
        prefix = parent_of(stat.key)
        listed, _ = self._metadata.known_entry(prefix, "")
        if not listed:
            return []
        objects = [
            entry.stat
            for entry in self._metadata.entries(prefix)
            if entry.stat is not None and not entry.is_prefix
        ]
        place = {found.key: position for position, found in enumerate(objects)}
        position = place.get(stat.key)
        if position is None:
            return []
        with self._lock:
            before = self._asked.get(prefix)
        step = 1
        if before is not None and (last := place.get(before.last)) is not None:
            passed = objects[last + 1 : position]
            if last < position and all(self.of(found) is not None for found in passed):
                step = min(2 * before.step, AT_ONCE_MAX)
        unknown = [found for found in objects[position + 1 :] if self.of(found) is None]
        following = unknown[: step - 1]
        with self._lock:
            self._asked[prefix] = _Asked(following[-1].key if following else stat.key, step)
            self._asked.move_to_end(prefix)
            if len(self._asked) > DIRECTORIES_MAX:
                self._asked.popitem(last=False)
        return following


def _wait(ahead: Sequence[Future[Stat]]) -> None:
    """Wait for the requests; an object that failed is requested again when it is needed."""
    for future in ahead:
        with suppress(NczfsError):
            future.result()
