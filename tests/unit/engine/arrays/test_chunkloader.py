"""Chunks that are loaded ahead: who loads them, who waits, and what is left after an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest

from nczfs.engine.arrays import chunkloader
from nczfs.engine.arrays.array import Array, now
from nczfs.engine.arrays.chunkloader import ChunkLoader, Claims
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions, Tally
from nczfs.errors import StructureChanged, Unavailable
from nczfs.model.grid import ChunkIndex
from nczfs.testing.datasets import put_array, put_json
from nczfs.zmap.base import Blob, Stat, Version
from nczfs.zmap.keys import Key, parse_key
from tests.conftest import ExpectedWarnings
from tests.support.counted import CountedStore, opened, variable
from tests.unit.engine.arrays.test_small_chunks import sharded

CHUNKS, LENGTH = 80, 4
WAIT_S = 60.0


class GatedStore(CountedStore):
    """A store that waits before it answers for one object."""

    def __init__(self, *, near: bool = True) -> None:
        super().__init__(near=near)
        self.held: str | None = None
        self.asked, self.gate = threading.Event(), threading.Event()

    def wait(self, key: Key) -> None:
        if key == self.held:
            self.asked.set()
            assert self.gate.wait(WAIT_S)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.wait(key)
        return super().read(key, start, stop, version=version)

    def stat(self, key: Key) -> Stat:
        self.wait(key)
        return super().stat(key)


class Case:
    """An array of small chunks, and what is asked for it."""

    all: ClassVar[list[Case]] = []

    def __init__(self, store: CountedStore | None = None, *, near: bool = True) -> None:
        self.all.append(self)
        self.store = GatedStore(near=near)
        if store is None:
            put_json(self.store, ".zgroup", {"zarr_format": 2})
            put_array(self.store, "v", np.arange(CHUNKS * LENGTH, dtype="<i4"), (LENGTH,))
        self.engine = Engine(EngineOptions())
        dataset = opened(store or self.store, self.engine)
        self.array: Array = dataset.array(variable(dataset, "v"))
        self.cache = self.engine.cache
        self.used = self.cache.used_bytes

    def request(self, chunks: int = CHUNKS, since: float = 0.0) -> None:
        self.array.request_run(0, chunks * LENGTH, Tally(), since)

    def read(self, chunk: int, since: float = 0.0) -> list[int]:
        out = np.empty(LENGTH, "i4")
        self.array.read_run(chunk * LENGTH, out, Tally(), since)
        return [int(each) for each in out]

    def read_all(self) -> None:
        self.array.read_run(0, np.empty(CHUNKS * LENGTH, "i4"), Tally())

    def is_idle(self) -> bool:
        return not self.cache._loads and self.cache.used_bytes == self.used


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    """No thread of a test goes on in the next one."""
    yield
    while Case.all:
        Case.all.pop().engine.close()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks each task has; a task has time to load them all."""
    monkeypatch.setattr(chunkloader, "_IN_TURN_S", 3600.0)
    given: list[int] = []
    real = ChunkLoader._fetch

    def fetch(self: ChunkLoader, claims: Claims, *others: Any) -> bool:
        given.append(len(claims))
        return real(self, claims, *others)

    monkeypatch.setattr(ChunkLoader, "_fetch", fetch)
    return given


def expected(chunk: int) -> list[int]:
    return [*range(chunk * LENGTH, (chunk + 1) * LENGTH)]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.usefixtures("given")
def test_no_reader_waits_for_a_chunk_that_another_one_keeps_from_being_loaded(
    is_known: bool,
) -> None:
    case = Case()
    since = 0.0
    if is_known:
        case.read_all()
        since = now()
    case.store.held = "v/0"
    case.request(16, since)
    assert case.store.asked.wait(WAIT_S)
    with ThreadPoolExecutor(2) as pool:
        found = pool.submit(lambda: [case.read(chunk, since) for chunk in range(1, 16)])
        try:
            assert found.result(WAIT_S) == [expected(chunk) for chunk in range(1, 16)]
        finally:
            case.store.gate.set()
        assert pool.submit(case.read, 0, since).result(WAIT_S) == expected(0)
    case.engine.pools.fetch.shutdown()
    assert not case.cache._loads
    assert case.store.reads["v/7"] == 1  # the reader's; the thread has nothing left to load


def test_a_thread_hands_out_the_rest_of_its_chunks_if_the_store_is_slow(
    given: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunkloader, "_IN_TURN_S", -1.0)
    case = Case()
    ends = threading.Semaphore(0)
    finish = ChunkCache.finish_load

    def finished(self: ChunkCache, *given: Any) -> None:
        finish(self, *given)
        ends.release()

    monkeypatch.setattr(ChunkCache, "finish_load", finished)
    case.request(16)
    for _ in range(16):
        assert ends.acquire(timeout=WAIT_S)
    assert not case.cache._loads
    assert [case.read(chunk) for chunk in range(16)] == [expected(chunk) for chunk in range(16)]
    assert given == [16] + [1] * 16
    assert all(case.store.reads[f"v/{chunk}"] == 1 for chunk in range(16))


def stop_at(chunks: int) -> Iterator[ChunkIndex]:
    yield from ((chunk,) for chunk in range(chunks))
    raise KeyboardInterrupt


@pytest.mark.parametrize("near", [True, False])
def test_no_claim_is_left_when_a_request_is_interrupted_between_chunks(near: bool) -> None:
    case = Case(sharded())
    with pytest.raises(KeyboardInterrupt):
        case.array._chunks.request_all(stop_at(3), Tally(), 0.0, near=near)
    assert case.is_idle()
    case = Case()
    with pytest.raises(KeyboardInterrupt):
        case.array._chunks.request_all(stop_at(3), Tally(), 0.0, near=True)
    assert case.is_idle()
    assert case.read(0) == expected(0)


@pytest.mark.parametrize("method", ["start_load", "_fetch"])
@pytest.mark.parametrize("is_grouped", [True, False])
def test_no_claim_is_left_when_a_claim_or_its_task_is_interrupted(
    method: str, is_grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(sharded() if is_grouped else None)

    def interrupted(real: Callable[..., bool]) -> Callable[..., bool]:
        def call(*given: Any, **named: Any) -> bool:
            if method == "start_load":
                assert real(*given, **named)
            raise KeyboardInterrupt

        return call

    of = ChunkCache if method == "start_load" else ChunkLoader
    monkeypatch.setattr(of, method, interrupted(getattr(of, method)))
    with pytest.raises(KeyboardInterrupt):
        case.request(16)
    assert case.is_idle()
    with pytest.raises(KeyboardInterrupt):
        case.array.request((0,), Tally())
    assert case.is_idle()


def test_confirmed_chunks_stay_in_the_thread(
    given: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunkloader, "_SMALL_MAX", 1)  # small ones are decoded there anyway
    case = Case()
    case.read_all()
    submitted: list[object] = []
    decode = case.engine.pools.decode
    submit = decode.submit
    decode.submit = lambda *call: submitted.append(call) or submit(*call)  # type: ignore
    case.request(CHUNKS, since := now())
    case.engine.pools.fetch.shutdown()
    assert not submitted
    assert given[-3:] == [32, 32, 16]  # and no more than that at a time
    assert case.array._chunks.is_in_memory((CHUNKS - 1,), since)


def test_a_thread_loads_no_more_than_sixty_four_chunks_in_turn(given: list[int]) -> None:
    case = Case()
    case.request()
    assert given == [64, 16]


def test_chunks_of_a_far_store_are_not_grouped(given: list[int]) -> None:
    case = Case(near=False)
    case.request(16)
    assert given == [1] * 16


@pytest.mark.parametrize("near", [True, False], ids=["small path", "one by one"])
@pytest.mark.usefixtures("given")
def test_readers_of_an_array_that_has_ended_are_told_so_whatever_failed(
    near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They got CorruptChunk, because the objects were those of another array."""
    case = Case(near=near)
    errors: list[Exception] = []
    end = ChunkCache.end_load

    def failed(self: ChunkCache, load: ChunkLoad, error: Any = None) -> None:
        errors.append(error)
        end(self, load, error)

    monkeypatch.setattr(ChunkCache, "end_load", failed)
    case.store.held = "v/0"
    case.store.write(parse_key("v/0"), b"abc")
    case.request(2)
    assert case.store.asked.wait(WAIT_S)
    case.array.stored.end("/v: another client has replaced it")
    case.store.gate.set()
    case.engine.pools.fetch.shutdown()
    case.engine.pools.decode.shutdown()
    assert errors
    assert all(isinstance(each, StructureChanged) for each in errors)
    assert case.is_idle()
    if near:
        assert not case.store.reads["v/1"]  # it was the thread's next one


def ended(case: Case, monkeypatch: pytest.MonkeyPatch, method: str) -> list[str]:
    """End the array when its source is asked, and let that fail. Returns what was asked."""
    asked: list[str] = []

    def fail(*_: object) -> None:
        asked.append(method)
        case.array.stored.end("gone")
        raise Unavailable("no route")

    monkeypatch.setattr(type(case.array._chunks.source), method, fail)
    return asked


def test_a_reader_of_an_array_that_has_ended_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()
    ended(case, monkeypatch, "fetch_several")
    with pytest.raises(StructureChanged):
        case.read(0)


def test_a_reader_past_the_cache_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()
    ended(case, monkeypatch, "fetch_several")
    with pytest.raises(StructureChanged):
        case.array._chunks.copy_past_cache([], np.empty(0, "i4"), Tally())


def test_the_store_is_not_asked_for_chunks_of_an_array_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(near=False)
    asked = ended(case, monkeypatch, "fetch_several")
    case.array.stored.end("gone")
    case.request(4)
    case.engine.pools.fetch.shutdown()
    assert not asked
    assert case.is_idle()


def test_a_chunk_that_was_decoded_after_the_array_had_ended_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case()
    real = ChunkLoader.counted

    def counted(self: ChunkLoader, *given: Any) -> Any:
        case.array.stored.end("gone")
        return real(self, *given)

    monkeypatch.setattr(ChunkLoader, "counted", counted)
    case.request(2)
    case.engine.pools.fetch.shutdown()
    assert case.is_idle()
    assert not case.array._chunks.holds((0,))


@pytest.mark.parametrize(("near", "pool"), [(True, "fetch"), (False, "fetch"), (False, "decode")])
def test_no_claim_is_left_when_a_pool_takes_no_task(near: bool, pool: str) -> None:
    case = Case(near=near)
    getattr(case.engine.pools, pool).shutdown()
    case.request(2)
    case.engine.pools.fetch.shutdown()
    assert case.is_idle()


class Hoarding:
    """A pool that starts no thread: it keeps what it is given, and says that it has failed."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], Any]] = []

    def submit(self, call: Callable[..., Any], *given: Any) -> None:
        self.tasks.append(lambda: call(*given))
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(("near", "pool"), [(True, "fetch"), (False, "fetch"), (False, "decode")])
def test_a_task_that_was_given_up_and_runs_later_changes_nothing(near: bool, pool: str) -> None:
    """Its chunk was put over a newer one, and its bytes were given back twice."""
    case = Case(near=near)
    hoarding = Hoarding()
    pools = case.engine.pools
    pools._pools[pool] = hoarding  # type: ignore[assignment]
    case.request(2)
    if pool == "decode":
        pools._pools.pop("fetch").shutdown()
    del pools._pools[pool]
    assert case.is_idle()
    changed = np.full(LENGTH, 9, "<i4").tobytes()
    case.store.write(parse_key("v/0"), changed)
    assert case.read(0) == [9] * LENGTH
    used = case.cache.used_bytes
    for task in hoarding.tasks:
        task()
    assert case.read(0) == [9] * LENGTH
    assert case.cache.used_bytes == used
    assert not case.cache._loads


class Panic(BaseException):
    """What codecs written in Rust raise when they panic: no Exception."""


@pytest.mark.parametrize("near", [True, False])
def test_no_load_is_left_by_a_codec_that_panics(
    near: bool, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("loading a chunk ahead failed")
    case = Case(near=near)
    real = ChunkLoader.counted

    def panicking(self: ChunkLoader, *given: Any) -> Any:
        raise Panic("index out of bounds")

    monkeypatch.setattr(ChunkLoader, "counted", panicking)
    case.request(4)
    case.engine.pools.fetch.shutdown()
    case.engine.pools.decode.shutdown()
    assert case.is_idle()
    monkeypatch.setattr(ChunkLoader, "counted", real)
    assert case.read(0) == expected(0)


@pytest.mark.parametrize("is_grouped", [True, False])
def test_no_reader_waits_for_threads_that_another_store_keeps_waiting(is_grouped: bool) -> None:
    """Both stores have one engine, as all that a program opens through xarray."""
    case = Case(sharded() if is_grouped else None, near=False)
    gate = threading.Event()
    for _ in range(EngineOptions().fetch_threads):
        case.engine.pools.fetch.submit(gate.wait)
    case.request(4)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: [case.read(chunk) for chunk in range(4)])
        try:
            assert found.result(WAIT_S) == [expected(chunk) for chunk in range(4)]
        finally:
            gate.set()
    case.engine.pools.fetch.shutdown()
    assert not case.cache._loads


def test_the_chunks_of_a_shard_are_fetched_together_even_if_a_reader_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunkloader, "_UNIT_PATIENCE_S", WAIT_S)
    store = sharded()
    case = Case(store)
    case.request(4)
    assert [case.read(chunk) for chunk in range(4)] == [expected(chunk) for chunk in range(4)]
    assert store.reads["v/c/0"] == 2  # the index, and the chunks
