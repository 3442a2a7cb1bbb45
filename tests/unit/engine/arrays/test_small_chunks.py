"""Small chunks are loaded several at a time, where the store is near."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nczfs.engine.arrays import chunkloader, selectionreader
from nczfs.engine.arrays.array import now
from nczfs.engine.arrays.chunkloader import ChunkLoader, Claims
from nczfs.engine.arrays.selection import Selection
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions, Tally
from nczfs.errors import CorruptChunk
from nczfs.testing.datasets import put_array, put_json
from nczfs.zmap.base import Blob, Version
from nczfs.zmap.keys import Key, parse_key
from tests.support.counted import CountedStore, opened, variable

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CHUNKS, LENGTH, PER_SHARD = 64, 4, 32
VALUES = np.arange(CHUNKS * LENGTH, dtype="<i4")


class ShardStore(CountedStore):
    """A near store, where something may happen before a part of a shard is read."""

    def __init__(self) -> None:
        super().__init__(near=True)
        self.before: Callable[[], None] | None = None

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        if version is not None and self.before is not None:
            before, self.before = self.before, None
            before()
        return super().read(key, start, stop, version=version)


def sharded() -> ShardStore:
    store = ShardStore()
    sharding = {"chunk_shape": [LENGTH], "codecs": [LITTLE], "index_codecs": [LITTLE]}
    put_json(store, "zarr.json", {"zarr_format": 3, "node_type": "group"})
    put_json(store, "v/zarr.json", {
        "zarr_format": 3, "node_type": "array", "shape": [CHUNKS * LENGTH], "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [PER_SHARD * LENGTH]}},
        "chunk_key_encoding": "default", "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    })  # fmt: skip
    nbytes = 4 * LENGTH
    for shard in range(CHUNKS // PER_SHARD):
        data = VALUES.tobytes()[shard * PER_SHARD * nbytes : (shard + 1) * PER_SHARD * nbytes]
        index = np.array([(n * nbytes, nbytes) for n in range(PER_SHARD)], "<u8").tobytes()
        store.write(parse_key(f"v/c/{shard}"), data + index)
    return store


def everything(store: ShardStore) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    dataset = opened(store, Engine(EngineOptions(decode_threads=2)))
    out = np.empty(VALUES.shape, "i4")
    array = dataset.array(variable(dataset, "v"))
    array.read_selection(Selection((range(VALUES.size),)), out, Tally())
    return out


def test_small_chunks_of_a_shard_are_fetched_together() -> None:
    """Each was a request of its own, which took as long as decoding it."""
    store = sharded()
    assert everything(store).tolist() == VALUES.tolist()
    assert sum(store.reads[f"v/c/{shard}"] for shard in range(2)) < CHUNKS // 2


def test_of_large_chunks_one_is_fetched_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectionreader, "TOGETHER_BYTES", 4 * LENGTH)
    store = sharded()
    assert everything(store).tolist() == VALUES.tolist()
    assert store.reads["v/c/0"] == 1 + PER_SHARD  # the index, and each chunk


def test_a_corrupt_chunk_among_them_is_named() -> None:
    store = sharded()
    key = parse_key("v/c/1")
    data = bytearray(store.read(key).data)
    data[-8:] = (1 << 40).to_bytes(8, "little")
    store.write(key, bytes(data))
    with pytest.raises(CorruptChunk, match=r"v/c/1: .*places a chunk of 1099511627776 bytes"):
        everything(store)


def test_a_shard_that_is_replaced_meanwhile_is_read_anew() -> None:
    store = sharded()
    keys = [parse_key("v/c/0"), parse_key("v/c/1")]
    data = [bytes(store.read(key).data) for key in keys]

    def replace() -> None:
        for key, old in zip(keys, data, strict=True):
            store.write(key, bytes(16) + old[16:])

    store.before = replace
    found = everything(store).reshape(2, -1)
    assert found[:, LENGTH:].tolist() == VALUES.reshape(2, -1)[:, LENGTH:].tolist()
    assert not found[:, :LENGTH].any()


def in_objects() -> CountedStore:
    """A near store with 16 chunks that are objects, of which number 3 is damaged, and 5 missing."""
    store = CountedStore(near=True)
    put_json(store, ".zgroup", {"zarr_format": 2})
    put_array(store, "v", np.arange(64, dtype="<i4"), (4,))
    store.write(parse_key("v/3"), b"abc")
    store.delete(parse_key("v/5"))
    return store


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks a thread was given, each time; it has time to load them all."""
    monkeypatch.setattr(chunkloader, "_IN_TURN_S", 3600.0)
    together: list[int] = []
    real = ChunkLoader._fetch

    def fetch(self: ChunkLoader, claims: Claims, tally: Tally, since: float) -> bool:
        together.append(len(claims))
        return real(self, claims, tally, since)

    monkeypatch.setattr(ChunkLoader, "_fetch", fetch)
    return together


def test_a_thread_loads_several_small_chunks_ahead_and_each_has_its_own_error(
    together: list[int],
) -> None:
    """A task for each took ten times as long as loading a chunk that is missing."""
    store = in_objects()
    dataset = opened(store, Engine(EngineOptions()))
    array = dataset.array(variable(dataset, "v"))
    array.request_run(0, 64, Tally(), 0.0)
    assert together == [16]
    for chunk in range(16):
        out = np.empty(4, "i4")
        if chunk == 3:
            with pytest.raises(CorruptChunk, match="v/3"):
                array.read_run(4 * chunk, out, Tally())
            continue
        array.read_run(4 * chunk, out, Tally())
        expected = [0] * 4 if chunk == 5 else [*range(4 * chunk, 4 * chunk + 4)]
        assert out.tolist() == expected
    assert store.reads["v/7"] == 1


def test_tiny_chunks_of_a_near_store_are_loaded_by_the_reader_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ChunkLoader, "_fetch", None)  # which other threads would be asked by
    store = in_objects()
    dataset = opened(store, Engine(EngineOptions()))
    out = np.empty(40, "i4")
    dataset.array(variable(dataset, "v")).read_run(24, out, Tally())
    assert out.tolist() == [*range(24, 64)]


@pytest.mark.parametrize("is_small", [True, False], ids=["small", "large"])
def test_a_thread_confirms_several_chunks_that_are_in_memory(
    together: list[int], monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """However large they are. One has changed since, one is damaged, and one is gone."""
    if not is_small:
        monkeypatch.setattr(chunkloader, "_SMALL_MAX", 1)
    store = CountedStore(near=True)
    put_json(store, ".zgroup", {"zarr_format": 2})
    put_array(store, "v", np.arange(1, 65, dtype="<i4"), (4,))
    dataset = opened(store, Engine(EngineOptions()))
    array = dataset.array(variable(dataset, "v"))
    out = np.empty(64, "i4")
    array.read_run(0, out, Tally())
    store.write(parse_key("v/2"), np.full(4, -2, "<i4").tobytes())
    store.write(parse_key("v/3"), b"abc")
    store.delete(parse_key("v/5"))
    before, since = sum(store.reads[f"v/{chunk}"] for chunk in range(16)), now()
    array.request_run(0, 64, Tally(), since)
    assert together == [16]
    for chunk in range(16):
        part = out[4 * chunk : 4 * chunk + 4]
        if chunk == 3:
            with pytest.raises(CorruptChunk, match="v/3"):
                array.read_run(4 * chunk, part, Tally(), since)
        else:
            array.read_run(4 * chunk, part, Tally(), since)
    expected = np.arange(1, 65).reshape(16, 4)
    expected[2], expected[5] = -2, 0
    found = np.delete(out.reshape(16, 4), 3, 0)
    assert found.tolist() == np.delete(expected, 3, 0).tolist()
    # What has not changed is not read, and what has is read once: the damaged one may be twice.
    assert sum(store.reads[f"v/{chunk}"] for chunk in range(16)) - before <= 5
