"""Reading ahead: when it starts, that it stops, that its windows hold the right bytes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from nczfs.engine.cache import ChunkCache
from nczfs.engine.prefetch import MIB, AheadOptions, ReadAhead, SequenceDetector
from nczfs.errors import Unavailable

KIB = 1024


def test_reading_on_doubles_the_distance_up_to_its_bound() -> None:
    detector = SequenceDetector(MIB, 8 * MIB)
    assert detector.note(5 * MIB, MIB) == 0
    distances = [detector.note(n * MIB, MIB) - (n + 1) * MIB for n in range(6, 13)]
    assert distances == sorted(distances)
    assert distances[0] < distances[1]
    assert distances[-1] == 8 * MIB


def test_a_large_read_at_the_start_of_a_file_begins_reading_it_all() -> None:
    assert SequenceDetector(MIB, 8 * MIB).note(0, MIB) == 2 * MIB
    assert SequenceDetector(MIB, 8 * MIB).note(0, 4096) == 0


def test_two_requests_that_overtook_each_other_are_still_in_order() -> None:
    detector = SequenceDetector(MIB, 8 * MIB)
    detector.note(0, 128 * KIB)
    assert detector.note(256 * KIB, 128 * KIB) > 0
    assert detector.note(128 * KIB, 128 * KIB) > 0


def test_random_offsets_start_nothing() -> None:
    detector = SequenceDetector(MIB, 8 * MIB)
    source = random.Random(1)
    offsets = [source.randrange(10**12) for _ in range(100)]
    assert [detector.note(offset, 4096) for offset in offsets] == [0] * 100


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2)


def test_windows_hold_the_bytes_of_the_file_and_give_their_memory_back(
    pool: ThreadPoolExecutor,
) -> None:
    data = random.Random(2).randbytes(1_000_003)
    budget = ChunkCache(10 * MIB)
    reads: list[tuple[int, int]] = []

    def read(offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return data[offset : offset + size]

    ahead = ReadAhead(
        read, None, len(data), lambda: pool, budget, AheadOptions(64 * KIB, 256 * KIB, 0)
    )
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


def test_an_error_in_a_window_is_left_to_the_read_that_needs_it(pool: ThreadPoolExecutor) -> None:
    budget = ChunkCache(10 * MIB)

    def read(offset: int, size: int) -> bytes:
        raise Unavailable("the store is gone")

    ahead = ReadAhead(read, None, MIB, lambda: pool, budget, AheadOptions(64 * KIB, 256 * KIB, 0))
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
        read, None, MIB, lambda: pool, ChunkCache(1000), AheadOptions(64 * KIB, 256 * KIB, 0)
    )
    for position in range(0, MIB, 64 * KIB):
        ahead.note(position, 64 * KIB)
        assert ahead.if_ready(position, 64 * KIB) is None
    pool.shutdown(wait=True)
