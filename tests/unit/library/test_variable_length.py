"""Chunks of elements of variable length: as large as the memory limit allows, and no larger."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

import numpy as np
import pytest

from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.options import EngineOptions
from nczfs.errors import CodecError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_group, put_json
from nczfs.views import catalog
from nczfs.views.base import View
from nczfs.zmap.keys import parse_key
from tests.support.counted import CountedStore, variable

MIB = 1 << 20


def store_with(*chunks: bytes, count: int = 1, compressed: bool = False) -> CountedStore:
    """A store with chunks of `count` byte strings; the first one of a chunk has all its bytes."""
    store = CountedStore()
    put_group(store, "")
    put_json(
        store,
        "v/.zarray",
        {
            "zarr_format": 2,
            "shape": [count * len(chunks)],
            "chunks": [count],
            "dtype": "|O",
            "compressor": {"id": "zlib", "level": 1} if compressed else None,
            "filters": [{"id": "vlen-bytes"}],
            "fill_value": None,
            "order": "C",
        },
    )
    for number, chunk in enumerate(chunks):
        data = struct.pack("<II", count, len(chunk)) + chunk + bytes(4 * (count - 1))
        store.write(parse_key(f"v/{number}"), zlib.compress(data, 1) if compressed else data)
    return store


def opened(store: CountedStore, limit_bytes: int) -> OpenDataset:
    options = EngineOptions(memory_limit_bytes=limit_bytes, cache_bytes_max=0)
    return open_zmap(store, options=options)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_chunk_is_read_up_to_the_memory_limit(compressed: bool) -> None:
    store = store_with(bytes(80 * MIB), compressed=compressed)
    with opened(store, 128 * MIB) as root:
        (found,) = root.variables["v"][...]
        assert len(found) == 80 * MIB
    with opened(store, 64 * MIB) as root, pytest.raises(CodecError, match=r"v/0: .*more than"):
        root.variables["v"][...]


def test_very_many_empty_elements_take_their_references_only() -> None:
    count = 1 << 21
    store = store_with(b"", count=count, compressed=True)
    with opened(store, 32 * MIB) as root:
        assert len(root.variables["v"][...]) == count


def test_elements_are_counted_with_the_memory_that_each_takes() -> None:
    count = 1 << 19
    store = store_with(b"", count=count)
    lengths = np.ones(count, "<u4").tobytes()
    data = np.column_stack([np.frombuffer(lengths, np.uint8).reshape(-1, 4), np.zeros(count, "u1")])
    store.write(parse_key("v/0"), struct.pack("<I", count) + data.tobytes())
    with opened(store, 64 * MIB) as root:
        assert len(root.variables["v"][...]) == count
    refused = pytest.raises(CodecError, match=r"codec 'vlen-bytes': .*--memory-limit")
    with opened(store, 16 * MIB) as root, refused:
        root.variables["v"][...]


def test_what_is_reserved_for_a_load_follows_the_chunks_that_were_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reserved: list[int] = []
    start_load = ChunkCache.start_load

    def noted(self: ChunkCache, load: ChunkLoad, nbytes: int, fresh_since: float) -> bool:
        reserved.append(nbytes)
        return start_load(self, load, nbytes, fresh_since)

    monkeypatch.setattr(ChunkCache, "start_load", noted)
    with opened(store_with(*[bytes(MIB)] * 6), 64 * MIB) as root:
        engine = root.engine_dataset.engine
        root.variables["v"][0:3]
        reserved.clear()
        root.variables["v"][3:6]
        assert reserved
        assert min(reserved) > MIB
        assert engine.cache.used_bytes < 7 * MIB  # nothing stays reserved


def views(store: CountedStore, *, bytes_max: int) -> tuple[Mapping[str, View], list[str]]:
    """The files of the variable, and its problems, with another limit for texts."""
    with pytest.MonkeyPatch.context() as patch, opened(store, 64 * MIB) as root:
        patch.setattr(catalog, "RENDERED_BYTES_MAX", bytes_max)
        dataset = root.engine_dataset
        found = catalog.variable_views(dataset, variable(dataset, "v"))
        told = json.loads(found["info.json"].layout().text())["problems"]
        return found, told


def test_a_text_is_left_out_only_if_it_must_be_longer_than_its_limit() -> None:
    store = store_with(b"", count=100)
    found, problems = views(store, bytes_max=300)  # 100 lines of two quotes each
    assert "values.txt" in found
    assert problems == []
    found, problems = views(store, bytes_max=199)
    assert "values.txt" not in found
    assert problems == [
        "values.txt: 100 elements of variable length are too many to render",
        "chunks: 100 elements of variable length are too many to render",
    ]


def test_a_text_that_turns_out_longer_than_its_limit_is_refused_and_python_reads_the_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalog, "RENDERED_BYTES_MAX", 300)
    with opened(store_with(b"x" * 400), 64 * MIB) as root:
        dataset = root.engine_dataset
        shown = variable(dataset, "v")
        lines = catalog.variable_views(dataset, shown)["values.txt"]
        chunk = catalog.chunk_view(dataset, shown, (0,))
        for name, view in {"values.txt": lines, "chunks": chunk}.items():
            with pytest.raises(CodecError, match=f"v/{name}: as text, .* more than 300 bytes"):
                view.layout()
        assert root.variables["v"][...].tolist() == [b"x" * 400]


def test_the_rows_that_wait_to_be_shown_count_in_the_memory_limit() -> None:
    store = store_with(*[b"x" * MIB] * 3)
    document = json.loads(bytes(store.read(parse_key("v/.zarray")).data))
    document |= {"shape": [1, 3], "chunks": [1, 1]}
    put_json(store, "v/.zarray", document)
    for number in range(3):
        store.write(parse_key(f"v/0.{number}"), store.read(parse_key(f"v/{number}")).data)
    with opened(store, 8 * MIB) as root:
        dataset = root.engine_dataset
        before = dataset.engine.cache.used_bytes
        text = catalog.variable_views(dataset, variable(dataset, "v"))["values.txt"].layout().text()
        assert text.count(b"\n") == 3
        dataset.engine.cache.discard(dataset.array(variable(dataset, "v")).stored)
        assert dataset.engine.cache.used_bytes < before + MIB
    with opened(store, 2 * MIB) as root:
        dataset = root.engine_dataset
        with pytest.raises(CodecError, match="a row of chunks takes more than 2097152 bytes"):
            catalog.variable_views(dataset, variable(dataset, "v"))["values.txt"].layout()
