"""Write-back with a spool: what the store does not take stays, and is not in memory for long."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.dirty import DirtyChunk
from nczfs.engine.loaded import ChunkId
from nczfs.engine.metadata import MetadataCache
from nczfs.engine.opening import open_zmap
from nczfs.engine.options import EngineOptions, Tally, format_options
from nczfs.engine.spool import recovery
from nczfs.engine.spool.space import Spool
from nczfs.engine.writeback import WriteBack
from nczfs.errors import (
    AccessDenied,
    DeadlinePassed,
    NoSpace,
    StoreError,
    Unavailable,
)
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url

CHUNK, CHUNKS, FILL = 64, 40, -1
LENGTH = CHUNK * CHUNKS
CHUNK_BYTES = 4 * CHUNK
WRITES = frozenset({"write"})
DOWN = Fault(0, operations=WRITES, repeats=10**9)
HANGS = Fault(0, DeadlinePassed, operations=WRITES, repeats=10**9)
REFUSED = Fault(0, AccessDenied, operations=WRITES, repeats=10**9)
ROOMY, TIGHT = 1 << 20, 8 * 512  # the half of it holds some four chunks


class Mount:
    """An engine with a spool, as a mount has it, and the variable ``v``."""

    def __init__(
        self,
        memory: MemoryZMap,
        spool_dir: Path,
        budget: int = ROOMY,
        spool_bytes: int | None = None,
        age_s: float | None = None,
        name: str = "v",
        threads: int = 3,
    ) -> None:
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.zmap = Faulty(memory, before_call=lambda *call: self.before(*call))
        self.spool = Spool(spool_dir, "memory://store", spool_bytes)
        options = EngineOptions(
            memory_limit_bytes=budget,
            cache_bytes_max=0,
            fetch_threads=threads,
            decode_threads=2,
            flush_age_s=age_s,
        )
        self.engine = Engine(options, self.spool)
        metadata = MetadataCache(self.zmap, options, self.engine.pools)
        dataset = open_dataset(
            self.engine, metadata, ROOT, format_options(frozenset(), options), writable=True
        )
        assert isinstance(dataset, Dataset)
        node = dataset.node(name)
        assert isinstance(node, Variable)
        self.v: Array = dataset.array(node)

    @property
    def writeback(self) -> WriteBack:
        return self.engine.writeback

    def write(self, first: int, *values: Any) -> None:
        dtype = self.v.description.dtype.native
        self.v.write_box(Box((first,), (first + len(values),)), np.array(values, dtype))

    def read(self, start: int = 0, stop: int | None = None) -> list[Any]:
        box = Box((start,), (self.v.description.shape[0] if stop is None else stop,))
        out = np.empty(box.shape, self.v.description.dtype.native)
        self.v.read_box(box, out, Tally())
        found: list[Any] = out.tolist()
        return found

    def chunk(self, index: int) -> DirtyChunk | None:
        return self.writeback.find((self.v.number, (index,)))

    def entries(self) -> list[recovery.Found]:
        return recovery.entries(self.spool.directory.parent)

    def close(self) -> None:
        self.engine.close()
        self.spool.close()


@pytest.fixture
def memory() -> MemoryZMap:
    memory = MemoryZMap()
    with open_zmap(memory, "w", format="zarr2") as dataset:
        options: dict[str, Any] = {"chunks": (CHUNK,), "codecs": []}
        dataset.create_variable("v", (LENGTH,), "i4", fillvalue=FILL, **options)
        dataset.create_variable("tiny", (LENGTH,), "i1", fillvalue=FILL, **options)
        dataset.create_variable("text", (LENGTH,), str, fillvalue=None, chunks=(CHUNK,))
    return memory


@contextmanager
def mounted(memory: MemoryZMap, directory: Path, **options: Any) -> Iterator[Mount]:
    mount = Mount(memory, directory, **options)
    try:
        yield mount
    finally:
        mount.zmap.arm()
        mount.writeback.flush()
        assert mount.writeback.dirty_bytes == 0
        assert mount.writeback.unsaved == 0
        assert mount.spool.bytes_used == 0
        mount.close()
        assert os.listdir(directory) == []


def stored(memory: MemoryZMap, name: str = "v") -> list[Any]:
    with open_zmap(memory) as dataset:
        found: list[Any] = dataset.variables[name][...].tolist()
        return found


def recover(memory: MemoryZMap, directory: Path) -> None:
    """What ``nczfs recover`` does, in the order in which it does it."""
    store = recovery.Store(Kept(memory), parse_url("memory://store"))
    for found in recovery.entries(directory):
        store.put_back(found)
        recovery.remove(found)
    store.close()


class Kept(Faulty):
    """A store that outlives those who close it."""

    def close(self) -> None:
        return


# What the store does not take now


@pytest.mark.parametrize("fault", [DOWN, HANGS])
def test_what_a_store_that_is_away_did_not_take_is_not_spooled_while_there_is_room(
    memory: MemoryZMap, tmp_path: Path, fault: Fault
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(fault)
        mount.write(3, 7)
        with pytest.raises(fault.error):
            mount.writeback.flush()
        assert mount.read(3, 4) == [7]
        assert os.listdir(tmp_path) == []
    assert stored(memory)[3] == 7


def test_what_has_no_room_goes_to_the_spool_and_stays_readable_and_writable(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT) as mount:
        mount.zmap.arm(DOWN)
        expected = [FILL] * LENGTH
        for turn in (1, 2):
            for position in range(0, LENGTH, CHUNK // 2):
                if position % CHUNK == 0 or turn == 2:
                    mount.write(position, position + turn)
                    expected[position] = position + turn
                assert mount.writeback.dirty_bytes <= TIGHT // 2
            assert mount.read() == expected
        assert mount.spool.bytes_used >= (CHUNKS - 5) * CHUNK_BYTES
        assert mount.writeback.unsaved == CHUNKS
    assert stored(memory) == expected


def test_the_flags_of_scattered_writes_are_let_go_too(memory: MemoryZMap, tmp_path: Path) -> None:
    """With elements of a byte, the flags are as large as the values."""
    with mounted(memory, tmp_path, budget=TIGHT, name="tiny") as mount:
        mount.zmap.arm(DOWN)
        box = np.arange(0, CHUNK, 2)
        expected = [FILL] * LENGTH
        for index in range(CHUNKS):
            flags = np.zeros(CHUNK, bool)
            flags[box] = True
            mount.v.write_flagged((index,), flags, np.full(CHUNK, 3, np.int8))
            for position in box:
                expected[index * CHUNK + position] = 3
            assert mount.writeback.dirty_bytes <= TIGHT // 2
        assert mount.read() == expected
    assert stored(memory, "tiny") == expected


def test_a_spooled_chunk_takes_no_memory_until_it_is_written_to(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.writeback.dirty_bytes == 0
        assert mount.read(0, 3) == [1, FILL, FILL]
        assert mount.writeback.dirty_bytes == 0, "reading needs no memory that stays"
        mount.write(1, 2)
        assert mount.writeback.dirty_bytes >= CHUNK_BYTES
        assert mount.read(0, 3) == [1, 2, FILL]


def test_a_spooled_chunk_keeps_what_others_wrote_when_it_is_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        with open_zmap(memory, "r+") as other:
            other.variables["v"][0:2] = [5, 6]
        mount.zmap.arm()
        mount.writeback.flush()
        assert stored(memory)[:3] == [1, 6, FILL]
        assert mount.read(0, 3) == [1, 6, FILL]


def test_writers_get_no_space_only_when_the_spool_is_full_and_then_nothing_more_is_taken(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT, spool_bytes=10_000) as mount:
        mount.zmap.arm(DOWN)
        taken: dict[int, int] = {}
        refused = 0
        for position in range(0, LENGTH, CHUNK):
            try:
                mount.write(position, position)
            except NoSpace:
                refused += 1
                assert mount.spool.bytes_used > 10_000 - CHUNK_BYTES - 2048
            else:
                assert not refused
                taken[position] = position
            assert mount.writeback.dirty_bytes <= TIGHT
        assert refused > 10
        assert len(taken) >= 10_000 // (CHUNK_BYTES + 1024)
        found = mount.read()
        assert {p: found[p] for p in taken} == taken
        mount.zmap.arm()
        mount.writeback.flush()
        mount.write(LENGTH - 1, 5)


def test_values_of_variable_length_stay_readable_and_there_is_an_end_to_them(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT, name="text") as mount:
        mount.zmap.arm(DOWN)
        taken = {}

        def write_all() -> None:
            for position in range(0, LENGTH, CHUNK):
                mount.write(position, f"at {position}")
                taken[position] = f"at {position}"

        with pytest.raises(NoSpace, match="variable length"):
            write_all()
        assert taken
        files = []
        for _ in range(3):
            with pytest.raises(NoSpace):
                mount.write(1, "more")
            files.append([found.path for found in mount.entries()])
        assert files[1] == files[2], "what is saved is not saved again"
        assert {p: mount.read(p, p + 1)[0] for p in taken} == taken
    found = stored(memory, "text")
    assert {p: found[p] for p in taken} == taken


# What the store refuses for good


def test_what_the_store_refuses_is_in_the_spool_before_the_caller_hears_of_it(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(3, 7)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        assert recovery.describe(found) == "memory://store v[3:4]"
        assert found.entry is not None
        assert "on purpose" in found.entry.reason
        assert found.is_owned


def test_what_was_written_after_a_refusal_is_in_the_spool_after_the_next(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        for position in (3, 5, 4):
            mount.write(position, 7)
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
        (found,) = mount.entries()
        assert recovery.describe(found) == "memory://store v[3:6]"


def test_refused_again_and_again_the_entry_is_not_written_again(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    for name in ("v", "text"):
        with mounted(memory, tmp_path, name=name) as mount:
            mount.zmap.arm(REFUSED)
            mount.write(0, "text" if name == "text" else 1)
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
            before = [found.path for found in mount.entries()]
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
            assert [found.path for found in mount.entries()] == before


def test_where_the_spool_takes_nothing_either_it_is_kept_in_memory_and_said(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("v/0: is in memory only: .*--max-spool-size")
    with mounted(memory, tmp_path, spool_bytes=10) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.read(0, 1) == [1]
        assert mount.entries() == []
    assert stored(memory)[0] == 1


def test_a_lent_chunk_that_is_refused_is_forgotten(memory: MemoryZMap, tmp_path: Path) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        with pytest.raises(AccessDenied):
            mount.write(0, *range(CHUNK))
        assert mount.writeback.unsaved == 0
        assert mount.entries() == []
        assert mount.read(0, 2) == [FILL, FILL]


def test_what_was_written_over_a_lent_chunk_while_it_was_refused_is_spooled(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(1) as pool:
        mount.zmap.arm(REFUSED)
        with held(mount, "write") as (begun, go_on):
            whole = pool.submit(mount.write, 0, *range(CHUNK))
            assert begun.wait(30)
            mount.write(1, 99)
            go_on.set()
            assert isinstance(whole.exception(30), AccessDenied)
        assert mount.read(1, 2) == [99]
        assert len(mount.entries()) == 1


def test_an_error_that_nobody_foresaw_is_kept_as_one_that_may_pass(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)

        def fail(operation: str, key: str) -> None:
            raise ZeroDivisionError("a bug")

        mount.before = fail
        with pytest.raises(Unavailable, match="a bug"):
            mount.writeback.flush()
        mount.before = lambda operation, key: None
        assert mount.read(0, 1) == [1]


# When it is tried again


@contextmanager
def held(mount: Mount, wanted: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first such call waits: (it has begun, let it go on)."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(operation: str, key: str) -> None:
        if operation == wanted and not begun.is_set():
            begun.set()
            assert go_on.wait(30)

    mount.before = hold
    try:
        yield begun, go_on
    finally:
        go_on.set()
        mount.before = lambda operation, key: None


def writes(mount: Mount) -> list[str]:
    """The keys that are written from now on, as they are."""
    calls: list[str] = []
    mount.before = lambda operation, key: calls.append(key) if operation == "write" else None
    return calls


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_what_was_written_is_stored_in_the_background_each_time(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, age_s=0.01) as mount:
        for value in (1, 2, 3):
            mount.write(3, value)
            until(lambda: mount.writeback.unsaved == 0)
            assert stored(memory)[3] == value


def test_what_failed_is_tried_again_in_the_background_with_pauses(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_warnings.add("is kept, and tried again")
    monkeypatch.setattr("nczfs.engine.dirty.RETRY_S", 0.01)
    with mounted(memory, tmp_path, age_s=0.01) as mount:
        mount.zmap.arm(Fault(0, operations=WRITES, repeats=3))
        mount.write(3, 7)
        until(lambda: mount.writeback.unsaved == 0)
        assert mount.zmap.fired == 3
    assert stored(memory)[3] == 7


def test_during_a_pause_the_background_asks_the_store_nothing_and_fsync_asks_at_once(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.engine.dirty.RETRY_S", 3600.0)
    monkeypatch.setattr("nczfs.engine.dirty.RETRY_S_MAX", 3600.0)
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(DOWN)
        mount.write(0, 1)
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        mount.zmap.arm()
        mount.write(2 * CHUNK, 1)
        calls = writes(mount)
        assert mount.writeback._store_aged(time.monotonic())
        assert calls == []
        mount.writeback.flush()
        assert len(calls) == 2
        mount.write(3 * CHUNK, 1)
        assert not mount.writeback._store_aged(time.monotonic()), "a success ends the pause"


def test_during_the_pause_of_a_chunk_that_was_refused_only_the_others_are_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.zmap.arm()
        mount.write(CHUNK, 1)
        calls = writes(mount)
        assert mount.writeback._store_aged(time.monotonic()), "it is left"
        assert calls == ["v/1"]


def test_a_chunk_that_alone_fails_does_not_keep_the_others_from_being_stored(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_warnings.add("is kept, and tried again")
    monkeypatch.setattr("nczfs.engine.dirty.RETRY_S", 0.01)
    with mounted(memory, tmp_path, age_s=0.01, threads=1) as mount:

        def fail(operation: str, key: str) -> None:
            if key == "v/0":
                raise Unavailable(key)

        mount.before = fail
        for index in range(10):
            mount.write(index * CHUNK, 5)
        until(lambda: mount.writeback.unsaved == 1)
        mount.before = lambda operation, key: None


def test_the_pauses_have_an_end_however_often_it_failed(memory: MemoryZMap, tmp_path: Path) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(DOWN)
        mount.write(0, 1)
        chunk = mount.chunk(0)
        assert chunk is not None
        chunk.retry.attempts = mount.writeback._retry.attempts = 5000
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        assert chunk.retry.at <= time.monotonic() + 60


def test_a_writer_waits_for_one_failure_of_a_store_that_hangs_and_not_for_one_a_chunk(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT, threads=1) as mount:
        mount.zmap.arm(HANGS)
        calls = writes(mount)
        for position in range(0, LENGTH, CHUNK):
            mount.write(position, 1)
        assert len(calls) == 1


def test_a_writer_does_not_try_again_what_it_waited_for_while_another_one_failed(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT) as mount, ThreadPoolExecutor(8) as pool:
        mount.zmap.arm(HANGS)
        calls: list[str] = []
        go_on = threading.Event()

        def hold(operation: str, key: str) -> None:
            if operation == "write":
                calls.append(key)
                assert go_on.wait(30)

        mount.before = hold
        writers = [pool.submit(mount.write, p, 1) for p in range(0, 20 * CHUNK, CHUNK)]
        until(lambda: len(calls) > 0)
        time.sleep(0.05)
        go_on.set()
        for writer in writers:
            writer.result(30)
        assert len(calls) == len(set(calls)) <= 3 + 8, "as many as threads began together"
        mount.before = lambda operation, key: None
        assert mount.read()[: 20 * CHUNK : CHUNK] == [1] * 20


# While other things go on


def test_what_is_written_while_a_chunk_is_being_saved_is_not_lost(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        saved = iter([True])
        original = os.fsync

        def write_meanwhile(fd: int) -> None:
            original(fd)
            if next(saved, False):
                mount.write(0, 2, 3)

        monkeypatch.setattr(os, "fsync", write_meanwhile)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.read(0, 3) == [2, 3, FILL]
        assert mount.writeback.dirty_bytes >= CHUNK_BYTES
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        assert recovery.describe(found) == "memory://store v[0:2]"


def test_a_chunk_that_is_completed_while_it_is_being_saved_stays_complete(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_zmap(memory, "r+") as other:
        other.variables["v"][0:CHUNK] = 5
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        original, saved = os.fsync, iter([True])

        def read_meanwhile(fd: int) -> None:
            original(fd)
            if next(saved, False):
                assert mount.read(0, 2) == [1, 5]

        monkeypatch.setattr(os, "fsync", read_meanwhile)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.read(0, 3) == [1, 5, 5]


def test_of_two_that_save_a_chunk_at_once_the_newer_state_stays(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)
        chunk = mount.chunk(0)
        assert chunk is not None
        original, saved = os.fsync, iter([True])

        def save_meanwhile(fd: int) -> None:
            original(fd)
            if next(saved, False):
                mount.write(1, 2)
                mount.writeback._save(chunk)

        monkeypatch.setattr(os, "fsync", save_meanwhile)
        mount.writeback._save(chunk)
        (found,) = mount.entries()
        assert recovery.describe(found) == "memory://store v[0:2]"
        assert mount.read(0, 2) == [1, 2]


def test_what_was_spooled_and_written_over_during_its_flush_stays_in_the_spool(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(1) as pool:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.zmap.arm()
        with held(mount, "write") as (begun, go_on):
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(30)
            mount.write(1, 2)
            chunk = mount.chunk(0)
            assert chunk is not None
            mount.writeback._save(chunk)
            go_on.set()
            flush.result(30)
        assert stored(memory)[:2] == [1, FILL]
        (found,) = mount.entries()
        assert recovery.describe(found) == "memory://store v[1:2]", "the other one is stored"
        assert mount.read(0, 2) == [1, 2]


def test_a_write_that_fails_on_a_spooled_chunk_loses_nothing(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        found.path.rename(tmp_path / "elsewhere")
        with pytest.raises(Unavailable):
            mount.write(1, 2)
        (tmp_path / "elsewhere").rename(found.path)
        assert mount.read(0, 2) == [1, FILL]


def test_dropping_a_spooled_chunk_removes_its_entry(memory: MemoryZMap, tmp_path: Path) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        mount.write(CHUNK, 2)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()

        def is_wanted(chunk_id: ChunkId) -> bool:
            return chunk_id[1] == (1,)

        mount.writeback.drop(mount.v.number, is_wanted)
        (found,) = mount.entries()
        assert recovery.describe(found) == f"memory://store v[{CHUNK}:{CHUNK + 1}]"
        assert mount.writeback.unsaved == 1
        assert mount.read(0, 1) == [FILL]


def test_dropping_waits_for_what_flies_and_leaves_no_entry(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(2) as pool:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with held(mount, "write") as (begun, go_on):
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(30)
            drop = pool.submit(mount.writeback.drop, mount.v.number, lambda _: False)
            assert not drop.done()
            go_on.set()
            assert isinstance(flush.exception(30), AccessDenied)
            drop.result(30)
        assert mount.entries() == []


def test_forgetting_what_is_cached_forgets_nothing_that_is_not_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.v.forget()
        mount.engine.cache.discard(mount.v.number)
        assert mount.read()[0:2] == [1, FILL]


def test_the_values_of_an_entry_are_not_kept_in_the_cache(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """They would take room on the disk that nothing counts."""
    with mounted(memory, tmp_path) as mount:
        for position in range(CHUNK):
            mount.write(position, position)
        mount.zmap.arm(REFUSED)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.zmap.arm()
        mount.writeback.flush()
        assert mount.engine.cache.peek((mount.v.number, (0,)), 0.0) is None
        assert mount.read(0, CHUNK) == list(range(CHUNK))


def test_many_threads_write_and_read_while_the_store_comes_and_goes(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected_warnings: Any
) -> None:
    expected_warnings.add("is kept, and tried again")
    monkeypatch.setattr("nczfs.engine.dirty.RETRY_S", 0.001)
    monkeypatch.setattr("nczfs.engine.dirty.RETRY_S_MAX", 0.01)
    writers, rounds = 4, 120
    with mounted(memory, tmp_path, budget=TIGHT, age_s=0.01) as mount:
        expected = np.full(LENGTH, FILL)

        def run(number: int) -> None:
            random = np.random.default_rng(number)
            for turn in range(rounds):
                at = int(random.integers(LENGTH // writers)) * writers + number
                mount.write(at, 1000 * number + turn)
                expected[at] = 1000 * number + turn
                assert mount.read(at, at + 1) == [expected[at]]
                fault = [DOWN, REFUSED, HANGS, None][int(random.integers(4))]
                mount.zmap.arm(*([fault] if fault is not None else []))
                if turn % 10 == number:
                    try:
                        mount.writeback.flush()
                    except StoreError:
                        assert mount.read(at, at + 1) == [expected[at]]

        with ThreadPoolExecutor(writers) as pool:
            for future in [pool.submit(run, number) for number in range(writers)]:
                future.result(120)
        assert mount.read() == expected.tolist()
        mount.zmap.arm()
        mount.writeback.flush()
        assert stored(memory) == expected.tolist()


# The end


def test_closing_puts_all_that_is_left_into_the_spool_and_asks_no_store(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("3 chunks are not stored")
    mount = Mount(memory, tmp_path)
    mount.write(1, 1)
    mount.write(CHUNK, 2)
    mount.zmap.arm(REFUSED)
    with pytest.raises(AccessDenied):
        mount.writeback.flush()
    mount.write(0, 3)
    mount.write(3 * CHUNK, 4)
    calls = writes(mount)
    mount.close()
    assert calls == []
    recover(memory, tmp_path)
    assert {p: v for p, v in enumerate(stored(memory)) if v != FILL} == {
        0: 3, 1: 1, CHUNK: 2, 3 * CHUNK: 4
    }  # fmt: skip
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fault", [None, DOWN, REFUSED])
@pytest.mark.parametrize("lent", [False, True])
def test_closing_saves_what_flies_and_its_landing_decides_what_remains(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, fault: Fault | None, lent: bool
) -> None:
    expected_warnings.add("1 chunks are not stored")
    mount = Mount(memory, tmp_path)
    mount.zmap.arm(*([fault] if fault is not None else []))
    with ThreadPoolExecutor(2) as pool, held(mount, "write") as (begun, go_on):
        if lent:
            flush = pool.submit(mount.write, 0, *range(CHUNK))
        else:
            mount.write(0, 0, 1)
            flush = pool.submit(mount.writeback.flush)
        assert begun.wait(30)
        mount.writeback.close()
        assert len(mount.entries()) == 1
        go_on.set()
        assert (flush.exception(30) is None) == (fault is None)
    mount.close()
    assert bool(mount.entries()) == (fault is not None and not lent), "who lent it was told"
    recover(memory, tmp_path)
    assert stored(memory)[:2] == ([FILL, FILL] if lent and fault is not None else [0, 1])


def test_what_was_written_while_the_last_flush_was_under_way_is_not_lost(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("1 chunks are not stored")
    mount = Mount(memory, tmp_path)
    with ThreadPoolExecutor(1) as pool, held(mount, "write") as (begun, go_on):
        mount.write(0, 1)
        flush = pool.submit(mount.writeback.flush)
        assert begun.wait(30)
        mount.write(1, 2)
        mount.writeback.close()
        go_on.set()
        flush.result(30)
    mount.close()
    assert stored(memory)[:2] == [1, FILL]
    recover(memory, tmp_path)
    assert stored(memory)[:2] == [1, 2]


def test_what_is_written_after_the_close_is_in_the_spool(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    mount = Mount(memory, tmp_path)
    mount.writeback.close()
    mount.write(0, 1)
    mount.write(1, 2)
    mount.close()
    recover(memory, tmp_path)
    assert stored(memory)[:3] == [1, 2, FILL]


def test_closing_ends_while_chunks_wait_for_a_thread_to_store_them(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("chunks are not stored")
    mount = Mount(memory, tmp_path, threads=1, age_s=0.01)
    with ThreadPoolExecutor(3) as pool, held(mount, "write") as (begun, go_on):
        first = pool.submit(mount.write, 0, *range(CHUNK))
        assert begun.wait(30)
        second = pool.submit(mount.write, CHUNK, *range(CHUNK))
        until(lambda: mount.writeback.unsaved == 2)
        mount.write(CHUNK, 77)
        mount.write(3 * CHUNK, 78)
        close = pool.submit(mount.close)
        until(second.done)
        go_on.set()
        first.result(30)
        close.result(30)
        assert second.exception(30) is not None
    recover(memory, tmp_path)
    found = stored(memory)
    assert found[: CHUNK + 1] == [*range(CHUNK), 77]
    assert found[3 * CHUNK] == 78


def test_who_waits_for_a_chunk_that_never_flies_is_let_go_by_the_close(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("chunks are not stored")
    mount = Mount(memory, tmp_path, threads=1)
    with ThreadPoolExecutor(4) as pool, held(mount, "write") as (begun, go_on):
        first = pool.submit(mount.write, 0, *range(CHUNK))
        assert begun.wait(30)
        second = pool.submit(mount.write, CHUNK, *range(CHUNK))
        until(lambda: mount.writeback.unsaved == 2)
        drop = pool.submit(
            mount.writeback.drop, mount.v.number, lambda chunk_id: chunk_id[1] == (0,)
        )
        close = pool.submit(mount.close)
        drop.result(30)
        go_on.set()
        for future in (first, close):
            future.result(30)
        assert second.exception(30) is not None
    assert mount.entries() == []
    assert stored(memory)[: CHUNK + 1] == [*range(CHUNK), FILL]


def test_closing_ends_while_the_background_stores(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("chunks are not stored")
    mount = Mount(memory, tmp_path, threads=1, age_s=0.01)
    with ThreadPoolExecutor(1) as pool, held(mount, "write") as (begun, go_on):
        for index in range(6):
            mount.write(index * CHUNK, index)
        assert begun.wait(30)
        close = pool.submit(mount.close)
        time.sleep(0.05)
        go_on.set()
        close.result(30)
    recover(memory, tmp_path)
    assert stored(memory)[: 6 * CHUNK : CHUNK] == list(range(6))


def test_what_a_killed_mount_had_spooled_is_put_back(memory: MemoryZMap, tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            mount = Mount(memory, tmp_path, budget=TIGHT)
            mount.zmap.arm(REFUSED)
            mount.write(0, 1)
            mount.write(CHUNK, 2)
            try:
                mount.writeback.flush()
            except AccessDenied:
                mount.write(CHUNK, 3)  # nobody was told that this one is safe
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    recover(memory, tmp_path)
    found = stored(memory)
    assert (found[0], found[CHUNK]) == (1, 2)
    assert set(found) == {1, 2, FILL}
    assert os.listdir(tmp_path) == []
