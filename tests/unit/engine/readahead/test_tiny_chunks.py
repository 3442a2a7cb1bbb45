"""Chunks of few bytes: what is read ahead of them is bounded by what each one takes besides."""

from __future__ import annotations

import pytest

from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.options import EngineOptions, Tally
from nczfs.library.opening import open_zmap
from nczfs.zmap.memory import MemoryZMap

LIMIT = 1 << 20
LENGTH = 1 << 18


def test_the_budget_counts_what_the_load_of_a_tiny_chunk_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hint for 2^22 chunks of 4 bytes took 14 s and 400 MiB."""
    store = MemoryZMap()
    with open_zmap(store, "w", format="zarr3") as dataset:
        dataset.create_variable(
            "v", (LENGTH,), "i4", chunks=(1,), shards=(LENGTH // 16,), fillvalue=0
        )
    looked: list[ChunkId] = []
    start_load = ChunkCache.start_load

    def counted(self: ChunkCache, load: ChunkLoad, nbytes: int, fresh_since: float) -> bool:
        looked.append(load.chunk_id)
        return start_load(self, load, nbytes, fresh_since)

    monkeypatch.setattr(ChunkCache, "start_load", counted)
    with open_zmap(store, options=EngineOptions(memory_limit_bytes=LIMIT)) as dataset:
        array = dataset._dataset.array(dataset.variables["v"].description)
        array.request_run(0, LENGTH, Tally(), 0.0)
        assert 0 < len(looked) <= LIMIT >> 12
        assert not dataset.variables["v"][: LENGTH // 32].any()
