"""Write-back: nothing is loaded that need not be, nothing acknowledged is lost, nothing else
changes, whoever else writes and whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import Unavailable, UsageError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault
from nczfs.zmap.memory import MemoryZMap
from tests.support.clients import CHUNK, FILL, LENGTH, WRITES, Client, another, created, stored


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def client(memory: MemoryZMap) -> Iterator[Client]:
    with created(memory) as client:
        yield client


def test_writing_elements_asks_nothing_of_the_store(client: Client) -> None:
    client.calls.clear()  # making the variable asked whether Zarr v3 describes one there
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


def test_the_last_writer_of_an_element_wins(memory: MemoryZMap, client: Client) -> None:
    with another(memory) as other:
        client.v[0], other.v[0] = 1, 2
        client.dataset.sync()
        other.dataset.sync()
    assert stored(memory)[0] == 2


def test_a_writer_stores_the_oldest_chunks_when_too_many_are_dirty(memory: MemoryZMap) -> None:
    """SEMANTICS W87."""
    chunks, elements = 64, 1024
    client = Client(memory, "w", budget=16 * elements * 4)
    with client.dataset as dataset:
        v = dataset.create_variable("v", (chunks * elements,), "i4", chunks=(elements,), codecs=[])
        for number in range(chunks):
            v[number * elements] = number
            assert client.writeback.memory_bytes <= 8 * elements * 4
        written = [key for operation, key in client.calls if operation == "write"]
        assert len(written) >= chunks - 8
        assert f"v/{chunks - 1}" not in written
        assert v[::elements].tolist() == list(range(chunks))


def test_the_oldest_chunks_are_as_many_as_make_room(client: Client) -> None:
    for position in (5, 1, 9):
        client.v[position] = 1
    dirty = client.writeback._dirty
    chunks = list(dirty.chunks)  # as they were written
    size = dirty.chunks[chunks[0]].nbytes
    found = {excess: dirty.oldest(excess) for excess in (0, 1, size, size + 1, 9 * size)}
    assert found == {0: [], 1: chunks[:1], size: chunks[:1], size + 1: chunks[:2], 9 * size: chunks}


def test_what_is_not_stored_counts_as_the_decoded_bytes_of_its_chunks(client: Client) -> None:
    chunk_bytes = client.v.description.array.chunk_bytes
    client.v[0] = 1
    assert client.writeback.dirty_bytes == chunk_bytes < client.writeback.memory_bytes
    client.dataset.sync()
    assert client.writeback.dirty_bytes == client.writeback.memory_bytes == 0


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
    with pytest.raises(UsageError, match="closed"):
        v[1] = 5
    with pytest.raises(UsageError, match="closed"):
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
        store_threads=threads_for_writing,
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
            start.wait(120)
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
            start.wait(120)
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
