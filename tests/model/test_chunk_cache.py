"""The chunk cache with its disk tier, against a store whose chunks change: nothing old is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nczfs.engine.chunks.cache import ENTRY_BYTES, ChunkCache
from nczfs.engine.chunks.chunkaccess import ChunkAccess
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.chunks.loaded import ChunkId, LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.spill import SpillTier
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.model.boxes import Box
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

A = StoredArray(MemoryZMap(), ArrayPlace(ROOT))
SHAPE = (30, 1100)  # of bytes, and two blocks of the disk tier and a bit
NBYTES = 30 * 1100
CHUNKS = st.integers(0, 11)
ROWS = st.integers(0, 29)


def chunk(number: int, version: int) -> LoadedChunk:
    values = np.arange(NBYTES, dtype=np.int64) + 7 * number + 101 * version
    return LoadedChunk(
        (values % 251).astype(np.uint8).reshape(SHAPE), NBYTES, Version(str(version))
    )


class ChunkCacheMachine(RuleBasedStateMachine):
    """The model is the version of every chunk in the store, and the oldest that may be shown.

    Time stands still but for `wait`; the disk writes when `write` says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.tasks: list[Callable[[], None]] = []
        self.tier = SpillTier(self.tasks.append, 3 * NBYTES, None, 6 * NBYTES)
        memory = 4 * (NBYTES + ENTRY_BYTES) + self.tier.queue_bytes
        self.cache = ChunkCache(memory, clock=lambda: self.seconds, tier=self.tier)
        self.stored = dict.fromkeys(range(12), 0)
        self.oldest = dict.fromkeys(range(12), 0)
        self.ahead: dict[int, tuple[ChunkLoad, LoadedChunk, LoadedChunk | None]] = {}

    def teardown(self) -> None:
        self.cache.close()

    def load(self, number: int, known: LoadedChunk | None) -> LoadedChunk:
        if known is not None and known.version == str(self.stored[number]):
            return known
        return chunk(number, self.stored[number])

    def load_now(self, number: int, known: LoadedChunk | None) -> LoadedChunk:
        self.oldest[number] = self.stored[number]
        return self.load(number, known)

    def check(self, number: int, values: Any, where: tuple[slice, ...], *, fresh: bool) -> None:
        oldest = self.stored[number] if fresh else self.oldest[number]
        shown = [
            version
            for version in range(oldest, self.stored[number] + 1)
            if np.array_equal(values[where], chunk(number, version).values[where])
        ]
        assert shown, f"chunk {number} is older than version {oldest}"
        self.oldest[number] = shown[0]

    @precondition(lambda self: len(self.ahead) < 2)
    @rule(number=CHUNKS, first=ROWS, rows=st.integers(1, 30), fresh=st.booleans())
    def read(self, number: int, first: int, rows: int, fresh: bool) -> None:
        if number in self.ahead:
            return
        part = Box((first, 0), (min(30, first + rows), 1100))
        chunk_id: ChunkId = (A, (number,))
        with self.cache.pinned(
            chunk_id,
            lambda known: self.load_now(number, known),
            NBYTES,
            self.seconds if fresh else 0.0,
            ChunkAccess(part, part.size / NBYTES),
        ) as values:
            self.check(number, values, part.slices(), fresh=fresh)

    @rule(number=CHUNKS)
    def peek(self, number: int) -> None:
        values = self.cache.peek((A, (number,)), 0.0, 0.01)
        if values is not None:
            self.check(number, values, (), fresh=False)

    @rule(number=CHUNKS, fresh=st.booleans())
    def start(self, number: int, fresh: bool) -> None:
        load = ChunkLoad((A, (number,)))
        if self.cache.start_load(load, NBYTES, self.seconds if fresh else 0.0):
            assert self.cache.begin_load(load)
            known = self.cache.known(load.chunk_id)
            self.ahead[number] = load, self.load(number, known), known

    @precondition(lambda self: self.ahead)
    @rule()
    def finish(self) -> None:
        """Until then, who asks for nothing fresh may be shown what was there before."""
        number, (load, loaded, known) = self.ahead.popitem()
        self.cache.finish_load(load, loaded, known)
        self.oldest[number] = max(self.oldest[number], int(loaded.version or 0))

    @precondition(lambda self: len(self.ahead) < 2)
    @rule(number=CHUNKS, fresh=st.booleans())
    def keep(self, number: int, fresh: bool) -> None:
        if number in self.ahead:
            return
        while self.tasks:
            self.tasks.pop()()
        chunk_id: ChunkId = (A, (number,))
        fresh_since = self.seconds if fresh else 0.0
        keeping = Keeping(self.cache.limit_bytes)
        self.cache.keep(
            chunk_id, lambda known: self.load_now(number, known), NBYTES, fresh_since, keeping
        )
        assert keeping.held.disk_bytes >= NBYTES
        slot = self.tier.find(chunk_id)
        assert slot is not None
        assert slot.checked_at >= fresh_since

    @rule(number=CHUNKS)
    def change_by_somebody_else(self, number: int) -> None:
        self.stored[number] += 1
        self.seconds += 1

    @rule(number=CHUNKS, is_put=st.booleans())
    def change_by_us(self, number: int, is_put: bool) -> None:
        self.stored[number] += 1
        if is_put:
            self.cache.put((A, (number,)), chunk(number, self.stored[number]))
        else:
            self.cache.drop((A, (number,)))
        self.oldest[number] = self.stored[number]

    @rule()
    def wait(self) -> None:
        self.seconds += 1

    @rule()
    def discard(self) -> None:
        self.cache.discard(A)

    @precondition(lambda self: self.tasks)
    @rule()
    def write(self) -> None:
        self.tasks.pop()()

    @invariant()
    def the_budgets_hold(self) -> None:
        assert self.cache.used_bytes <= self.cache.limit_bytes
        assert self.cache.disk_bytes <= 6 * NBYTES


TestChunkCache = ChunkCacheMachine.TestCase
TestChunkCache.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
