"""The end of a mount whose store does not take everything: nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import AccessDenied, Unavailable
from nczfs.testing.faults import Fault
from nczfs.zmap.memory import MemoryZMap
from tests.support.spooling import (
    CHUNK,
    CHUNK_BYTES,
    DOWN,
    FILL,
    REFUSED,
    TIGHT,
    Mount,
    held,
    mounted,
    new_memory,
    recover,
    stored,
    writes,
)
from tests.support.waiting import until


@pytest.fixture
def memory() -> MemoryZMap:
    return new_memory()


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


@pytest.mark.parametrize("ends", ["close", "save"])
def test_the_budget_of_the_spool_is_no_reason_to_lose_what_is_left_at_the_end(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, ends: str
) -> None:
    expected_warnings.add("4 chunks are not stored")
    mount = Mount(memory, tmp_path, spool_bytes=CHUNK_BYTES + 1024)
    mount.zmap.arm(DOWN)
    for index in range(4):
        mount.write(index * CHUNK, index)
    if ends == "save":
        mount.writeback.save()
        assert len(mount.entries()) == 4
        mount.write(3, 7)  # as is what comes after that
    mount.close()
    mount.zmap.arm()
    recover(memory, tmp_path)
    assert stored(memory)[: 4 * CHUNK : CHUNK] == list(range(4))
    assert stored(memory)[3] == (7 if ends == "save" else FILL)


def test_what_is_saved_because_the_mount_ends_leaves_the_spool_when_it_is_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)
        mount.writeback.save()
        assert len(mount.entries()) == 1
        mount.writeback.flush()
        assert mount.entries() == []
    assert stored(memory)[0] == 1


@pytest.mark.parametrize("fault", [None, DOWN, REFUSED])
@pytest.mark.parametrize("lent", [False, True])
def test_closing_saves_what_flies_and_its_landing_decides_what_remains(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, fault: Fault | None, lent: bool
) -> None:
    expected_warnings.add("1 chunk is not stored")
    mount = Mount(memory, tmp_path)
    mount.zmap.arm(*([fault] if fault is not None else []))
    with ThreadPoolExecutor(2) as pool, held(mount, "write") as (begun, go_on):
        if lent:
            flush = pool.submit(mount.write, 0, *range(CHUNK))
        else:
            mount.write(0, 0, 1)
            flush = pool.submit(mount.writeback.flush)
        assert begun.wait(120)
        mount.writeback.close()
        assert len(mount.entries()) == 1
        go_on.set()
        assert (flush.exception(120) is None) == (fault is None or lent)
    mount.close()
    assert bool(mount.entries()) == (fault is not None)
    recover(memory, tmp_path)
    assert stored(memory)[:2] == [0, 1]


def test_what_was_written_while_the_last_flush_was_under_way_is_not_lost(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("1 chunk is not stored")
    mount = Mount(memory, tmp_path)
    with ThreadPoolExecutor(1) as pool, held(mount, "write") as (begun, go_on):
        mount.write(0, 1)
        flush = pool.submit(mount.writeback.flush)
        assert begun.wait(120)
        mount.write(1, 2)
        mount.writeback.close()
        go_on.set()
        flush.result(120)
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
        assert begun.wait(120)
        second = pool.submit(mount.write, CHUNK, *range(CHUNK))
        until(lambda: mount.writeback.unsaved == 2)
        mount.write(CHUNK, 77)
        mount.write(3 * CHUNK, 78)
        close = pool.submit(mount.close)
        until(second.done)
        go_on.set()
        for future in (first, second, close):
            future.result(120)
    recover(memory, tmp_path)
    found = stored(memory)
    assert found[: 2 * CHUNK] == [*range(CHUNK), 77, *range(1, CHUNK)]
    assert found[3 * CHUNK] == 78


def test_who_waits_for_a_chunk_that_never_flies_is_let_go_by_the_close(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("chunks are not stored")
    mount = Mount(memory, tmp_path, threads=1)
    with ThreadPoolExecutor(4) as pool, held(mount, "write") as (begun, go_on):
        first = pool.submit(mount.write, 0, *range(CHUNK))
        assert begun.wait(120)
        second = pool.submit(mount.write, CHUNK, *range(CHUNK))
        until(lambda: mount.writeback.unsaved == 2)
        drop = pool.submit(
            mount.writeback.drop, mount.v.stored, lambda chunk_id: chunk_id[1] == (0,)
        )
        close = pool.submit(mount.close)
        drop.result(120)
        go_on.set()
        for future in (first, second, close):
            future.result(120)
    assert mount.entries() == []
    assert stored(memory)[: CHUNK + 1] == [*range(CHUNK), FILL]


def test_closing_ends_while_the_background_stores(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("not stored, but kept in")
    mount = Mount(memory, tmp_path, threads=1, age_s=0.01)
    with ThreadPoolExecutor(1) as pool, held(mount, "write") as (begun, go_on):
        for index in range(6):
            mount.write(index * CHUNK, index)
        assert begun.wait(120)
        close = pool.submit(mount.close)
        time.sleep(0.05)
        go_on.set()
        close.result(120)
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


def test_without_a_spool_a_write_that_the_close_overtakes_gets_an_error(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    mount = Mount(memory, tmp_path, threads=1, has_spool=False)
    with ThreadPoolExecutor(3) as pool, held(mount, "write") as (begun, go_on):
        first = pool.submit(mount.write, 0, *range(CHUNK))
        assert begun.wait(120)
        second = pool.submit(mount.write, CHUNK, *range(CHUNK))
        until(lambda: mount.writeback.unsaved == 2)
        close = pool.submit(mount.close)
        with pytest.raises(Unavailable, match="closed"):
            second.result(120)
        go_on.set()
        first.result(120)
        close.result(120)
    assert stored(memory)[: CHUNK + 1] == [*range(CHUNK), FILL]


@pytest.mark.parametrize("count", [1, CHUNK])
def test_without_a_spool_what_is_written_after_the_close_gets_an_error(
    memory: MemoryZMap, tmp_path: Path, count: int
) -> None:
    mount = Mount(memory, tmp_path, has_spool=False)
    mount.close()
    with pytest.raises(Unavailable, match="closed"):
        mount.write(0, *range(count))


def test_without_a_spool_a_chunk_refused_during_the_close_is_an_error_of_its_writer(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    mount = Mount(memory, tmp_path, has_spool=False)
    mount.zmap.arm(DOWN)
    with ThreadPoolExecutor(2) as pool, held(mount, "write") as (begun, go_on):
        write = pool.submit(mount.write, 0, *range(CHUNK))
        assert begun.wait(120)
        close = pool.submit(mount.close)
        until(lambda: mount.writeback.is_closed)
        go_on.set()
        with pytest.raises(Unavailable):
            write.result(120)
        close.result(120)
