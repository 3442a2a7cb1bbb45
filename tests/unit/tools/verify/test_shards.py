"""Verifying shards: what is wrong with an index, or unusual, is found alone and by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nczfs.codecs.shardindex import Places, index_codec
from nczfs.engine.dataset import Engine
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_json
from nczfs.tools.verify.findings import FindingKind
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.sharded import INDEX_CODECS
from tests.support.verifying import verify

KEY = parse_key("v/c/0/1")
CODEC = index_codec(INDEX_CODECS, 4)


@pytest.fixture
def store() -> MemoryZMap:
    """A dataset of two shards of four chunks, of 100 bytes each."""
    store = MemoryZMap()
    numbers: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    inside = {
        "chunk_shape": [5, 5],
        "codecs": [numbers],
        "index_codecs": [numbers, {"name": "crc32c"}],
    }
    put_json(store, "zarr.json", {"zarr_format": 3, "node_type": "group"})
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 20],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 10]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": inside}],
    }
    put_json(store, "v/zarr.json", document)
    with open_zmap(store, "r+") as dataset:
        dataset.variables["v"][...] = np.arange(1, 201).reshape(10, 20)
    return store


def placed(change: Callable[[Places], None]) -> Callable[[bytearray], bytes]:
    def spoiled(data: bytearray) -> bytes:
        places = CODEC.decode(data[-CODEC.nbytes :])
        change(places)
        return bytes(data[: -CODEC.nbytes]) + CODEC.encode(places)

    return spoiled


def put(number: int, *place: int) -> Callable[[bytearray], bytes]:
    def change(places: Places) -> None:
        places[number] = place

    return placed(change)


def flipped(data: bytearray) -> bytes:
    data[-30] ^= 1
    return bytes(data)


DAMAGE: dict[str, tuple[Callable[[bytearray], bytes], FindingKind, str]] = {
    "a chunk beyond the shard": (
        put(1, 1 << 40, 100),
        FindingKind.CHUNK,
        "the index of the shard places a chunk of 100 bytes at 1099511627776",
    ),
    "a chunk that is too short": (put(1, 0, 99), FindingKind.CHUNK, "chunk [0, 3]: "),
    "a wrong checksum": (flipped, FindingKind.CHUNK, "the index of the shard: the checksum is"),
    "a shard that was cut off": (
        lambda data: bytes(data[:50]),
        FindingKind.CHUNK,
        "the index of the shard has 50 bytes instead of 68",
    ),
    "chunks that share bytes": (
        put(1, 50, 100),
        FindingKind.OVERLAP,
        "chunk [0, 2] and chunk [0, 3] share the bytes 50 to 100",
    ),
    "the same place for two chunks": (
        put(3, 0, 100),
        FindingKind.OVERLAP,
        "chunk [0, 2] and chunk [1, 3] share the bytes 0 to 100",
    ),
    "a chunk in the index": (
        put(3, 350, 100),
        FindingKind.OVERLAP,
        "chunk [1, 3] and the index share the bytes 400 to 450",
    ),
}


def test_nothing_is_found_in_sound_shards(store: MemoryZMap, engine: Engine) -> None:
    assert verify(store, engine) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_a_shard_is_found_alone(store: MemoryZMap, engine: Engine, damage: str) -> None:
    change, kind, message = DAMAGE[damage]
    store.write(KEY, change(bytearray(store.read(KEY).data)))
    found = verify(store, engine)
    assert [
        each.kind for each in found if each.kind is not FindingKind.OVERLAP or kind is each.kind
    ] == [kind]
    (finding,) = [each for each in found if each.kind is kind]
    assert (finding.path, finding.key) == ("/v", str(KEY))
    assert message in finding.message


def test_many_shared_bytes_are_one_finding(store: MemoryZMap, engine: Engine) -> None:
    def change(places: Places) -> None:
        places[:] = (0, 100)

    store.write(KEY, placed(change)(bytearray(store.read(KEY).data)))
    (finding,) = verify(store, engine)
    assert finding.message.endswith("share the bytes 0 to 100, and 2 more share bytes with others")


def test_of_very_many_broken_chunks_of_an_object_most_are_counted(
    store: MemoryZMap, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.tools.verify.chunks.TROUBLES_MAX", 1)

    def change(places: Places) -> None:
        places[:] = (1 << 40, 1)

    store.write(KEY, placed(change)(bytearray(store.read(KEY).data)))
    found = [each for each in verify(store, engine) if each.kind is FindingKind.CHUNK]
    assert "chunk of 1 bytes at" in found[0].message
    assert [each.message for each in found[1:]] == ["3 more chunks of it are not as they should be"]
