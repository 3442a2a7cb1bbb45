"""The chunk cache: one load a chunk, a budget that holds, pins, errors that pass on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nczfs.engine.chunks import entries
from nczfs.engine.chunks.cache import ENTRY_BYTES, ChunkCache
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.spill import no_tier
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.errors import CorruptChunk, NczfsError, Unavailable
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

A = StoredArray(MemoryZMap(), ArrayPlace(ROOT))


def loaded(number: int, nbytes: int = 1000, version: str = "v") -> LoadedChunk:
    return LoadedChunk(np.full(nbytes, number % 256, np.uint8), nbytes, Version(version))


def started(cache: ChunkCache, chunk: int, nbytes: int = 1000, **options: float) -> ChunkLoad:
    """A load that is claimed, and that nobody has begun."""
    load = ChunkLoad((A, (chunk,)), **options)
    assert cache.start_load(load, nbytes, 0.0)
    return load


def begun(cache: ChunkCache, chunk: int) -> ChunkLoad:
    load = started(cache, chunk)
    assert cache.begin_load(load)
    return load


def read(cache: ChunkCache, chunk: int, number: int) -> int:
    """Read a chunk, which is full of a number if it has to be loaded."""
    with cache.pinned((A, (chunk,)), lambda known: loaded(number), 1000, 0.0) as values:
        return int(values[0])


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released by each thread that begins to wait for a load."""
    waiting = threading.Semaphore(0)

    class Waited(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waiting.release()
            return super().wait(timeout)

    monkeypatch.setattr(entries, "threading", SimpleNamespace(Event=Waited))
    return waiting


def test_a_chunk_that_many_want_is_loaded_once() -> None:
    cache = ChunkCache(1 << 20)
    readers = 8
    together = threading.Barrier(readers)
    release = threading.Event()
    loads: list[int] = []

    def load(known: LoadedChunk | None) -> LoadedChunk:
        loads.append(1)
        release.wait(120)
        return loaded(7)

    def read() -> int:
        together.wait(120)
        with cache.pinned((A, (0,)), load, 1000, 0.0) as values:
            return int(values[0])

    with ThreadPoolExecutor(readers) as pool:
        futures = [pool.submit(read) for _ in range(readers)]
        release.set()
        assert [future.result(120) for future in futures] == [7] * readers
    assert len(loads) == 1


def test_the_error_of_a_load_reaches_everybody_who_waits_and_is_not_kept() -> None:
    cache = ChunkCache(1 << 20)
    started, release = threading.Event(), threading.Event()

    def fail(known: LoadedChunk | None) -> LoadedChunk:
        started.set()
        release.wait(120)
        raise CorruptChunk("v/0: torn")

    def read() -> None:
        with cache.pinned((A, (0,)), fail, 1000, 0.0):
            pass

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(read)
        started.wait(120)
        second = pool.submit(read)
        release.set()
        for future in (first, second):
            with pytest.raises(CorruptChunk, match="torn"):
                future.result(120)
    with cache.pinned((A, (0,)), lambda known: loaded(3), 1000, 0.0) as values:
        assert values[0] == 3


def test_a_pinned_chunk_is_not_evicted() -> None:
    cache = ChunkCache(3 * (1000 + ENTRY_BYTES))
    with cache.pinned((A, (0,)), lambda known: loaded(0), 1000, 0.0):
        for number in range(1, 20):
            with cache.pinned((A, (number,)), lambda known: loaded(1), 1000, 0.0):
                pass
        assert cache.peek((A, (0,)), 0.0) is not None
    assert cache.used_bytes <= cache.limit_bytes


def test_a_chunk_larger_than_the_budget_is_read_and_not_kept() -> None:
    cache = ChunkCache(500)
    with cache.pinned((A, (0,)), lambda known: loaded(9, 1000), 1000, 0.0) as values:
        assert values[0] == 9
    assert cache.peek((A, (0,)), 0.0) is None
    assert cache.used_bytes == 0


def test_a_chunk_confirmed_too_long_ago_is_shown_to_the_loader_again() -> None:
    clock = iter(float(second) for second in range(100))
    cache = ChunkCache(1 << 20, clock=lambda: next(clock))
    with cache.pinned((A, (0,)), lambda known: loaded(1, version="old"), 1000, 0.0):
        pass
    seen: list[object] = []

    def confirm(known: LoadedChunk | None) -> LoadedChunk:
        assert known is not None
        seen.append(known.version)
        return known

    assert cache.peek((A, (0,)), 50.0) is None
    with cache.pinned((A, (0,)), confirm, 1000, 0.5) as values:
        assert values[0] == 1
    assert seen == ["old"]


def test_reading_ahead_is_dropped_when_everything_is_pinned() -> None:
    cache = ChunkCache(2 * (1000 + ENTRY_BYTES))
    with (
        cache.pinned((A, (0,)), lambda known: loaded(0), 1000, 0.0),
        cache.pinned((A, (1,)), lambda known: loaded(0), 1000, 0.0),
    ):
        assert not cache.start_load(ChunkLoad((A, (2,))), 1000, 0.0)
        assert not cache.try_reserve(1000)
    load = started(cache, 2)
    cache.end_load(load, Unavailable("gone"))
    assert cache.used_bytes <= cache.limit_bytes


def test_whoever_waits_when_the_cache_is_closed_gets_an_error() -> None:
    cache = ChunkCache(1 << 20)
    begun(cache, 0)
    entered = threading.Event()

    def read() -> None:
        entered.set()
        with cache.pinned((A, (0,)), lambda known: loaded(0), 1000, 0.0):
            pass

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(read)
        entered.wait(120)
        cache.close()
        # It either waited for the load that failed, or came after it and loads itself.
        try:
            future.result(120)
        except NczfsError as error:
            assert "closed" in str(error)  # noqa: PT017


def test_a_dropped_chunk_is_loaded_anew() -> None:
    cache = ChunkCache(1 << 20)
    for number in (1, 2):
        with cache.pinned((A, (0,)), lambda known, n=number: loaded(n), 1000, 0.0) as values:  # type: ignore[misc]
            assert values[0] == number
        cache.drop((A, (0,)))
    assert cache.used_bytes == 0


def test_a_chunk_that_is_put_is_shown_and_takes_the_place_of_the_old_one() -> None:
    cache = ChunkCache(1 << 20)
    with cache.pinned((A, (0,)), lambda known: loaded(1), 1000, 0.0):
        pass
    cache.put((A, (0,)), loaded(2, 3000, "v2"))
    values = cache.peek((A, (0,)), 0.0)
    assert values is not None
    assert values[0] == 2
    assert cache.used_bytes == 3000 + ENTRY_BYTES


def test_a_chunk_that_is_put_after_closing_is_not_kept() -> None:
    cache = ChunkCache(1 << 20)
    cache.close()
    cache.put((A, (0,)), loaded(2))
    assert cache.used_bytes == 0


@pytest.mark.parametrize("is_put", [False, True], ids=["drop", "put"])
def test_a_load_that_was_under_way_when_its_chunk_changed_is_not_kept(is_put: bool) -> None:
    """Its own reader began before; those who come later, or waited, get the new values."""
    cache = ChunkCache(1 << 20)
    started, release = threading.Event(), threading.Event()

    def old(known: LoadedChunk | None) -> LoadedChunk:
        started.set()
        release.wait(120)
        return loaded(1)

    def read(load: Callable[[LoadedChunk | None], LoadedChunk]) -> int:
        with cache.pinned((A, (0,)), load, 1000, 0.0) as values:
            return int(values[0])

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(read, old)
        started.wait(120)
        second = pool.submit(read, lambda known: loaded(2))
        if is_put:
            cache.put((A, (0,)), loaded(2))
        else:
            cache.drop((A, (0,)))
        release.set()
        assert second.result(120) == 2
        assert first.result(120) in (1, 2)
    assert read(lambda known: loaded(2)) == 2
    assert cache.used_bytes == 1000 + ENTRY_BYTES


def test_what_was_read_ahead_and_dropped_meanwhile_is_not_kept() -> None:
    cache = ChunkCache(1 << 20)
    load = begun(cache, 0)
    cache.drop((A, (0,)))
    assert not cache.start_load(ChunkLoad((A, (0,))), 1000, 0.0)
    cache.finish_load(load, loaded(1), None)
    assert cache.peek((A, (0,)), 0.0) is None
    assert cache.used_bytes == 0


def test_a_load_that_ends_after_closing_still_reaches_its_reader() -> None:
    cache = ChunkCache(1 << 20)

    def load(known: LoadedChunk | None) -> LoadedChunk:
        cache.close()
        return loaded(3)

    with cache.pinned((A, (0,)), load, 1000, 0.0) as values:
        assert values[0] == 3


def test_a_load_that_began_before_is_not_fresh_enough_for_who_comes_after() -> None:
    """Else what was fetched before a file was opened could be shown as what it held then."""
    seconds = 1.0
    cache = ChunkCache(1 << 20, clock=lambda: seconds)
    load = begun(cache, 0)
    seconds = 9.0
    cache.finish_load(load, loaded(1), None)
    assert cache.peek((A, (0,)), 1.0) is not None
    assert cache.peek((A, (0,)), 5.0) is None


def test_what_was_read_goes_before_what_was_read_ahead() -> None:
    cache = ChunkCache(4 * (1000 + ENTRY_BYTES))
    for number in range(3):
        with cache.pinned((A, (number,)), lambda known: loaded(0), 1000, 0.0):
            pass
        assert cache.peek((A, (number,)), 0.0) is not None
    cache.finish_load(begun(cache, 3), loaded(3), None)
    with cache.pinned((A, (4,)), lambda known: loaded(4), 1000, 0.0):
        pass
    assert cache.peek((A, (3,)), 0.0) is not None
    assert cache.peek((A, (0,)), 0.0) is None


def test_a_reader_takes_over_a_load_that_nobody_has_begun() -> None:
    cache = ChunkCache(1 << 20)
    load = started(cache, 0)
    assert not cache.start_load(ChunkLoad((A, (0,))), 1000, 0.0)
    assert read(cache, 0, 7) == 7
    assert not cache.begin_load(load)
    cache.end_load(load)
    assert cache.used_bytes == 1000 + ENTRY_BYTES


def test_a_reader_waits_for_a_load_to_begin_as_long_as_that_has_patience() -> None:
    cache = ChunkCache(1 << 20)
    load = ChunkLoad((A, (0,)), patience_s=120.0)
    assert cache.start_load(load, 1000, 0.0)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read, cache, 0, 7)
        assert cache.begin_load(load)
        cache.finish_load(load, loaded(1), None)
        assert reader.result(120) == 1
    load = ChunkLoad((A, (1,)), patience_s=0.01)
    assert cache.start_load(load, 1000, 0.0)
    assert read(cache, 1, 7) == 7
    assert not cache.begin_load(load)


def test_a_load_that_has_ended_changes_nothing_of_a_later_one() -> None:
    """A thread that was given up may still come, and with old bytes."""
    seconds = 1.0
    cache = ChunkCache(1 << 20, clock=lambda: seconds)
    first = started(cache, 0)
    cache.drop((A, (0,)))
    second = started(cache, 0, 2000)
    assert not cache.begin_load(first)
    cache.end_load(first, Unavailable("late"))
    cache.finish_load(first, loaded(1), None)
    assert cache.used_bytes == 2000
    assert cache.peek((A, (0,)), 0.0) is None
    assert cache.begin_load(second)
    cache.finish_load(second, loaded(2), None)
    seconds = 5.0
    cache.finish_load(second, loaded(3), None)
    assert read(cache, 0, 7) == 2
    assert cache.peek((A, (0,)), 2.0) is None
    assert cache.used_bytes == 1000 + ENTRY_BYTES


@pytest.mark.parametrize(
    "void",
    [
        lambda cache: cache.drop((A, (0,))),
        lambda cache: cache.discard(A),
        lambda cache: cache.close(),
        lambda cache: cache.put((A, (0,)), loaded(1, cache.limit_bytes)),
    ],
    ids=["drop", "discard", "close", "put"],
)
def test_a_claim_that_is_void_has_given_its_bytes_back(void: Callable[[ChunkCache], None]) -> None:
    cache = ChunkCache(1 << 20)
    load = started(cache, 0)
    void(cache)
    assert cache.used_bytes == 0
    assert not cache.begin_load(load)
    assert cache.used_bytes == 0


def test_a_load_under_way_gives_its_bytes_back_when_the_cache_is_closed() -> None:
    cache = ChunkCache(1 << 20)
    load = begun(cache, 0)
    cache.close()
    assert cache.used_bytes == 0
    cache.finish_load(load, loaded(1), None)
    assert cache.used_bytes == 0


@pytest.mark.parametrize("is_begun", [True, False])
def test_who_waits_for_a_load_that_is_ended_without_an_error_loads_the_chunk(
    is_begun: bool, waiting: threading.Semaphore
) -> None:
    cache = ChunkCache(1 << 20)
    load = begun(cache, 0) if is_begun else started(cache, 0, patience_s=120.0)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read, cache, 0, 7)
        assert waiting.acquire(timeout=120)
        for _ in range(2):
            cache.end_load(load)
        assert reader.result(120) == 7
    assert cache.used_bytes == 1000 + ENTRY_BYTES


@pytest.mark.parametrize("step", ["known", "wait_for", "flush", "load", "wait_briefly"])
def test_a_reader_that_is_interrupted_leaves_no_load(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later readers of the chunk waited for ever, and other loads took turns for no reason."""
    tier = no_tier()
    cache = ChunkCache(1 << 20, tier=tier)

    def interrupted(*_: object) -> LoadedChunk:
        raise KeyboardInterrupt

    if step != "load":
        monkeypatch.setattr(cache._turn if step == "wait_for" else tier, step, interrupted)
    load = interrupted if step == "load" else lambda known: loaded(1)
    with pytest.raises(KeyboardInterrupt), cache.pinned((A, (0,)), load, 1000, 0.0):
        pass
    monkeypatch.undo()
    assert (cache._loads, cache._loading, cache.used_bytes) == ({}, 0, 0)
    assert read(cache, 0, 7) == 7


def test_who_waits_for_a_reader_that_is_interrupted_loads_the_chunk(
    waiting: threading.Semaphore,
) -> None:
    cache = ChunkCache(1 << 20)

    def interrupted(known: LoadedChunk | None) -> LoadedChunk:
        reader.append(pool.submit(read, cache, 0, 7))
        assert waiting.acquire(timeout=120)
        raise KeyboardInterrupt

    reader: list[Future[int]] = []
    with ThreadPoolExecutor(1) as pool:
        with (
            pytest.raises(KeyboardInterrupt),
            cache.pinned((A, (0,)), interrupted, 1000, 0.0),
        ):
            pass
        assert reader[0].result(120) == 7


def test_who_waits_for_a_turn_when_the_cache_is_closed_gets_an_error() -> None:
    cache = ChunkCache(1000 + ENTRY_BYTES)
    release, loading = threading.Event(), threading.Event()

    def slow(known: LoadedChunk | None) -> LoadedChunk:
        loading.set()
        release.wait(120)
        return loaded(1)

    def hold() -> int:
        with cache.pinned((A, (0,)), slow, 1000, 0.0) as values:
            return int(values[0])

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(hold)
        assert loading.wait(120)
        second = pool.submit(read, cache, 1, 7)
        while (A, (1,)) not in cache._loads:
            time.sleep(0.001)
        cache.close()
        release.set()
        assert first.result(120) == 1
        with pytest.raises(Unavailable, match="closed"):
            second.result(120)
    assert (cache._loading, cache.used_bytes) == (0, 0)


class CacheMachine(RuleBasedStateMachine):
    """Any order of loads, hits, reservations and discards keeps the books in balance."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ChunkCache(5 * (100 + ENTRY_BYTES))
        self.reserved: list[int] = []
        self.ahead: list[ChunkLoad] = []
        self.under_way: set[ChunkLoad] = set()

    @rule(number=st.integers(0, 9))
    def read(self, number: int) -> None:
        if any(each.index == (number,) and each.is_begun for each in self.under_way):
            return

        def load(known: LoadedChunk | None) -> LoadedChunk:
            self.under_way -= {each for each in self.under_way if each.index == (number,)}
            return loaded(number, 100)

        with self.cache.pinned((A, (number,)), load, 100, 0.0) as values:
            assert values[0] == number

    @rule(number=st.integers(0, 9))
    def start(self, number: int) -> None:
        load = ChunkLoad((A, (number,)))
        if self.cache.start_load(load, 100, 0.0):
            self.ahead.append(load)
            self.under_way.add(load)

    @precondition(lambda self: self.ahead)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        load = data.draw(st.sampled_from(self.ahead))
        assert self.cache.begin_load(load) == (load in self.under_way)

    @precondition(lambda self: self.ahead)
    @rule(succeeds=st.booleans(), is_late=st.booleans())
    def end(self, succeeds: bool, is_late: bool) -> None:
        load = self.ahead[-1] if is_late else self.ahead.pop()  # one that is late ends twice
        self.under_way.discard(load)
        if succeeds:
            self.cache.finish_load(load, loaded(load.index[0], 100), None)
        else:
            self.cache.end_load(load, Unavailable("x"))

    @rule(nbytes=st.integers(1, 400))
    def reserve(self, nbytes: int) -> None:
        if self.cache.try_reserve(nbytes):
            self.reserved.append(nbytes)

    @precondition(lambda self: self.reserved)
    @rule()
    def unreserve(self) -> None:
        self.cache.claim(-self.reserved.pop())

    @rule()
    def discard(self) -> None:
        self.cache.discard(A)
        self.under_way = {each for each in self.under_way if each.is_begun}

    @invariant()
    def the_budget_holds_and_adds_up(self) -> None:
        held = sum(
            100 + ENTRY_BYTES for n in range(10) if self.cache.peek((A, (n,)), 0.0) is not None
        )
        expected = held + sum(self.reserved) + 100 * len(self.under_way)
        assert self.cache.used_bytes == expected <= self.cache.limit_bytes


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
