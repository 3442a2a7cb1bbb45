"""Reading ahead: when it starts, that it stops, that its windows hold the right bytes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.readahead.prefetch import AheadOptions, ReadAhead, Windows
from nczfs.engine.readahead.sequence import MIB
from nczfs.errors import Unavailable
from tests.support.switching import run_beside
from tests.support.waiting import until

KIB = 1024
OPTIONS = AheadOptions(64 * KIB, 256 * KIB, 0)


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2)


@pytest.fixture
def budget() -> ChunkCache:
    return ChunkCache(10 * MIB)


@pytest.fixture
def windows(budget: ChunkCache) -> Iterator[Windows]:
    windows = Windows(budget)
    yield windows
    windows.close()


def test_windows_hold_the_bytes_of_the_file_and_give_their_memory_back(
    pool: ThreadPoolExecutor, windows: Windows, budget: ChunkCache
) -> None:
    data = random.Random(2).randbytes(1_000_003)
    reads: list[tuple[int, int]] = []

    def read(offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return data[offset : offset + size]

    ahead = ReadAhead(read, None, len(data), lambda: pool, windows, OPTIONS)
    position = 0
    while position < len(data):
        ahead.note(position, 10_000)
        found = ahead.if_ready(position, 10_000) or ahead.wait(position, 10_000)
        expected = data[position : position + 10_000]
        assert found is None or bytes(found) == expected
        position += 10_000
    pool.shutdown(wait=True)
    assert len({offset for offset, _ in reads}) == len(reads) > 0
    ahead.close()
    assert budget.used_bytes == 0


def test_a_window_in_steps_is_the_same(pool: ThreadPoolExecutor, windows: Windows) -> None:
    data = random.Random(3).randbytes(100_003)
    steps = AheadOptions(64 * KIB, 256 * KIB, 0, step_bytes=10_000)
    ahead = ReadAhead(
        lambda offset, size: data[offset : offset + size],
        None,
        len(data),
        lambda: pool,
        windows,
        steps,
    )
    ahead._start_windows(range(2))
    assert bytes(ahead.wait(0, len(data)) or b"") == data
    ahead.close()


def test_a_window_that_nobody_wants_any_more_is_not_read_to_its_end(
    pool: ThreadPoolExecutor, windows: Windows
) -> None:
    reads: list[tuple[int, int]] = []

    def read(offset: int, size: int) -> bytes:
        reads.append((offset, size))
        ahead.close()
        return bytes(size)

    steps = AheadOptions(64 * KIB, 256 * KIB, 0, step_bytes=4 * KIB)
    ahead = ReadAhead(read, None, MIB, lambda: pool, windows, steps)
    ahead._start_windows(range(1))
    pool.shutdown(wait=True)
    assert reads == [(0, 4 * KIB)]


def test_an_error_in_a_window_is_left_to_the_read_that_needs_it(
    pool: ThreadPoolExecutor, windows: Windows, budget: ChunkCache
) -> None:
    def read(offset: int, size: int) -> bytes:
        raise Unavailable("the store is gone")

    ahead = ReadAhead(read, None, MIB, lambda: pool, windows, OPTIONS)
    for position in range(0, 3 * 64 * KIB, 64 * KIB):
        ahead.note(position, 64 * KIB)
        assert ahead.wait(position, 64 * KIB) is None
    pool.shutdown(wait=True)
    ahead.close()
    assert budget.used_bytes == 0


def test_without_room_nothing_is_read_ahead(pool: ThreadPoolExecutor) -> None:
    def read(offset: int, size: int) -> bytes:
        raise AssertionError("read ahead although there is no room")

    ahead = ReadAhead(
        read,
        None,
        MIB,
        lambda: pool,
        Windows(ChunkCache(1000)),
        AheadOptions(64 * KIB, 256 * KIB, 0),
    )
    for position in range(0, MIB, 64 * KIB):
        ahead.note(position, 64 * KIB)
        assert ahead.if_ready(position, 64 * KIB) is None
    pool.shutdown(wait=True)


def test_a_reader_that_goes_back_finds_what_lies_before_it(
    pool: ThreadPoolExecutor, windows: Windows
) -> None:
    data = random.Random(3).randbytes(MIB)
    ahead = ReadAhead(
        lambda offset, size: data[offset : offset + size],
        None,
        MIB,
        lambda: pool,
        windows,
        OPTIONS,
    )
    found = 0
    for position in range(MIB - 4 * KIB, -1, -4 * KIB):
        ahead.note(position, 4 * KIB)
        until(lambda: not ahead._advancing)
        ready = ahead.wait(position, 4 * KIB)
        found += ready is not None
        assert ready is None or bytes(ready) == data[position : position + 4 * KIB]
    assert found > 200
    ahead.close()
    pool.shutdown(wait=True)


def test_the_next_places_of_a_strided_reader_are_hinted_and_nothing_between_them(
    pool: ThreadPoolExecutor, windows: Windows
) -> None:
    hinted: list[tuple[int, int]] = []
    ahead = ReadAhead(
        lambda *_: b"",
        lambda start, stop: hinted.append((start, stop)),
        100 * MIB,
        lambda: pool,
        windows,
        AheadOptions(0, 0, 24 * MIB, place_bytes=3 * MIB),
    )
    step = 40 * KIB + 20 * MIB
    for number in range(4):
        ahead.note(number * step, 4 * KIB)
        until(lambda: not ahead._advancing)
    pool.shutdown(wait=True)
    assert hinted == [(4 * step, 4 * step + 4 * KIB)]


def test_windows_that_nobody_reads_give_their_memory_back(
    pool: ThreadPoolExecutor, budget: ChunkCache
) -> None:
    windows = Windows(budget, idle_s=0.2)
    ahead = ReadAhead(lambda _, size: bytes(size), None, MIB, lambda: pool, windows, OPTIONS)
    ahead.note(0, 128 * KIB)
    until(lambda: budget.used_bytes > 0)
    until(lambda: budget.used_bytes == 0)
    for position in range(128 * KIB, 512 * KIB, 64 * KIB):
        ahead.note(position, 64 * KIB)
    until(lambda: budget.used_bytes > 0)
    pool.shutdown(wait=True)
    ahead.close()
    windows.close()


def test_nobody_waits_for_a_window_whose_filling_was_cancelled(windows: Windows) -> None:
    """A pool that ends cancels what it has not begun."""
    pool = ThreadPoolExecutor(1)
    is_busy = threading.Event()
    goes_on = threading.Event()

    def busy() -> None:
        is_busy.set()
        goes_on.wait()

    ahead = ReadAhead(lambda _, size: bytes(size), None, MIB, lambda: pool, windows, OPTIONS)
    pool.submit(busy)
    is_busy.wait()
    ahead._start_windows(range(1))
    assert ahead._windows
    pool.shutdown(wait=False, cancel_futures=True)
    assert ahead.wait(0, 10) is None
    goes_on.set()
    ahead.close()


def test_a_window_that_takes_too_long_is_left_to_its_thread(
    pool: ThreadPoolExecutor, budget: ChunkCache
) -> None:
    windows = Windows(budget, wait_s=0.05)
    goes_on = threading.Event()

    def read(_: int, size: int) -> bytes:
        assert goes_on.wait(120)
        return bytes(size)

    ahead = ReadAhead(read, None, MIB, lambda: pool, windows, OPTIONS)
    ahead._start_windows(range(1))
    assert ahead.wait(0, 10) is None
    goes_on.set()
    until(lambda: ahead.if_ready(0, 10) is not None)
    pool.shutdown(wait=True)
    ahead.close()
    windows.close()


def test_idle_files_are_looked_for_while_others_begin_to_be_read(
    pool: ThreadPoolExecutor, windows: Windows
) -> None:
    held: list[ReadAhead] = []

    def begin() -> None:
        held.append(ReadAhead(lambda offset, size: b"", None, 1, lambda: pool, windows, OPTIONS))
        held[-1].last_read = 2.0
        windows.note(held[-1])
        del held[:-100]

    run_beside(lambda: windows._drop_idle(1.0), begin, 1000)
    pool.shutdown()
