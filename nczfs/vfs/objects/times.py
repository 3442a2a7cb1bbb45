"""The times that are kept with objects: no listing tells them, so each is asked for once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from nczfs.engine.metadata import MetadataCache
from nczfs.engine.pools import Pools
from nczfs.errors import NczfsError, NoSuchObject, NoSuchPath
from nczfs.vfs.objects.names import parent_of
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key, Prefix

OBJECTS_MAX = 100_000  # about 300 bytes each
DIRECTORIES_MAX = 64
AT_ONCE_MAX = 256  # each time, the whole listing is looked through


class _Seen(NamedTuple):
    """What tells that an object is as it was: its version alone is that of its bytes on S3."""

    version: Version
    stored_ns: int | None


class _Asked(NamedTuple):
    """How far a directory was asked through, in the order of its listing."""

    last: Key
    step: int


class KnownTimes:
    """The times of the objects that were asked for.

    Who asks for one object of a directory after the other (``ls -l``) is answered sooner: more of
    those that follow are asked for at the same time. `_lock` guards the two tables, and is not held
    while the store is asked.
    """

    def __init__(self, metadata: MetadataCache, pools: Pools) -> None:
        self._metadata = metadata
        self._pools = pools
        self._lock = threading.Lock()
        self._times: OrderedDict[Key, dict[_Seen, int]] = OrderedDict()
        self._asked: OrderedDict[Prefix, _Asked] = OrderedDict()

    def of(self, stat: Stat) -> int | None:
        """The time of an object, None while it is not known. Never blocks."""
        if stat.kept_mtime_ns is not None:
            return stat.kept_mtime_ns
        return self._times.get(stat.key, {}).get(_Seen(stat.version, stat.mtime_ns))

    def learn(self, stat: Stat, mtime_ns: int | None = None) -> None:
        """Note the time of an object; None: what the store said of it when asked for it alone."""
        if mtime_ns is None:
            mtime_ns = stat.mtime_ns if stat.kept_mtime_ns is None else stat.kept_mtime_ns
        if mtime_ns is None:  # the store tells none: one that stays
            mtime_ns = time.time_ns()
        with self._lock:
            # A listing and a HEAD may differ in how they round when it was stored.
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
        """An object of which a listing told, as the store has it now. Raises NoSuchPath."""
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
        """The objects after this one that are to be asked for as well."""
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
    """Those who need one that failed will ask again."""
    for future in ahead:
        with suppress(NczfsError):
            future.result()
