"""An open file of the tree."""

from __future__ import annotations

import threading

from nczfs.buffers import Buffer
from nczfs.engine.dataset import Engine
from nczfs.engine.readahead.prefetch import FAR_FIRST_AHEAD_BYTES, AheadOptions, ReadAhead
from nczfs.engine.readahead.sequence import MIB
from nczfs.errors import BadHandle, StaleHandle
from nczfs.vfs.nodes import OpenFile
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.livefiles import LiveFiles
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap.base import Stat

# A far object is fetched in parts of this size, several at a time; a near one is read in steps that
# keep a thread busy long enough to be worth waking it.
FAR_AHEAD = AheadOptions(8 * MIB, 64 * MIB, 0, FAR_FIRST_AHEAD_BYTES)
NEAR_AHEAD = AheadOptions(4 * MIB, 12 * MIB, 0)


class OpenObject(OpenFile):
    """A handle: reads one version of the object, or what was written in this mount since.

    When another client replaced that version, reading says so and never mixes.
    """

    def __init__(
        self, store: ObjectStore, files: LiveFiles, engine: Engine, live: LiveFile, *, writing: bool
    ) -> None:
        self._store = store
        self._files = files
        self._engine = engine
        self._live = live
        self._writing = writing
        self._lock = threading.Lock()  # guards the one below
        self._reader: _Reader | None = None

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        base = self._live.base
        if self._live.is_staged or base is None or _is_behind(base, offset):
            return None
        ahead = self._reader_of(base).ahead
        ahead.note(offset, size)
        found = ahead.if_ready(offset, size)
        if found is not None and not self._live.delivered.note(offset, found):
            return None
        return found

    def has_pages(self, *, kept: bool) -> None:
        self._live.delivered.begin(has_pages=kept)

    def read(self, offset: int, size: int) -> Buffer:
        live = self._live
        while True:
            base = live.base
            found = live.read(offset, size) if live.is_staged else None
            if found is None:
                if base is None:
                    continue  # just stored
                try:
                    found = self._reader_of(base).read(offset, size)
                except StaleHandle:
                    is_other = live.is_past(base) or live.go_on(base)
                    if not is_other and not live.is_staged:  # which it may be since: see `hold`
                        raise
                    continue
            is_behind = base is not None and not live.is_staged and _is_behind(base, offset)
            if is_behind and base is not None and live.go_on(base):
                continue
            if live.delivered.note(offset, found):
                return found
            with live.turn:  # those who compare it hold it
                pass

    def write(self, offset: int, data: Buffer) -> int:
        self._check_writing()
        self._live.write(offset, data)
        return len(data)

    def append(self, offset: int, data: Buffer) -> int:
        """Write where the file ends by now, which the kernel may not know yet."""
        self._check_writing()
        if self._live.append(data) != offset:
            self._store.forget_pages(self._live.key)  # the kernel put them at its own end
        return len(data)

    def truncate(self, size: int) -> None:
        self._check_writing()
        self._live.truncate(size)

    def truncate_at_once(self, size: int) -> None:
        """Set the size, and store it, as `LiveFile.truncate_at_once` does."""
        self._check_writing()
        self._live.truncate_at_once(size)

    def flush(self) -> None:
        if self._writing:
            self._live.store(truncated_too=False)

    def fsync(self) -> None:
        self._live.store()

    def close(self) -> None:
        if self._writing:
            self._writing = False
            self._files.leave(self._live)
        self.drop()

    def drop(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.ahead.close()
        self._files.close(self._live, writing=self._writing)

    def _check_writing(self) -> None:
        if not self._writing:
            raise BadHandle(f"{self._live.key}: was not opened for writing")

    def _reader_of(self, base: Stat) -> _Reader:
        with self._lock:
            if self._reader is None or self._reader.stat != base:
                if self._reader is not None:
                    self._reader.ahead.close()
                self._reader = _Reader(self._store, self._engine, base)
            return self._reader


def _is_behind(base: Stat, offset: int) -> bool:
    """Return whether a request goes beyond a version: the kernel knows a longer one."""
    return offset >= base.size


class _Reader:
    """One version of an object, with reading ahead."""

    def __init__(self, store: ObjectStore, engine: Engine, stat: Stat) -> None:
        self.stat = stat
        self._store = store
        far = store.metadata.far
        self.ahead = ReadAhead(
            self._read,
            None,
            stat.size,
            lambda: engine.pools.fetch if far else engine.pools.assemble,
            engine.windows,
            FAR_AHEAD if far else NEAR_AHEAD,
        )

    def read(self, offset: int, size: int) -> Buffer:
        size = max(0, min(size, self.stat.size - offset))
        if not size:
            return b""
        found = self.ahead.wait(offset, size)
        return found if found is not None else self._read(offset, size)

    def _read(self, offset: int, size: int) -> Buffer:
        return self._store.read(self.stat, offset, offset + size)
