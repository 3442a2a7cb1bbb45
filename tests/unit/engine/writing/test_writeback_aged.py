"""What is stored in the background, and the pauses after what failed."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs import metrics
from nczfs.engine.retrying import RETRY_S_MAX
from nczfs.errors import AccessDenied, StoreError, Unavailable
from nczfs.testing.faults import Fault
from nczfs.zmap.memory import MemoryZMap
from tests.support.spooling import (
    CHUNK,
    DOWN,
    FILL,
    HANGS,
    LENGTH,
    REFUSED,
    TIGHT,
    WRITES,
    mounted,
    new_memory,
    stored,
    writes,
)
from tests.support.waiting import until


@pytest.fixture
def memory() -> MemoryZMap:
    return new_memory()


def test_what_was_written_is_stored_in_the_background_each_time(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """SEMANTICS W87."""
    with mounted(memory, tmp_path, age_s=0.01) as mount:
        for value in (1, 2, 3):
            mount.write(3, value)
            until(lambda: mount.writeback.unsaved == 0)
            assert stored(memory)[3] == value


def test_what_failed_is_tried_again_in_the_background_with_pauses(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_warnings.add("is kept, and tried again")
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", 0.01)
    with mounted(memory, tmp_path, age_s=0.01) as mount:
        mount.zmap.arm(Fault(0, operations=WRITES, repeats=3))
        mount.write(3, 7)
        until(lambda: mount.writeback.unsaved == 0)
        assert mount.zmap.fired == 3
    assert stored(memory)[3] == 7


def test_what_failed_at_fsync_is_tried_again_long_before_it_is_old(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W85."""
    expected_warnings.add("is kept, and tried again")
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", 0.01)
    monkeypatch.setattr("nczfs.engine.background.TURN_S_MAX", 0.05)
    with mounted(memory, tmp_path, age_s=3600.0) as mount:
        mount.zmap.arm(Fault(0, operations=WRITES, repeats=3))
        mount.write(3, 7)
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        until(lambda: mount.writeback.unsaved == 0)
        assert mount.zmap.fired == 3
    assert stored(memory)[3] == 7


def test_the_last_error_and_the_pause_are_known_while_something_is_not_stored(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", 3600.0)
    with mounted(memory, tmp_path, age_s=3600.0) as mount:
        mount.write(3, 7)
        assert mount.writeback.trouble is None
        mount.zmap.arm(DOWN)
        for _ in range(3):
            with pytest.raises(Unavailable):
                mount.writeback.flush()
        trouble = mount.writeback.trouble
        assert trouble is not None
        assert trouble.error
        assert 0 < trouble.pause_s <= RETRY_S_MAX == 60.0
        mount.zmap.arm()
        mount.writeback.flush()
        assert mount.writeback.trouble is None


def test_the_gauge_of_dirty_bytes_is_what_all_engines_of_the_process_hold(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    gc.collect()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    before = metrics.value("nczfs_dirty_bytes")
    with mounted(memory, tmp_path / "one") as one, mounted(memory, tmp_path / "other") as other:
        one.write(3, 7)
        other.write(3 * CHUNK, 8)
        both = one.writeback.dirty_bytes + other.writeback.dirty_bytes
        assert metrics.value("nczfs_dirty_bytes") - before == both > one.writeback.dirty_bytes
        other.writeback.flush()
        assert metrics.value("nczfs_dirty_bytes") - before == one.writeback.dirty_bytes > 0


def test_during_a_pause_the_background_asks_the_store_nothing_and_fsync_asks_at_once(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", 3600.0)
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S_MAX", 3600.0)
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
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", 0.01)
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
        chunk.unit.retry.attempts = mount.writeback._health.retry.attempts = 5000
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        assert chunk.unit.retry.at <= time.monotonic() + 60


def test_many_threads_write_and_read_while_the_store_comes_and_goes(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected_warnings: Any
) -> None:
    expected_warnings.add("is kept, and tried again")
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S", 0.001)
    monkeypatch.setattr("nczfs.engine.retrying.RETRY_S_MAX", 0.01)
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
