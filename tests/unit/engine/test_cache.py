"""The chunk cache: one load a chunk, a budget that holds, pins, errors that pass on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nczfs.engine.cache import ENTRY_BYTES, ChunkCache, Loaded
from nczfs.errors import CorruptChunk, NczfsError, Unavailable


def loaded(number: int, nbytes: int = 1000, version: str = "v") -> Loaded:
    return Loaded(np.full(nbytes, number % 256, np.uint8), nbytes, version)


def test_a_chunk_that_many_want_is_loaded_once() -> None:
    cache = ChunkCache(1 << 20)
    readers = 8
    together = threading.Barrier(readers)
    release = threading.Event()
    loads: list[int] = []

    def load(known: Loaded | None) -> Loaded:
        loads.append(1)
        release.wait(10)
        return loaded(7)

    def read() -> int:
        together.wait(10)
        with cache.pinned((1, (0,)), load, 1000, 0.0) as values:
            return int(values[0])

    with ThreadPoolExecutor(readers) as pool:
        futures = [pool.submit(read) for _ in range(readers)]
        release.set()
        assert [future.result(10) for future in futures] == [7] * readers
    assert len(loads) == 1


def test_the_error_of_a_load_reaches_everybody_who_waits_and_is_not_kept() -> None:
    cache = ChunkCache(1 << 20)
    started, release = threading.Event(), threading.Event()

    def fail(known: Loaded | None) -> Loaded:
        started.set()
        release.wait(10)
        raise CorruptChunk("v/0: torn")

    def read() -> None:
        with cache.pinned((1, (0,)), fail, 1000, 0.0):
            pass

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(read)
        started.wait(10)
        second = pool.submit(read)
        release.set()
        for future in (first, second):
            with pytest.raises(CorruptChunk, match="torn"):
                future.result(10)
    with cache.pinned((1, (0,)), lambda known: loaded(3), 1000, 0.0) as values:
        assert values[0] == 3


def test_a_pinned_chunk_is_not_evicted() -> None:
    cache = ChunkCache(3 * (1000 + ENTRY_BYTES))
    with cache.pinned((1, (0,)), lambda known: loaded(0), 1000, 0.0):
        for number in range(1, 20):
            with cache.pinned((1, (number,)), lambda known: loaded(1), 1000, 0.0):
                pass
        assert cache.peek((1, (0,)), 0.0) is not None
    assert cache.used_bytes <= cache.limit_bytes


def test_a_chunk_larger_than_the_budget_is_read_and_not_kept() -> None:
    cache = ChunkCache(500)
    with cache.pinned((1, (0,)), lambda known: loaded(9, 1000), 1000, 0.0) as values:
        assert values[0] == 9
    assert cache.peek((1, (0,)), 0.0) is None
    assert cache.used_bytes == 0


def test_a_chunk_confirmed_too_long_ago_is_shown_to_the_loader_again() -> None:
    clock = iter(float(second) for second in range(100))
    cache = ChunkCache(1 << 20, clock=lambda: next(clock))
    with cache.pinned((1, (0,)), lambda known: loaded(1, version="old"), 1000, 0.0):
        pass
    seen: list[object] = []

    def confirm(known: Loaded | None) -> Loaded:
        assert known is not None
        seen.append(known.version)
        return known

    assert cache.peek((1, (0,)), 50.0) is None
    with cache.pinned((1, (0,)), confirm, 1000, 0.5) as values:
        assert values[0] == 1
    assert seen == ["old"]


def test_reading_ahead_is_dropped_when_everything_is_pinned() -> None:
    cache = ChunkCache(2 * (1000 + ENTRY_BYTES))
    with (
        cache.pinned((1, (0,)), lambda known: loaded(0), 1000, 0.0),
        cache.pinned((1, (1,)), lambda known: loaded(0), 1000, 0.0),
    ):
        assert not cache.start_load((1, (2,)), 1000, 0.0)
        assert not cache.try_reserve(1000)
    assert cache.start_load((1, (2,)), 1000, 0.0)
    cache.fail_load((1, (2,)), 1000, Unavailable("gone"))
    assert cache.used_bytes <= cache.limit_bytes


def test_whoever_waits_when_the_cache_is_closed_gets_an_error() -> None:
    cache = ChunkCache(1 << 20)
    assert cache.start_load((1, (0,)), 1000, 0.0)
    entered = threading.Event()

    def read() -> None:
        entered.set()
        with cache.pinned((1, (0,)), lambda known: loaded(0), 1000, 0.0):
            pass

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(read)
        entered.wait(10)
        cache.close()
        # It either waited for the load that failed, or came after it and loads itself.
        try:
            future.result(10)
        except NczfsError as error:
            assert "closed" in str(error)  # noqa: PT017


class CacheMachine(RuleBasedStateMachine):
    """Any order of loads, hits, reservations and discards keeps the books in balance."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ChunkCache(5 * (100 + ENTRY_BYTES))
        self.reserved: list[int] = []
        self.ahead: list[int] = []

    @rule(number=st.integers(0, 9))
    def read(self, number: int) -> None:
        if number in self.ahead:
            return
        with self.cache.pinned(
            (1, (number,)), lambda known: loaded(number, 100), 100, 0.0
        ) as values:
            assert values[0] == number

    @rule(number=st.integers(0, 9))
    def start(self, number: int) -> None:
        if self.cache.start_load((1, (number,)), 100, 0.0):
            self.ahead.append(number)

    @precondition(lambda self: self.ahead)
    @rule(succeeds=st.booleans())
    def end(self, succeeds: bool) -> None:
        number = self.ahead.pop()
        if succeeds:
            self.cache.finish_load((1, (number,)), 100, loaded(number, 100))
        else:
            self.cache.fail_load((1, (number,)), 100, Unavailable("x"))

    @rule(nbytes=st.integers(1, 400))
    def reserve(self, nbytes: int) -> None:
        if self.cache.try_reserve(nbytes):
            self.reserved.append(nbytes)

    @precondition(lambda self: self.reserved)
    @rule()
    def unreserve(self) -> None:
        self.cache.unreserve(self.reserved.pop())

    @rule()
    def discard(self) -> None:
        self.cache.discard(1)

    @invariant()
    def the_budget_holds_and_adds_up(self) -> None:
        held = sum(
            100 + ENTRY_BYTES for n in range(10) if self.cache.peek((1, (n,)), 0.0) is not None
        )
        expected = held + sum(self.reserved) + 100 * len(self.ahead)
        assert self.cache.used_bytes == expected <= self.cache.limit_bytes


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
