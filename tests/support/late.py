"""A store whose requests may take effect after their deadline has passed, as on a far server."""

from __future__ import annotations

import threading

from nczfs.buffers import Buffer
from nczfs.errors import AccessDenied, Conflict, DeadlinePassed, ObjectExists
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.run import ListedRange


class LateZMap(MemoryZMap):
    """A store in memory. `delay` and `land` are for the test; a lock guards what is on its way.

    The server compares the condition of a write when the write arrives.

    Parameters
    ----------
    page : the number of objects that a listing gives at once; 0: it is refused.

    Attributes
    ----------
    missed : how many writes passed their deadlines since the last `delay`.
    """

    def __init__(self, page: int = 1000) -> None:
        super().__init__()
        self._page = page
        self._guard = threading.Lock()
        self._delayed = 0
        self.missed = 0
        self._on_its_way: list[tuple[Key, bytes, Version | None]] = []

    def delay(self, count: int) -> None:
        """Have the next writes pass their deadlines, and arrive when `land` is called."""
        with self._guard:
            self._delayed, self.missed = count, 0

    def land(self) -> int:
        """Have everything arrive that is on its way: how many writes."""
        with self._guard:
            arriving, self._on_its_way = self._on_its_way, []
        for key, data, replaces in arriving:
            try:
                super().write(key, data, replaces=replaces)
            except (Conflict, ObjectExists):
                continue
        return len(arriving)

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        if not self._page:
            raise AccessDenied(f"{self.name}/{prefix}: no listing")
        start = first or f"{prefix}/"
        found = sorted(stat for stat in self.list(prefix) if stat.key >= start)
        page = {stat.key: stat.version for stat in found[: self._page]}
        return ListedRange(page, start, max(page) if len(found) > self._page else None)

    def write(
        self,
        key: Key,
        data: Buffer,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        with self._guard:
            is_late = self._delayed > 0
            if is_late:
                self._delayed -= 1
                self.missed += 1
                self._on_its_way.append((key, bytes(data), replaces))
        if is_late:
            raise DeadlinePassed(f"{self.name}/{key}: no answer in time")
        return super().write(key, data, replaces=replaces, mtime_ns=mtime_ns)
