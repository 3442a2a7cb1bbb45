"""Who writes more than there is room for: what he waits for, and where it goes."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.retrying import RETRY_S_MAX
from nczfs.engine.spool.space import Spool, Survives
from nczfs.errors import AccessDenied, DeadlinePassed, NoSpace, StoreError, Unavailable
from nczfs.testing.faults import Fault
from nczfs.zmap.memory import MemoryZMap
from tests.support.sharded import all_sharded
from tests.support.spooling import (
    CHUNK,
    CHUNK_BYTES,
    CHUNKS,
    DOWN,
    FILL,
    HANGS,
    LENGTH,
    REFUSED,
    TIGHT,
    mounted,
    new_memory,
    stored,
    writes,
)
from tests.support.waiting import until


@pytest.fixture
def memory() -> MemoryZMap:
    return new_memory()


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
                assert mount.writeback.memory_bytes <= TIGHT // 2
            assert mount.read() == expected
        assert mount.spool.bytes_used >= (CHUNKS - 5) * CHUNK_BYTES
        assert mount.writeback.unsaved == CHUNKS
    assert stored(memory) == expected


def test_a_chunk_whose_first_write_has_no_room_in_the_journal_is_not_dirty(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: Any) -> None:
        raise NoSpace("the journal is full")

    spool = Spool(tmp_path, "memory://store", survives=Survives.KILL)
    with mounted(memory, tmp_path, spool=spool) as mount:
        for unsaved in (0, 1):
            with monkeypatch.context() as patch:
                patch.setattr(mount.writeback._journal, "wrote", is_full)
                with pytest.raises(NoSpace):
                    mount.write(0, 1)
            assert mount.writeback.unsaved == unsaved
            is_any = mount.writeback.has_unsaved(lambda array: array is mount.v.stored)
            assert is_any is bool(unsaved)
            assert not mount.writeback.has_unsaved(lambda _: False)
            mount.write(0, 2)
    assert stored(memory)[0] == 2


def test_chunks_beside_one_that_was_refused_are_spooled_while_their_object_waits(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with all_sharded((CHUNKS,)):
        with mounted(memory, tmp_path, budget=TIGHT) as mount:
            mount.zmap.arm(REFUSED)
            mount.write(0, 0)
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
            mount.zmap.arm()
            for position in range(CHUNK, LENGTH, CHUNK):
                mount.write(position, position)
                assert mount.writeback.memory_bytes <= TIGHT // 2
        assert stored(memory)[::CHUNK] == list(range(0, LENGTH, CHUNK))


def test_the_flags_of_scattered_writes_are_let_go_too(memory: MemoryZMap, tmp_path: Path) -> None:
    """With elements of a byte, the flags are as large as the values."""
    with mounted(memory, tmp_path, budget=TIGHT, name="tiny") as mount:
        mount.zmap.arm(DOWN)
        box = np.arange(0, CHUNK, 2)
        expected = [FILL] * LENGTH
        for index in range(CHUNKS):
            mount.v._chunks.write((index,), (box,), np.full(len(box), 3, np.int8))
            for position in box:
                expected[index * CHUNK + position] = 3
            assert mount.writeback.memory_bytes <= TIGHT // 2
        assert mount.read() == expected
    assert stored(memory, "tiny") == expected


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
            assert mount.writeback.memory_bytes <= TIGHT
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


def test_a_writer_waits_for_one_failure_of_a_store_that_hangs_and_not_for_one_a_chunk(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", RETRY_S_MAX)  # longer than this takes
    with mounted(memory, tmp_path, budget=TIGHT, threads=1) as mount:
        mount.zmap.arm(HANGS)
        calls = writes(mount)
        for position in range(0, LENGTH, CHUNK):
            mount.write(position, 1)
        assert len(calls) == 1


def test_what_has_no_room_is_spooled_although_the_pause_ends_just_then(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT) as mount:
        retry, flush = mount.writeback._health.retry, mount.writeback._flusher.flush

        def flush_in_a_pause(ids: list[ChunkId], *, only_due: bool = False) -> None:
            retry.at = math.inf
            flush(ids, only_due=only_due)
            retry.at = 0.0

        mount.zmap.arm(DOWN)
        mount.write(0, 1)
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        with monkeypatch.context() as patch:
            patch.setattr(mount.writeback._flusher, "flush", flush_in_a_pause)
            for position in range(0, LENGTH, CHUNK):
                mount.write(position, 1)
                assert mount.writeback.memory_bytes <= TIGHT // 2


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
                assert go_on.wait(120)

        mount.before = hold
        writers = [pool.submit(mount.write, p, 1) for p in range(0, 20 * CHUNK, CHUNK)]
        until(lambda: len(calls) > 0)
        time.sleep(0.05)
        go_on.set()
        for writer in writers:
            writer.result(120)
        assert len(calls) == len(set(calls)) <= 3 + 8, "as many as threads began together"
        mount.before = lambda operation, key: None
        assert mount.read()[: 20 * CHUNK : CHUNK] == [1] * 20


def test_forgetting_what_is_cached_forgets_nothing_that_is_not_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path, budget=TIGHT) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.engine.cache.discard(mount.v.stored)
        assert mount.read()[0:2] == [1, FILL]


@pytest.mark.parametrize("fault", [Unavailable, DeadlinePassed])
def test_a_flush_of_many_chunks_asks_a_store_that_is_away_as_often_as_one_of_a_few(
    memory: MemoryZMap, tmp_path: Path, fault: type[StoreError]
) -> None:
    with mounted(memory, tmp_path) as mount:
        for position in range(0, LENGTH, CHUNK):
            mount.write(position, position)
        mount.zmap.arm(Fault(0, fault, repeats=10**9))
        calls: list[str] = []
        mount.before = lambda operation, key: calls.append(key)
        with pytest.raises(fault):
            mount.writeback.flush()
        assert 0 < len(calls) <= 3, "no more than there are threads"
        assert mount.writeback.unsaved == CHUNKS
        mount.before = lambda operation, key: None
    assert stored(memory)[::CHUNK] == list(range(0, LENGTH, CHUNK))


def test_threads_that_ask_whether_an_array_is_still_there_ask_together(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """A store that hangs costs a flush of many chunks one deadline, not one after the other."""
    with mounted(memory, tmp_path, threads=8) as mount:
        for index in range(8):
            mount.write(index * CHUNK, 1)
        mount.zmap.arm(Fault(0, DeadlinePassed, repeats=10**9))
        begun, go_on, calls = threading.Event(), threading.Event(), []

        def hang(operation: str, key: str) -> None:
            calls.append(key)
            begun.set()
            assert go_on.wait(120)

        mount.before = hang
        with ThreadPoolExecutor(1) as pool:
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(120)
            until(lambda: sum(not chunk.flying for chunk in mount.writeback._dirty.all()) == 0)
            go_on.set()
            assert isinstance(flush.exception(120), DeadlinePassed)
        assert len(calls) == 1
        mount.before = lambda operation, key: None
