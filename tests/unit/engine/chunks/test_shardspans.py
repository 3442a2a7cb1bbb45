"""Where all chunks of a shard are: the same as asked one by one, and in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections import deque
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.codecs.shardindex import index_codec
from nczfs.engine.chunks.shardlayout import Path
from nczfs.engine.chunks.shardspans import StoredChunks
from nczfs.errors import CorruptChunk
from nczfs.model.boxes import Box
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.support.sharded import INDEX_CODECS
from tests.unit.engine.chunks.test_shardio import RecordingStore, described, opened

KEY = Key("v/c/0/0")
PLACES = st.sampled_from([(2**64 - 1, 2**64 - 1), (0, 4), (2, 8), (10**9, 4), (2**63, 2**63),
                          (0, 2**64 - 1), (16, 0), (0, 68), (68, 68), (0, 136), (3, 70)]
)  # fmt: skip


def index_of(places: list[tuple[int, int]]) -> bytes:
    return index_codec(INDEX_CODECS, len(places)).encode(np.array(places, np.uint64))


@given(
    shape=st.tuples(st.integers(3, 8), st.integers(3, 8)),
    order=st.sampled_from([(), (1, 0)]),
    levels=st.sampled_from([1, 2]),
    data=st.data(),
)
def test_all_chunks_of_an_index_are_where_each_of_them_is(
    shape: tuple[int, int], order: tuple[int, ...], levels: int, data: st.DataObject
) -> None:
    array = described(shape, (2, 1) if levels == 1 else (1, 1), *[(2, 2)] * levels, order=order)
    store = RecordingStore()
    count = 2 if levels == 2 else 1
    parts = [index_of(data.draw(st.lists(PLACES, min_size=4, max_size=4))) for _ in range(count)]
    store.write(
        KEY, b"".join(parts) + index_of(data.draw(st.lists(PLACES, min_size=4, max_size=4)))
    )
    io = opened(store, array)
    inside = array.chunks_of((0, 0))
    stored, spans = io.stored_in((0, 0)), io._spans((0, 0))[0]

    def one_by_one(reader: object) -> list[tuple[int, int, int]]:
        paths: list[Path] = io._paths((0, 0), product(*map(range, inside.start, inside.stop)))
        places = reader.places(paths)  # type: ignore[attr-defined]
        known = [(n, p if isinstance(p, tuple) else (0, 0)) for n, p in enumerate(places) if p]
        return [(n, *place) for n, place in known]

    found = io._now((0, 0), 0, one_by_one)
    assert found is not None
    assert spans.tolist() == [list(row) for row in found[0]]
    every = list(inside.indexes())
    assert list(stored) == [every[row[0]] for row in found[0]]
    assert [chunk in stored for chunk in every] == [chunk in set(stored) for chunk in every]


def test_chunks_are_kept_in_few_bytes_each() -> None:
    box = Box((5, 7), (205, 1007))
    stored = StoredChunks(box, np.arange(0, 2 * 10**5, 2))
    tracemalloc.start()
    try:
        (last,) = deque(stored, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(stored), last) == (100_000, (204, 1005))
    asked = [(5, 7), (5, 8), (4, 7), (5, 1007), (5,), 5]
    assert [chunk in stored for chunk in asked] == [True] + 5 * [False]
    assert peak < 6 << 20


def test_shards_that_share_the_bytes_of_ever_more_chunks_are_corrupt() -> None:
    """Three shards within each other, of 8,192 entries: 5 x 10^11 chunks in 400 KiB."""
    count = 1 << 13
    array = described((count**3,), (1,), *[(count,)] * 3, dtype="|u1")
    store, data = MemoryZMap(), b"x"
    for _ in range(3):
        data += index_of([(0, len(data))] * count)
    store.write(Key("v/c/0"), data)
    for ask in (opened(store, array).stored_in, opened(store, array).oddities):
        with pytest.raises(CorruptChunk, match="v/c/0: shards inside share bytes"):
            ask((0,))
