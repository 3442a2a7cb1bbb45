"""Reading several chunks of a near store: by how many threads, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nczfs.codecs.buffers import Scratch
from nczfs.engine.options import EngineOptions
from nczfs.errors import CorruptChunk
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Faulty
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap

CHUNKS, ROW = 32, 256
CHUNK_BYTES = ROW * 4
THREADS = 2
LZ4 = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}

Values = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture
def values() -> Values:
    return np.arange(CHUNKS * ROW, dtype="i4").reshape(CHUNKS, ROW)


@pytest.fixture
def memory(values: Values) -> MemoryZMap:
    memory = MemoryZMap()
    with open_zmap(memory, "w") as dataset:
        for name, sign in (("v", 1), ("w", -1)):
            v = dataset.create_variable(
                name, values.shape, "i4", chunks=(1, ROW), fillvalue=-1, codecs=[LZ4]
            )
            v[...] = sign * values
    return memory


def read(memory: MemoryZMap, budget: int, before: Callable[[], object]) -> Values:
    """Every other element, with something done before each chunk is asked for."""

    def before_call(operation: str, key: str) -> None:
        if operation == "read" and key.startswith("v/") and not key.startswith("v/."):
            before()

    options = EngineOptions(memory_limit_bytes=budget, cache_bytes_max=0, decode_threads=THREADS)
    with open_zmap(Faulty(memory, before_call=before_call), options=options) as dataset:
        found: Values = dataset.variables["v"][:, ::2]
        return found


def most_at_a_time(wanted: int, timeout_s: float) -> tuple[Callable[[], None], threading.Event]:
    """A wait until so many threads are in it at once, and whether that came to pass."""
    together = threading.Barrier(wanted)
    met = threading.Event()

    def wait() -> None:
        if met.is_set() or together.broken:
            return
        try:
            together.wait(timeout_s)
        except threading.BrokenBarrierError:
            return
        met.set()

    return wait, met


def test_more_chunks_are_waited_for_than_decoded_at_a_time(
    memory: MemoryZMap, values: Values
) -> None:
    """The processors have something to do while the disk is waited for."""
    wait, met = most_at_a_time(2 * THREADS, timeout_s=20)
    np.testing.assert_array_equal(read(memory, 1 << 20, wait), values[:, ::2])
    assert met.is_set()


def test_no_more_than_decoded_at_a_time_where_memory_is_short(
    memory: MemoryZMap, values: Values
) -> None:
    wait, met = most_at_a_time(THREADS + 1, timeout_s=0.3)
    np.testing.assert_array_equal(read(memory, 8 * CHUNK_BYTES, wait), values[:, ::2])
    assert not met.is_set()


def test_a_chunk_that_is_wrong_is_named_and_the_others_can_be_read(
    memory: MemoryZMap, values: Values
) -> None:
    memory.write(parse_key("v/7.0"), b"\0" * 100)
    with open_zmap(memory) as dataset:
        v = dataset.variables["v"]
        with pytest.raises(CorruptChunk, match=r"v/7\.0"):
            v[:, ::2]
        np.testing.assert_array_equal(v[8:, ::2], values[8:, ::2])


def test_readers_at_the_same_time_each_get_their_own_values(
    memory: MemoryZMap, values: Values
) -> None:
    """Memory is used again from chunk to chunk, and nothing of it is handed out."""
    with open_zmap(memory) as dataset, ThreadPoolExecutor(6) as readers:

        def one(number: int) -> tuple[Values, Values]:
            name, sign = ("v", 1) if number % 2 else ("w", -1)
            step = 1 + number % 5
            return dataset.variables[name][::step, ::step], sign * values[::step, ::step]

        for found, wanted in list(readers.map(one, range(60))):
            np.testing.assert_array_equal(found, wanted)


SHUFFLE = {"id": "shuffle", "elementsize": 4}


@pytest.mark.parametrize(
    ("dtype", "codecs", "chunks"),
    [
        ("<i4", [LZ4], (2, 3, 5)),
        ("<i4", [LZ4], (2, 2, 2)),
        ("<i4", [SHUFFLE, LZ4], (1, 3, 5)),
        (">i4", [LZ4], (1, 3, 5)),
        (">i4", [], (3, 3, 5)),
    ],
)
def test_chunks_that_are_runs_of_the_result_or_not_give_the_same_values(
    dtype: str, codecs: list[dict[str, object]], chunks: tuple[int, ...]
) -> None:
    values = np.arange(7 * 6 * 5, dtype=dtype).reshape(7, 6, 5)
    memory = MemoryZMap()
    with open_zmap(memory, "w") as dataset:
        v = dataset.create_variable(
            "v", values.shape, dtype, chunks=chunks, fillvalue=-1, codecs=codecs
        )
        v[:6] = values[:6]
    values[6] = -1
    with open_zmap(memory) as dataset:
        v = dataset.variables["v"]
        along = np.s_[:, :6, 1:5, 2, ::-1, ::2, [4, 1, 0, 2, 3], 3:, [5, 4, 3, 2, 1, 0]]
        across = [np.s_[:, 3:], np.s_[2:4, :, ::-1], np.s_[:, [5, 0, 1, 2, 3, 4]]]
        indexes: list[Any] = [*along, *across]
        for index in indexes:
            np.testing.assert_array_equal(v[index], values[index])


def test_a_chunk_that_is_a_run_of_the_result_is_decoded_into_it(
    memory: MemoryZMap, values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[int] = []
    empty = Scratch.empty

    def seen(scratch: Scratch, nbytes: int) -> Values:
        given = empty(scratch, nbytes)
        places.append(given.ctypes.data)
        return given

    monkeypatch.setattr(Scratch, "empty", seen)
    with open_zmap(memory) as dataset:
        found = dataset.variables["v"][3:11]
    np.testing.assert_array_equal(found, values[3:11])
    assert sorted(places) == [found[row].ctypes.data for row in range(8)]
