"""Turns at decoding: as many as decode threads, each with memory of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from nczfs.codecs import buffers
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools, UnderWay
from nczfs.errors import Unavailable

THREADS = 2


@pytest.fixture
def pools() -> Iterator[Pools]:
    pools = Pools(EngineOptions(decode_threads=THREADS))
    yield pools
    pools.close()


def test_no_more_have_a_turn_than_there_are_decode_threads(pools: Pools) -> None:
    started = threading.Event()

    def third() -> None:
        with pools.decoding():
            started.set()

    thread = threading.Thread(target=third)
    with pools.decoding():
        with pools.decoding():
            thread.start()
            assert not started.wait(0.2)
        assert started.wait(120)
    thread.join()


def test_who_have_a_turn_at_the_same_time_decode_into_memory_of_their_own(pools: Pools) -> None:
    both = threading.Barrier(2)
    found = []

    def decode() -> None:
        with pools.decoding():
            found.append(buffers.empty(1000).ctypes.data)
            both.wait(120)

    thread = threading.Thread(target=decode)
    thread.start()
    decode()
    thread.join()
    assert len(set(found)) == 2


def test_a_turn_that_failed_is_given_back_and_its_memory_is_not_used_outside(pools: Pools) -> None:
    in_turn = set()

    def decode() -> None:
        with pools.decoding():
            in_turn.add(buffers.empty(1000).ctypes.data)
            raise ValueError("bad data")

    for _ in range(3 * THREADS):
        with pytest.raises(ValueError, match="bad data"):
            decode()
    assert len(in_turn) == THREADS
    assert buffers.empty(1000).ctypes.data not in in_turn


def test_a_child_has_all_turns_though_its_parent_had_none_left_at_the_fork(pools: Pools) -> None:
    with pools.decoding(), pools.decoding():
        child = os.fork()
        if child == 0:
            os._exit(pools._turns.qsize())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == THREADS


def test_a_task_that_was_dropped_when_the_pools_closed_is_an_error_of_the_store(
    pools: Pools,
) -> None:
    gate = threading.Event()

    def wait() -> None:
        assert gate.wait(60)

    def close_meanwhile(tasks: UnderWay) -> None:
        futures = [pools.assemble.submit(wait) for _ in range(THREADS + 1)]
        for future in futures:
            tasks.add(future)
        closing.start()
        while not futures[-1].cancelled():
            time.sleep(0.001)
        gate.set()

    closing = threading.Thread(target=pools.close)
    with pytest.raises(Unavailable, match="closed"), UnderWay(8) as tasks:
        close_meanwhile(tasks)
    closing.join()
