"""Write-back: nothing is loaded that need not be, nothing acknowledged is lost, nothing else
changes, whoever else writes and whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from nczfs.engine.api import OpenDataset
from nczfs.engine.opening import open_zmap
from nczfs.engine.options import EngineOptions
from nczfs.engine.variable import Variable
from nczfs.engine.writeback import WriteBack
from nczfs.errors import NotWritable, StoreError, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap

CHUNK = 4
LENGTH = 10  # two whole chunks, and a half one at the edge
FILL = -1
WRITES = frozenset({"write"})


class Client:
    """One program that has the dataset open; sees what it asks of the store, and can spoil it.

    Attributes
    ----------
    calls : operation and key of every call about a chunk.
    before : called before each such call.
    """

    def __init__(self, memory: MemoryZMap, mode: str = "r+", budget: int = 1 << 20) -> None:
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.zmap = Faulty(memory, before_call=self._note)
        options = EngineOptions(
            memory_limit_bytes=budget, cache_bytes_max=0, fetch_threads=3, decode_threads=2
        )
        self.dataset = open_zmap(self.zmap, mode, options=options)

    def _note(self, operation: str, key: str) -> None:
        if key.startswith("v/") and not key.startswith("v/."):
            self.calls.append((operation, key))
            self.before(operation, key)

    @property
    def v(self) -> Variable:
        return self.dataset.variables["v"]

    @property
    def writeback(self) -> WriteBack:
        return self.dataset._dataset.engine.writeback


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def client(memory: MemoryZMap) -> Iterator[Client]:
    with created(memory) as client:
        yield client


@contextmanager
def created(memory: MemoryZMap, **options: Any) -> Iterator[Client]:
    client = Client(memory, "w", **options.pop("client", {}))
    with client.dataset:
        variable = {"dimensions": (LENGTH,), "dtype": "i4", "chunks": (CHUNK,), "fillvalue": FILL}
        client.dataset.create_variable("v", **{**variable, "codecs": [], **options})
        client.dataset.sync()
        yield client


@contextmanager
def another(memory: MemoryZMap) -> Iterator[Client]:
    client = Client(memory)
    with client.dataset:
        yield client


def stored(memory: MemoryZMap) -> list[int]:
    """The values that somebody else finds in the store."""
    with open_zmap(memory) as dataset:
        return list(map(int, dataset.variables["v"][...]))


def chunk_keys(memory: MemoryZMap) -> set[str]:
    return {str(stat.key) for stat in memory.list(parse_prefix("v")) if "/." not in stat.key}


def test_writing_elements_asks_nothing_of_the_store(client: Client) -> None:
    client.v[1:3] = [7, 8]
    client.v[5] = 9
    client.v[[0, 9]] = 3
    assert client.calls == []


def test_a_chunk_that_was_written_whole_is_never_read(memory: MemoryZMap, client: Client) -> None:
    client.v[...] = 1
    client.dataset.sync()
    client.calls.clear()
    for position in (3, 1, 0, 2):  # element by element
        client.v[position] = position
    client.v[4:8] = 4  # in one go
    client.v[8:10] = 5  # as much as there is of the last one
    client.dataset.sync()
    assert {operation for operation, _ in client.calls} == {"write"}
    assert stored(memory) == [0, 1, 2, 3, 4, 4, 4, 4, 5, 5]


def test_a_chunk_that_was_written_whole_is_in_the_store_when_the_write_returns(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0:4] = 6
    assert stored(memory)[:4] == [6] * 4


def test_a_chunk_in_memory_is_replaced_by_what_is_written_over_it(memory: MemoryZMap) -> None:
    with created(memory, codecs=None) as client:
        client.v[0:8] = 5
        assert [client.v[1], client.v[1], client.v[6], client.v[6]] == [5] * 4
        client.calls.clear()
        assert client.v[1] == 5
        assert client.calls == [], "it is in memory"
        client.v[0:4] = 6
        client.v[5] = 7
        assert client.v[...].tolist() == [6, 6, 6, 6, 5, 7, 5, 5, FILL, FILL]


def test_the_array_that_was_written_from_belongs_to_the_caller_again(
    memory: MemoryZMap, client: Client
) -> None:
    values = np.arange(LENGTH, dtype=np.int32)
    client.v[...] = values
    values[...] = 99
    assert client.v[...].tolist() == list(range(LENGTH))
    client.dataset.sync()
    assert stored(memory) == list(range(LENGTH))


def test_what_was_written_is_seen_at_once_with_the_rest_of_the_chunk_from_the_store(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[...] = range(LENGTH)
    client.dataset.sync()
    with another(memory) as fresh:
        fresh.v[2] = 77
        assert fresh.v[0:4].tolist() == [0, 1, 77, 3]
        assert stored(memory)[2] == 2, "only a flush stores it"
        fresh.dataset.sync()
    assert stored(memory)[:4] == [0, 1, 77, 3]


def test_writers_of_different_elements_of_a_chunk_keep_what_the_other_wrote(
    memory: MemoryZMap, client: Client
) -> None:
    with another(memory) as other:
        client.v[0], other.v[1] = 10, 11
        client.dataset.sync()
        other.dataset.sync()
        client.v[2], other.v[3] = 12, 13
        assert client.v[...].tolist()[:2] == [10, FILL], "its copy of the chunk is an older one"
        other.dataset.sync()
        client.dataset.sync()
    assert stored(memory)[:4] == [10, 11, 12, 13]


@pytest.mark.parametrize("there", [False, True])
def test_a_write_of_another_client_between_reading_and_replacing_is_kept(
    memory: MemoryZMap, client: Client, there: bool
) -> None:
    if there:
        client.v[0:4] = 5
    with another(memory) as other:
        other.v[3] = 33
        intrusions: list[str] = []

        def intrude(operation: str, key: str) -> None:
            if operation == "write" and not intrusions:
                intrusions.append(key)
                other.dataset.sync()

        client.before = intrude
        client.v[0] = 30
        client.dataset.sync()
    base = 5 if there else FILL
    assert intrusions == ["v/0"]
    assert stored(memory)[:4] == [30, base, base, 33]
    assert client.v[0:4].tolist() == [30, base, base, 33]


def test_the_last_writer_of_an_element_wins(memory: MemoryZMap, client: Client) -> None:
    with another(memory) as other:
        client.v[0], other.v[0] = 1, 2
        client.dataset.sync()
        other.dataset.sync()
    assert stored(memory)[0] == 2


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("there", [False, True])
def test_a_failed_flush_keeps_what_was_written_and_the_next_one_repairs_it(
    memory: MemoryZMap, client: Client, after: bool, there: bool
) -> None:
    if there:
        client.v[0:4] = 5
    client.v[1] = 21
    client.zmap.arm(Fault(0, after=after, operations=WRITES))
    with pytest.raises(Unavailable):
        client.dataset.sync()
    assert client.v[1] == 21
    assert client.writeback.dirty_bytes > 0
    client.v[2] = 22
    with another(memory) as other:
        other.v[3] = 23
    client.dataset.sync()
    assert client.writeback.dirty_bytes == 0
    base = 5 if there else FILL
    assert stored(memory)[:4] == [base, 21, 22, 23]


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whichever_call_of_a_flush_fails_nothing_is_lost_and_nothing_else_changes(
    memory: MemoryZMap, client: Client, call: int, after: bool
) -> None:
    client.v[0:4] = [0, 1, 2, 3]
    client.v[1:8:3] = [101, 104, 107]
    client.zmap.arm(Fault(call, after=after))
    try:
        client.dataset.sync()
    except StoreError:
        assert client.zmap.fired
    client.zmap.arm()
    found = stored(memory)
    assert all(new in {old, wrote} for new, old, wrote in zip(found, BEFORE, AFTER, strict=True))
    assert client.v[...].tolist() == AFTER
    client.dataset.sync()
    assert stored(memory) == AFTER


BEFORE = [0, 1, 2, 3, *[FILL] * 6]
AFTER = [0, 101, 2, 3, 104, FILL, FILL, 107, FILL, FILL]


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_who_writes_whole_chunks_is_told_of_the_failure_and_nothing_stays_behind(
    memory: MemoryZMap, client: Client, after: bool
) -> None:
    client.zmap.arm(Fault(0, after=after, operations=WRITES, repeats=2))
    with pytest.raises(Unavailable):
        client.v[0:8] = 9
    assert client.writeback.find((client.dataset._dataset.array_numbers()[0], (0,))) is None
    client.v[0:8] = 9
    assert stored(memory)[:8] == [9] * 8
    assert client.v[0:8].tolist() == [9] * 8


@contextmanager
def held(client: Client, operation: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first such call about a chunk waits: (it has begun, let it go on)."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(called: str, key: str) -> None:
        if called == operation and not begun.is_set():
            begun.set()
            assert go_on.wait(30)

    client.before = hold
    try:
        yield begun, go_on
    finally:
        go_on.set()


def test_what_is_written_during_a_flush_is_not_lost(memory: MemoryZMap, client: Client) -> None:
    client.v[0] = 1
    with ThreadPoolExecutor(1) as pool, held(client, "write") as (begun, go_on):
        flush = pool.submit(client.dataset.sync)
        assert begun.wait(30)
        client.v[0], client.v[1] = 2, 3
        assert client.v[0:2].tolist() == [2, 3]
        go_on.set()
        flush.result(30)
    assert stored(memory)[:2] == [1, FILL], "the flush is of what was written before it"
    assert client.v[0:2].tolist() == [2, 3]
    client.calls.clear()
    client.dataset.sync()
    assert stored(memory)[:2] == [2, 3]
    assert client.calls == [("write", "v/0")], "what was just stored need not be read again"


def test_a_second_flush_waits_for_the_first_one_of_the_same_chunk(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0] = 1
    with ThreadPoolExecutor(2) as pool, held(client, "write") as (begun, go_on):
        first = pool.submit(client.dataset.sync)
        assert begun.wait(30)
        client.v[1] = 2
        second = pool.submit(client.dataset.sync)
        assert not second.done()
        go_on.set()
        first.result(30)
        second.result(30)
    assert stored(memory)[:2] == [1, 2]


def test_who_waits_for_a_flush_that_fails_stores_it_itself(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0] = 1
    client.zmap.arm(Fault(0, operations=WRITES))
    with ThreadPoolExecutor(2) as pool, held(client, "write") as (begun, go_on):
        first = pool.submit(client.dataset.sync)
        assert begun.wait(30)
        second = pool.submit(client.writeback.flush)
        go_on.set()
        assert isinstance(first.exception(30), Unavailable)
        second.result(30)
    assert stored(memory)[0] == 1


def test_an_element_written_while_its_whole_chunk_is_stored_from_elsewhere_is_newer(
    memory: MemoryZMap, client: Client
) -> None:
    values = np.zeros(CHUNK, np.int32)
    with ThreadPoolExecutor(1) as pool, held(client, "write") as (begun, go_on):
        whole = pool.submit(client.v.__setitem__, slice(0, CHUNK), values)
        assert begun.wait(30)
        client.v[1] = 7
        assert values.tolist() == [0] * CHUNK
        assert client.writeback.dirty_bytes > 0, "it has memory of its own now, which counts"
        go_on.set()
        whole.result(30)
    assert client.v[0:4].tolist() == [0, 7, 0, 0]
    client.dataset.sync()
    assert stored(memory)[:4] == [0, 7, 0, 0]


def test_a_load_that_began_before_a_flush_does_not_bring_old_values_back(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0:4] = 1
    with another(memory) as fresh, ThreadPoolExecutor(1) as pool:
        original = fresh.zmap._zmap.read
        begun, go_on = threading.Event(), threading.Event()

        def late(*arguments: Any, **options: Any) -> Any:
            blob = original(*arguments, **options)
            begun.set()
            assert go_on.wait(30)
            return blob

        fresh.zmap._zmap.read = late  # type: ignore[method-assign]
        read = pool.submit(lambda: fresh.v[0:4])
        assert begun.wait(30)
        fresh.zmap._zmap.read = original  # type: ignore[method-assign]
        fresh.v[0:4] = 2
        go_on.set()
        assert set(read.result(30).tolist()) <= {1, 2}
        assert fresh.v[0:4].tolist() == [2] * 4


def test_a_chunk_of_fill_is_not_stored_where_there_is_none(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[...] = FILL
    client.v[5] = FILL
    client.dataset.sync()
    assert chunk_keys(memory) == set()
    assert client.writeback.dirty_bytes == 0
    assert client.v[...].tolist() == [FILL] * LENGTH


@pytest.mark.parametrize("index", [slice(0, 4), slice(1, 4)], ids=["whole", "in part"])
def test_a_chunk_of_fill_replaces_one_that_is_there(
    memory: MemoryZMap, client: Client, index: slice
) -> None:
    client.v[0:4] = [FILL, 1, 2, 3]
    client.v[index] = FILL
    client.dataset.sync()
    assert chunk_keys(memory) == {"v/0"}
    assert stored(memory) == [FILL] * LENGTH


def test_without_a_fill_value_a_chunk_of_zeros_is_stored_as_others_would_read_anything(
    memory: MemoryZMap,
) -> None:
    with created(memory, fillvalue=None) as client:
        client.v[0:4] = 0
        client.v[5] = 0
        client.dataset.sync()
        assert chunk_keys(memory) == {"v/0", "v/1"}


def test_negative_zero_is_not_taken_for_a_fill_value_of_zero(memory: MemoryZMap) -> None:
    with created(memory, dtype="f8", fillvalue=0.0) as client:
        client.v[0:8] = -0.0
        client.v[9] = -0.0
    with open_zmap(memory) as dataset:
        assert np.signbit(dataset.variables["v"][...]).tolist() == [True] * 8 + [False, True]


def test_the_payload_of_a_nan_survives_beside_a_fill_value_of_nan(memory: MemoryZMap) -> None:
    odd = np.array([0x7FF800000000BEEF] * LENGTH, np.uint64).view(np.float64)
    with created(memory, dtype="f8", fillvalue=float("nan")) as client:
        client.v[0:5] = odd[:5]
        client.v[5:] = odd[5:]
    with open_zmap(memory) as dataset:
        assert dataset.variables["v"][...].tobytes() == odd.tobytes()


def test_a_writer_stores_the_oldest_chunks_when_too_many_are_dirty(memory: MemoryZMap) -> None:
    chunks, elements = 64, 1024
    client = Client(memory, "w", budget=16 * elements * 4)
    with client.dataset as dataset:
        v = dataset.create_variable("v", (chunks * elements,), "i4", chunks=(elements,), codecs=[])
        for number in range(chunks):
            v[number * elements] = number
            assert client.writeback.dirty_bytes <= 8 * elements * 4
        written = [key for operation, key in client.calls if operation == "write"]
        assert len(written) >= chunks - 8
        assert f"v/{chunks - 1}" not in written
        assert v[::elements].tolist() == list(range(chunks))


def test_with_no_budget_at_all_every_write_is_stored_at_once(memory: MemoryZMap) -> None:
    with created(memory, client={"budget": 0}) as client:
        client.v[3] = 1
        assert stored(memory)[3] == 1
        assert client.writeback.dirty_bytes == 0


def test_closing_stores_everything_and_then_nothing_can_be_written(memory: MemoryZMap) -> None:
    with created(memory) as client:
        v = client.v
        v[1] = 4
        client.dataset.attrs["title"] = "t"
    assert client.writeback.dirty_bytes == 0
    assert stored(memory)[1] == 4
    with pytest.raises(NotWritable, match="closed"):
        v[1] = 5
    with pytest.raises(NotWritable, match="closed"):
        v.attrs["units"] = "m"


def test_a_flush_of_one_array_leaves_the_others(memory: MemoryZMap, client: Client) -> None:
    w = client.dataset.create_variable("w", (4,), "i4", chunks=(4,))
    client.dataset.sync()
    client.v[0], w[0] = 1, 2
    dataset = client.dataset._dataset
    dataset.array(client.v.description).flush()
    assert stored(memory)[0] == 1
    with open_zmap(memory) as reader:
        assert reader.variables["w"][0] != 2


@pytest.mark.parametrize("threads_for_writing", [1, 3])
def test_threads_that_write_one_variable_leave_what_each_wrote_last(
    memory: MemoryZMap, threads_for_writing: int
) -> None:
    """Some have elements of their own in chunks that they share, some whole chunks in turns."""
    writers, rounds, chunks = 4, 25, 6
    elements = 8
    options = EngineOptions(
        memory_limit_bytes=6000,
        cache_bytes_max=0,
        fetch_threads=threads_for_writing,
        decode_threads=2,
    )
    with open_zmap(memory, "w", options=options) as dataset:
        v = dataset.create_variable("v", (chunks * elements,), "i8", chunks=(elements,))
        own = dataset.create_variable("own", (chunks * elements,), "i8", chunks=(elements,))
        last: list[np.ndarray[Any, np.dtype[Any]]] = []
        start = threading.Barrier(writers + 1)

        def write(number: int) -> None:
            random = np.random.default_rng(number)
            mine = np.arange(number, chunks * elements, writers)
            start.wait(30)
            for turn in range(rounds):
                some = mine[random.random(len(mine)) < 0.5]
                own[some] = 1000 * turn + some
                values[some] = 1000 * turn + some
                first = int(random.integers(chunks)) * elements
                v[first : first + elements] = np.full(elements, 100 * number + turn)
                position = int(random.integers(chunks * elements))
                assert int(v[position]) in {v.fill_value, *range(100 * writers)}
                if turn % 5 == number:
                    dataset.sync()

        values = np.full(chunks * elements, own.fill_value, np.int64)
        last.append(values)
        with ThreadPoolExecutor(writers + 1) as pool:
            running = [pool.submit(write, number) for number in range(writers)]
            start.wait(30)
            for future in running:
                future.result(60)
        np.testing.assert_array_equal(own[...], values)
        for row in v[...].reshape(chunks, elements):
            assert len(set(row.tolist())) == 1, "whole chunks are replaced as a whole"
    with open_zmap(memory) as reader:
        np.testing.assert_array_equal(reader.variables["own"][...], values)


def test_a_failure_to_make_room_is_told_and_loses_nothing(memory: MemoryZMap) -> None:
    with created(memory, client={"budget": 0}) as client:
        client.zmap.arm(Fault(0, operations=WRITES))
        with pytest.raises(Unavailable):
            client.v[3] = 1
        assert client.v[3] == 1
    assert stored(memory)[3] == 1


def test_a_dataset_whose_store_is_gone_says_so_when_it_is_closed(memory: MemoryZMap) -> None:
    client = Client(memory, "w")
    dataset: OpenDataset = client.dataset
    dataset.create_variable("v", (LENGTH,), "i4", chunks=(CHUNK,))[1] = 1
    client.zmap.arm(Fault(0, operations=WRITES, repeats=100))
    with pytest.raises(Unavailable):
        dataset.close()
