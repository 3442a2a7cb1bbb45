"""The disk tier of the chunk cache: what goes there, what comes back, and what may go wrong."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs import metrics
from nczfs.buffers import Values
from nczfs.engine.chunks.cache import ENTRY_BYTES, ChunkCache
from nczfs.engine.chunks.chunkaccess import WHOLE, ChunkAccess
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.chunks.loaded import ChunkId, Footprint, LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.spill import Spilled, SpillTier, spill_tier
from nczfs.engine.chunks.spillfile import BLOCK_BYTES, SpillFile, default_directory
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.model.boxes import Box, whole
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings

A, B = StoredArray(MemoryZMap(), ArrayPlace(ROOT)), StoredArray(MemoryZMap(), ArrayPlace(ROOT))
SHAPE = (64, 64)
NBYTES = 64 * 64 * 4
IN_MEMORY = 4
ROOM = IN_MEMORY * (NBYTES + ENTRY_BYTES)
POINT = ChunkAccess(Box((3, 5), (4, 6)), 1 / 4096)


def at_once(task: Callable[[], None]) -> None:
    task()


def never(task: Callable[[], None]) -> None:
    """A disk that hangs."""


class Store:
    """Chunks whose values tell which they are, and what has been asked of them."""

    def __init__(self) -> None:
        self.version = "v1"
        self.loads: list[int] = []
        self.confirmed: list[int] = []

    def values(self, number: int) -> Values:
        values = np.arange(64 * 64, dtype="f4").reshape(SHAPE)
        return values + np.float32(10_000 * number + 1_000_000 * int(self.version[1:]))

    def loader(self, number: int) -> Callable[[LoadedChunk | None], LoadedChunk]:
        def load(known: LoadedChunk | None) -> LoadedChunk:
            if known is not None and known.version == self.version:
                self.confirmed.append(number)
                return known
            self.loads.append(number)
            return LoadedChunk(self.values(number), NBYTES, Version(self.version))

        return load


class Reader:
    """Reads from a cache with a tier, and compares with what the store holds."""

    def __init__(self, tier: SpillTier) -> None:
        self.store = Store()
        self.tier = tier
        self.seconds = 0.0
        self.cache = ChunkCache(ROOM + tier.queue_bytes, clock=lambda: self.seconds, tier=tier)

    def point(self, number: int, fresh_since: float = 0.0) -> None:
        chunk_id = (A, (number,))
        with self.cache.pinned(
            chunk_id, self.store.loader(number), NBYTES, fresh_since, POINT
        ) as values:
            assert values[3, 5] == self.store.values(number)[3, 5]

    def chunk(self, number: int) -> None:
        with self.cache.pinned((A, (number,)), self.store.loader(number), NBYTES, 0.0) as values:
            np.testing.assert_array_equal(values, self.store.values(number))

    def spill(self, *numbers: int) -> None:
        """Have chunks on the disk and not in memory."""
        for number in numbers:
            self.point(number)
        for number in range(1000, 1000 + 2 * IN_MEMORY):
            self.chunk(number)
        assert all(self.is_spilled(number) for number in numbers)
        self.store.loads.clear()

    def is_spilled(self, number: int) -> bool:
        chunk_id = (A, (number,))
        return (
            self.cache.peek(chunk_id, 0.0, 0.0) is None and self.cache.known(chunk_id) is not None
        )


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[SpillTier]:
    tier = SpillTier(at_once, 2 * NBYTES, str(tmp_path), 1 << 30)
    yield tier
    tier.close()


@pytest.fixture
def reader(tier: SpillTier) -> Reader:
    return Reader(tier)


def test_reading_across_the_grain_loads_each_chunk_once(reader: Reader) -> None:
    for _ in range(5):
        for number in range(50):
            reader.point(number)
    assert sorted(reader.store.loads) == list(range(50))


def test_reading_in_order_writes_nothing(reader: Reader) -> None:
    for number in range(50):
        reader.chunk(number)
    assert reader.cache.disk_bytes == 0


def test_chunks_that_are_read_whole_again_and_again_are_loaded_twice(reader: Reader) -> None:
    for _ in range(5):
        for number in range(50):
            reader.chunk(number)
    assert len(reader.store.loads) <= 2 * 50 + IN_MEMORY


def test_a_chunk_that_is_read_in_parts_until_all_was_seen_is_not_written(reader: Reader) -> None:
    for number in range(50):
        for _ in range(4):
            chunk_id = (A, (number,))
            with reader.cache.pinned(
                chunk_id, reader.store.loader(number), NBYTES, 0.0, ChunkAccess(POINT.part, 0.25)
            ):
                pass
    assert reader.cache.disk_bytes == 0


def test_a_chunk_of_which_much_is_read_comes_back_to_memory(reader: Reader) -> None:
    reader.spill(0)
    reader.chunk(0)
    assert reader.cache.peek((A, (0,)), 0.0) is not None
    assert reader.store.loads == []


@given(data=st.data())
def test_a_part_that_is_read_back_is_what_was_written(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(), (70_000,), (50, 1, 700), (3, 100, 100)]))
    dtype = data.draw(st.sampled_from(["f4", ">i2", "S3", "M8[s]", "?", "u1,f8"]))
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 2, (*shape, np.dtype(dtype).itemsize), np.uint8)
    values = raw.view(dtype).reshape(shape)
    if data.draw(st.booleans()):
        values = np.array(values, order="F")
    start = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    stop = tuple(data.draw(st.integers(a + 1, n)) for a, n in zip(start, shape, strict=True))
    tier = SpillTier(at_once, 1 << 20, None, 1 << 24)
    tier.offer((A, (0,)), LoadedChunk(values, values.nbytes, Version("v")), 0.0, share_read=0.0)
    tier.flush()
    slot = tier.find((A, (0,)))
    assert slot is not None
    for part in (Box(start, stop), whole(shape), None):
        found = tier.read(slot, part)
        assert found is not None
        assert found.dtype == values.dtype
        where = (part or whole(shape)).slices()
        np.testing.assert_array_equal(found[where], values[where])
    tier.close()


def test_the_bound_holds_and_the_oldest_go_first(tmp_path: Path) -> None:
    limit = 40 * NBYTES
    reader = Reader(SpillTier(at_once, NBYTES, str(tmp_path), limit))
    for number in range(200):
        reader.point(number)
        assert reader.cache.disk_bytes <= limit
    kept = [number for number in range(200) if reader.is_spilled(number)]
    assert len(kept) >= 20
    assert kept == list(range(kept[0], 200 - IN_MEMORY))
    for number in range(200):
        reader.point(number)


def test_so_many_chunks_are_kept_and_no_more(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes some memory for the books, however small it is."""
    monkeypatch.setattr("nczfs.engine.chunks.spill.SLOTS_MAX", 10)
    for number in range(50):
        reader.point(number)
    kept = [number for number in range(50) if reader.is_spilled(number)]
    assert kept == list(range(50 - IN_MEMORY - 10, 50 - IN_MEMORY))


def test_a_chunk_larger_than_the_tier_is_read_and_not_kept(tmp_path: Path) -> None:
    reader = Reader(SpillTier(at_once, NBYTES, str(tmp_path), NBYTES - 1))
    for number in [*range(20), *range(20)]:
        reader.point(number)
    assert reader.cache.disk_bytes == 0


def test_a_chunk_larger_than_the_memory_is_kept_on_the_disk(tier: SpillTier) -> None:
    reader = Reader(tier)
    reader.cache = ChunkCache(NBYTES // 2, tier=tier)
    for _ in range(3):
        reader.point(0)
    assert reader.store.loads == [0]


@pytest.mark.parametrize(
    "chunk",
    [
        LoadedChunk(np.array(["some", "text"] * 100, object), 20_000, Version("v")),
        LoadedChunk(np.broadcast_to(np.float32(1), SHAPE), 0, None),
    ],
    ids=["objects", "fill"],
)
def test_what_has_no_bytes_of_its_own_is_not_written(tier: SpillTier, chunk: LoadedChunk) -> None:
    tier.offer((A, (0,)), chunk, 0.0, share_read=0.0)
    assert tier.find((A, (0,))) is None


def test_a_spilled_chunk_that_did_not_change_is_confirmed_and_not_loaded(reader: Reader) -> None:
    reader.spill(0)
    reader.seconds = 10.0
    reader.point(0, fresh_since=5.0)
    assert reader.store.confirmed == [0]
    reader.point(0, fresh_since=9.0)
    assert reader.store.confirmed == [0]
    assert reader.store.loads == []


def test_a_spilled_chunk_that_changed_is_loaded_anew(reader: Reader) -> None:
    reader.spill(0)
    reader.seconds, reader.store.version = 10.0, "v2"
    reader.point(0, fresh_since=5.0)
    assert reader.store.loads == [0]
    for number in range(1000, 1000 + 4 * IN_MEMORY):
        with reader.cache.pinned((A, (number,)), reader.store.loader(number), NBYTES, 0.0):
            pass
    reader.point(0)


def test_reading_ahead_confirms_what_is_spilled(reader: Reader) -> None:
    reader.spill(0)
    chunk_id: ChunkId = (A, (0,))
    load = ChunkLoad(chunk_id)
    assert not reader.cache.start_load(load, NBYTES, 0.0)
    reader.seconds = 10.0
    assert reader.cache.start_load(load, NBYTES, 5.0)
    known = reader.cache.known(chunk_id)
    loaded = reader.store.loader(0)(known)
    reader.cache.finish_load(load, loaded, known)
    reader.point(0, fresh_since=9.0)
    assert reader.store.confirmed == [0]


def test_the_values_of_a_spilled_chunk_can_be_looked_at_before_it_is_loaded(
    reader: Reader,
) -> None:
    reader.spill(0)
    known = reader.cache.known((A, (0,)))
    assert known is not None
    np.testing.assert_array_equal(known.values, reader.store.values(0))


def test_a_dropped_chunk_is_loaded_anew(reader: Reader) -> None:
    reader.spill(0, 1)
    reader.store.version = "v2"
    reader.cache.drop((A, (0,)))
    reader.point(0)
    assert reader.store.loads == [0]
    assert reader.is_spilled(1)


def test_a_chunk_that_is_put_takes_the_place_of_a_spilled_one(reader: Reader) -> None:
    reader.spill(0)
    reader.store.version = "v2"
    reader.cache.put((A, (0,)), LoadedChunk(reader.store.values(0), NBYTES, Version("v2")))
    reader.point(0)
    assert reader.store.loads == []
    reader.spill(1)
    assert not reader.is_spilled(0)


def test_what_was_written_by_us_and_not_read_is_not_spilled(reader: Reader) -> None:
    for number in range(50):
        reader.cache.put(
            (A, (number,)), LoadedChunk(reader.store.values(number), NBYTES, Version("v1"))
        )
    assert reader.cache.disk_bytes == 0


def test_a_chunk_dropped_while_it_waits_for_the_disk_is_not_written(tmp_path: Path) -> None:
    tasks: list[Callable[[], None]] = []
    reader = Reader(SpillTier(tasks.append, 20 * NBYTES, str(tmp_path), 1 << 30))
    reader.spill(0, 1)
    reader.store.version = "v2"
    reader.cache.drop((A, (0,)))
    tasks.pop()()
    reader.point(0)
    assert reader.store.loads == [0]
    assert reader.is_spilled(1)


def test_a_chunk_that_waits_for_the_disk_is_found_in_memory(tmp_path: Path) -> None:
    reader = Reader(SpillTier(never, 20 * NBYTES, str(tmp_path), 1 << 30))
    reader.spill(0)
    reader.point(0)
    reader.chunk(0)
    assert reader.store.loads == []
    assert reader.cache.used_bytes <= reader.cache.limit_bytes


def test_an_interrupt_does_not_stop_the_disk(tmp_path: Path) -> None:
    """Nothing was written any more, and what is to be kept waited for that for ever."""
    tasks: list[Callable[[], None]] = []
    interrupts = [KeyboardInterrupt()]

    def submit(task: Callable[[], None]) -> None:
        if interrupts:
            raise interrupts.pop()
        tasks.append(task)

    reader = Reader(SpillTier(submit, 64 * NBYTES, str(tmp_path), 1 << 30))

    def read() -> None:
        for number in range(2 * IN_MEMORY):
            reader.point(number)

    with pytest.raises(KeyboardInterrupt):
        read()
    read()
    assert tasks


def test_without_a_thread_chunks_are_dropped_until_there_is_one_again(tmp_path: Path) -> None:
    """A process that could start no thread for a moment had no disk tier for the rest of its life.

    A thread pool queues the task that it refuses.
    """
    refused: list[Callable[[], None]] = []
    tasks: list[Callable[[], None]] = []

    def refuse(task: Callable[[], None]) -> None:
        refused.append(task)
        raise RuntimeError("can't start new thread")

    submit: list[Callable[[Callable[[], None]], None]] = [refuse]
    tier = SpillTier(lambda task: submit[0](task), 2 * NBYTES, str(tmp_path), 1 << 30)
    reader = Reader(tier)
    keeping = Keeping(reader.cache.limit_bytes)
    for number in range(3):  # more than may wait for the disk
        chunk_id = (A, (number,))
        reader.cache.keep(chunk_id, reader.store.loader(number), NBYTES, 0.0, keeping)
        assert tier.find(chunk_id) is None
    assert tier.waiting_bytes == 0
    assert keeping.held.chunks == 3
    submit[0] = tasks.append
    chunk_id = (A, (3,))
    reader.cache.keep(chunk_id, reader.store.loader(3), NBYTES, 0.0, keeping)
    for task in [*refused, *tasks]:
        task()
    reader.cache.settle(keeping)
    assert reader.cache.disk_bytes > 0
    reader.store.loads.clear()
    reader.chunk(3)
    assert reader.store.loads == []
    tier.close()


def test_a_disk_that_hangs_stops_nobody(tmp_path: Path) -> None:
    reader = Reader(SpillTier(never, 2 * NBYTES, str(tmp_path), 1 << 30))
    for _ in range(2):
        for number in range(2 * IN_MEMORY + 4):
            reader.point(number)
    assert reader.cache.start_load(ChunkLoad((A, (99,))), NBYTES, 0.0)
    assert reader.cache.used_bytes <= reader.cache.limit_bytes


def test_nothing_is_read_ahead_while_the_disk_does_not_keep_up(tmp_path: Path) -> None:
    tasks: list[Callable[[], None]] = []
    reader = Reader(SpillTier(tasks.append, 3 * NBYTES, str(tmp_path), 1 << 30))
    for number in range(IN_MEMORY + 2):
        reader.point(number)
    assert not reader.cache.start_load(ChunkLoad((A, (99,))), NBYTES, 0.0)
    tasks.pop()()
    assert reader.cache.start_load(ChunkLoad((A, (99,))), NBYTES, 0.0)


def test_what_is_kept_is_on_the_disk_and_counted(reader: Reader) -> None:
    keeping = Keeping(ROOM)
    for number in range(3 * IN_MEMORY):
        chunk_id = (A, (number,))
        reader.cache.keep(chunk_id, reader.store.loader(number), NBYTES, 0.0, keeping)
    reader.cache.settle(keeping)
    assert keeping.held == Footprint(3 * IN_MEMORY, 0, 3 * IN_MEMORY * NBYTES)
    assert not keeping.is_full
    again = Keeping(ROOM)
    reader.cache.keep((A, (0,)), reader.store.loader(0), NBYTES, 0.0, again)
    assert again.held == Footprint(1, 0, NBYTES)
    for number in range(3 * IN_MEMORY):
        assert reader.cache.holds((A, (number,)))
        reader.chunk(number)
    assert reader.store.loads == [*range(3 * IN_MEMORY)]
    freed = reader.cache.discard(A)
    assert (freed.chunks, freed.disk_bytes) == (3 * IN_MEMORY, 3 * IN_MEMORY * NBYTES)


def test_a_chunk_that_was_confirmed_is_kept_without_reading_it_back(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.spill(0)
    reader.seconds = 100.0
    read: list[int] = []
    preadv = os.preadv

    def counted(fd: int, buffers: list[memoryview], offset: int) -> int:
        read.append(sum(buffer.nbytes for buffer in buffers))
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", counted)
    reader.cache.keep((A, (0,)), reader.store.loader(0), NBYTES, 50.0, Keeping(ROOM))
    assert (reader.store.confirmed, reader.store.loads) == ([0], [])
    assert sum(read) <= BLOCK_BYTES


def test_a_chunk_that_another_keeps_meanwhile_is_kept_without_reading_it_back(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = reader.cache.pinned

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        reader.spill(0)
        return pinned(*arguments)

    monkeypatch.setattr(reader.cache, "pinned", overtaken)
    keeping = Keeping(ROOM)
    reader.cache.keep((A, (0,)), reader.store.loader(0), NBYTES, 0.0, keeping)
    assert keeping.held == Footprint(1, 0, NBYTES)
    assert reader.is_spilled(0)


def test_what_has_no_place_in_memory_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Callable[[], None]] = []
    tier = SpillTier(tasks.append, NBYTES, str(tmp_path), 1 << 30)
    reader = Reader(tier)
    wait_for_room = tier.wait_for_room

    def wait(nbytes: int) -> None:
        while tasks:
            tasks.pop()()
        wait_for_room(nbytes)

    keeping = Keeping(ROOM)
    with ExitStack() as stack:
        for number in range(100, 100 + IN_MEMORY):
            pinned = reader.cache.pinned((A, (number,)), reader.store.loader(number), NBYTES, 0.0)
            stack.enter_context(pinned)
        reader.point(0)
        assert tier.waiting_bytes == NBYTES
        monkeypatch.setattr(tier, "wait_for_room", wait)
        reader.cache.keep((A, (1,)), reader.store.loader(1), NBYTES, 0.0, keeping)
    assert keeping.held == Footprint(1, 0, NBYTES)
    assert reader.store.loads.count(1) == 1


def test_what_is_kept_stays_on_the_disk_when_it_is_confirmed(reader: Reader) -> None:
    """Also if it is in memory no more when the store has answered."""
    chunk_id: ChunkId = (A, (0,))
    reader.cache.keep(chunk_id, reader.store.loader(0), NBYTES, 0.0, Keeping(ROOM))
    slot = reader.tier.find(chunk_id)
    assert slot is not None
    reader.seconds = 10.0

    def load_last(known: LoadedChunk | None) -> LoadedChunk:
        assert not isinstance(known, Spilled)
        for number in range(1000, 1000 + 2 * IN_MEMORY):
            reader.chunk(number)
        assert reader.is_spilled(0)
        return reader.store.loader(0)(known)

    reader.cache.keep(chunk_id, load_last, NBYTES, 5.0, Keeping(ROOM))
    assert reader.tier.find(chunk_id) is slot
    assert reader.store.confirmed == [0]

    reader.seconds = 20.0
    load = ChunkLoad(chunk_id)
    assert reader.cache.start_load(load, NBYTES, 15.0)
    known = reader.cache.known(chunk_id)
    reader.cache.finish_load(load, load_last(known), known)
    assert reader.tier.find(chunk_id) is slot
    reader.point(0, fresh_since=15.0)
    assert reader.store.loads.count(0) == 1


def test_without_a_disk_memory_keeps_what_it_can(tmp_path: Path) -> None:
    reader = Reader(SpillTier(at_once, NBYTES, str(tmp_path), 0))
    keeping = Keeping(reader.cache.limit_bytes)
    count = 0
    while not keeping.is_full:
        chunk_id = (A, (count,))
        reader.cache.keep(chunk_id, reader.store.loader(count), NBYTES, 0.0, keeping)
        count += 1
    assert count == IN_MEMORY + 1


def test_more_than_the_disk_takes_ends_when_the_first_is_gone(tmp_path: Path) -> None:
    reader = Reader(SpillTier(at_once, NBYTES, str(tmp_path), 64 * NBYTES))
    keeping = Keeping(ROOM)
    count = 0
    while not keeping.is_full:
        chunk_id = (A, (count,))
        reader.cache.keep(chunk_id, reader.store.loader(count), NBYTES, 0.0, keeping)
        count += 1
    assert 56 < count <= 66
    assert sum(reader.cache.holds((A, (number,))) for number in range(count)) >= count - 5


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_chunk_that_is_not_there_any_more_shows_no_lack_of_room(
    tmp_path: Path, is_changed: bool
) -> None:
    """SEMANTICS N9."""
    reader = Reader(SpillTier(at_once, NBYTES, str(tmp_path), 64 * NBYTES))
    keeping = Keeping(ROOM)

    def keep(number: int, fresh_since: float, keeping: Keeping) -> None:
        load = reader.store.loader(number)
        reader.cache.keep((A, (number,)), load, NBYTES, fresh_since, keeping)

    keep(0, 0.0, keeping)
    if is_changed:
        reader.seconds, reader.store.version = 100.0, "v2"
        keep(0, 50.0, Keeping(ROOM))
    else:
        reader.cache.drop((A, (0,)))
    for number in range(1, 50):
        keep(number, 0.0, keeping)
        assert not keeping.is_full
    while not keeping.is_full:
        number += 1
        keep(number, 0.0, keeping)
    assert 56 < number <= 68
    assert sum(reader.cache.holds((A, (each,))) for each in range(1, number)) >= number - 6


def test_what_is_written_replaces_what_is_on_the_disk_whatever_its_version(reader: Reader) -> None:
    chunk_id = (A, (0,))
    reader.spill(0)
    written = LoadedChunk(np.zeros(SHAPE, "f4"), NBYTES, Version(reader.store.version))
    reader.cache.put(chunk_id, written)
    for number in range(1000, 1000 + 2 * IN_MEMORY):
        reader.chunk(number)
    known = reader.cache.known(chunk_id)
    assert known is None or not known.values.any()


@pytest.mark.parametrize("is_last", [True, False])
def test_who_waits_for_a_chunk_that_is_forgotten_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_last: bool
) -> None:
    tasks: list[Callable[[], None]] = []
    tier = SpillTier(tasks.append, NBYTES, str(tmp_path), 1 << 30)
    reader, keeping, waits = Reader(tier), Keeping(ROOM), threading.Event()
    reader.cache.keep((A, (0,)), reader.store.loader(0), NBYTES, 0.0, keeping)
    wait = tier._written.wait

    def waiting(timeout: float | None = None) -> bool:
        waits.set()  # with the lock, which is only given back by what follows
        return wait(timeout)

    monkeypatch.setattr(tier._written, "wait", waiting)

    def go_on() -> None:
        if is_last:
            reader.cache.settle(keeping)
        else:
            tier.wait_for_room(NBYTES)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(go_on)
        waits.wait()
        reader.cache.drop((A, (0,)))
        tasks.pop()()
        try:
            ended.result(timeout=60)
        finally:
            tier.close()


def test_a_chunk_that_was_never_written_is_kept_without_any_bytes(reader: Reader) -> None:
    def load(known: LoadedChunk | None) -> LoadedChunk:
        reader.store.loads.append(0)
        return LoadedChunk(np.broadcast_to(np.float32(3), SHAPE), 0, None)

    keeping, chunk_id = Keeping(ROOM), (A, (0,))
    reader.cache.keep(chunk_id, load, NBYTES, 0.0, keeping)
    for number in range(1000, 1000 + 2 * IN_MEMORY):
        reader.chunk(number)
    reader.cache.settle(keeping)
    assert keeping.held == Footprint(1, 0, 0)
    assert reader.cache.disk_bytes == 0
    assert reader.is_spilled(0)
    for access in (POINT, WHOLE):
        with reader.cache.pinned(chunk_id, load, NBYTES, 0.0, access) as values:
            assert (values == 3).all()
    assert reader.store.loads.count(0) == 1


def test_a_discarded_array_leaves_the_disk_and_others_stay(reader: Reader) -> None:
    other: ChunkId = (B, (0,))
    with reader.cache.pinned(other, reader.store.loader(7), NBYTES, 0.0, POINT):
        pass
    reader.spill(0)
    reader.cache.discard(A)
    assert reader.cache.known((A, (0,))) is None
    assert reader.cache.known(other) is not None


def test_room_of_what_was_discarded_is_used_again(tmp_path: Path) -> None:
    limit = 32 * NBYTES
    reader = Reader(SpillTier(at_once, NBYTES, str(tmp_path), limit))
    for number in range(16):
        reader.point(number)
    reader.cache.discard(A)
    for number in range(16, 32):
        reader.point(number)
    assert reader.cache.disk_bytes <= 18 * NBYTES


def test_what_is_given_back_becomes_a_hole_and_the_rest_is_read(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path), 1 << 24)
    data = [memoryview(np.random.default_rng(n).bytes(100_000)) for n in range(4)]
    places = [file.append(each) for each in data]
    segment = places[0].segment
    before = os.fstat(segment.file.fileno()).st_blocks
    for number in (0, 2):
        file.release(places[number])
    file.give_back()
    assert file.used_bytes == segment.size - 2 * 102_400
    assert before - os.fstat(segment.file.fileno()).st_blocks == 2 * 102_400 // 512
    out = memoryview(bytearray(100_000))
    for number in (1, 3):
        assert file.read(places[number], out, 0, 100_000)
        assert out == data[number]
        file.release(places[number])
    file.give_back()
    assert file.used_bytes == os.fstat(segment.file.fileno()).st_blocks == 0
    file.close()


def test_holes_are_room_for_other_chunks(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path), 1 << 20)
    kept = [file.append(memoryview(bytes(65_536)))]
    for _ in range(100):
        file.make_room(65_536)
        file.release(file.append(memoryview(bytes(65_536))))
        assert file.used_bytes <= 1 << 20
    assert not kept[0].segment.is_gone
    file.close()


@pytest.mark.parametrize("call", ["pwrite", "posix_fallocate"])
def test_a_full_disk_turns_the_tier_off_and_readers_do_not_see_it(
    reader: Reader,
    call: str,
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    reader.spill(0)
    reader.tier.close()
    reader = Reader(SpillTier(at_once, 2 * NBYTES, None, 1 << 30))
    monkeypatch.setattr(os, call, full)
    expected_warnings.add("no longer cached on this disk: .*No space left")
    for number in [*range(20), *range(20)]:
        reader.point(number)
    assert len([r for r in caplog.records if "No space left" in r.message]) == 1


def test_a_directory_that_is_not_there_turns_the_tier_off(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    reader = Reader(SpillTier(at_once, 2 * NBYTES, str(tmp_path / "absent"), None))
    expected_warnings.add("absent: chunks are no longer cached on this disk")
    for number in [*range(20), *range(20)]:
        reader.point(number)


def test_bytes_that_changed_on_the_disk_are_never_shown(
    reader: Reader, expected_warnings: ExpectedWarnings
) -> None:
    reader.spill(0)
    slot = reader.tier.find((A, (0,)))
    assert slot is not None
    assert slot.place is not None
    fd = slot.place.segment.file.fileno()
    os.pwrite(fd, b"\xff" * 4096, slot.place.offset)
    expected_warnings.add("read back differs from the one written")
    reader.point(0)
    assert reader.store.loads == [0]


def test_a_disk_that_cannot_be_read_is_done_without(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    def broken(*_arguments: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    reader.spill(0, 1)
    monkeypatch.setattr(os, "preadv", broken)
    expected_warnings.add("no longer cached on this disk: .*Input/output error")
    reader.point(0)
    reader.chunk(1)
    assert reader.store.loads == [0, 1]


def test_a_small_part_reads_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    preadv = os.preadv

    def counted(fd: int, buffers: list[memoryview], offset: int) -> int:
        read.append(sum(buffer.nbytes for buffer in buffers))
        return preadv(fd, buffers, offset)

    file = SpillFile(str(tmp_path), 1 << 24)
    data = memoryview(np.random.default_rng(1).bytes(1 << 20))
    place = file.append(data)
    monkeypatch.setattr(os, "preadv", counted)
    out = memoryview(bytearray(1 << 20))
    assert file.read(place, out, 500_000, 500_004)
    assert out[500_000:500_004] == data[500_000:500_004]
    assert read == [BLOCK_BYTES]
    file.close()


def files_open_in(directory: Path) -> int:
    links = [Path("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    return sum(str(directory) in os.readlink(link) for link in links if link.is_symlink())


def test_closing_gives_everything_back(reader: Reader, tmp_path: Path) -> None:
    reader.spill(*range(10))
    slot = reader.tier.find((A, (0,)))
    assert slot is not None
    assert files_open_in(tmp_path) == 1
    reader.cache.close()
    assert reader.tier.read(slot) is None
    assert reader.cache.disk_bytes == 0
    assert files_open_in(tmp_path) == 0
    assert os.listdir(tmp_path) == []


KILLED = """
import os, sys
import numpy as np
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.spill import SpillTier
tier = SpillTier(lambda task: task(), 1 << 20, sys.argv[1], 1 << 30)
tier.offer((1, (0,)), LoadedChunk(np.ones(100_000), 800_000, "v"), 0.0, share_read=0.0)
tier.flush()
print(tier.used_bytes, flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_no_file(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) >= 800_000
        process.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == []


FORKED = """
import os, sys
import numpy as np
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.spill import SpillTier
tier = SpillTier(lambda task: task(), 1 << 20, sys.argv[1], 1 << 30)

def offer(number):
    chunk = LoadedChunk(np.full(100_000, number), 800_000, "v")
    tier.offer((1, (number,)), chunk, 0.0, share_read=0.0)
    tier.flush()

def holds(number):
    slot = tier.find((1, (number,)))
    return slot is not None and (tier.read(slot) == number).all()

offer(1)
child = os.fork()
if not child:
    was_empty = not holds(1)
    offer(2)
    os._exit(0 if was_empty and holds(2) else 1)
status = os.waitpid(child, 0)[1]
offer(3)
sys.exit(0 if status == 0 and holds(1) and holds(3) and not holds(2) else 1)
"""


def test_a_forked_process_has_files_of_its_own(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], check=True)


def test_the_tier_of_an_engine_takes_nothing_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert default_directory() == str(tmp_path)
    options = EngineOptions(memory_limit_bytes=ROOM)
    pools = Pools(options)
    tier = spill_tier(options, pools)
    assert files_open_in(tmp_path) == 0
    spilled = metrics.value("nczfs_spilled_chunks_total")
    reader = Reader(tier)
    reader.spill(0)
    reader.cache.close()
    pools.close()
    assert metrics.value("nczfs_spilled_chunks_total") == spilled + 1


def test_no_tier_is_made_where_none_is_wanted() -> None:
    options = EngineOptions(memory_limit_bytes=ROOM, cache_bytes_max=0)
    reader = Reader(spill_tier(options, Pools(options)))
    assert reader.tier.queue_bytes == 0
    for number in [*range(20), *range(20)]:
        reader.point(number)
    assert reader.cache.disk_bytes == 0
    assert len(reader.store.loads) == 40


def test_a_writer_that_is_late_makes_no_file_that_nobody_closes(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path), 1 << 20)
    file.close()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="closed"):
        file.append(memoryview(b"late"))
    assert os.listdir("/proc/self/fd") == before
