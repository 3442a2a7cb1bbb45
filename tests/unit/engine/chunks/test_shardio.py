"""Chunks in shards: what is asked of the store, and what is stored."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias, Unpack

import numpy as np
import pytest

from nczfs.buffers import Buffer
from nczfs.codecs.shardindex import MISSING, are_missing, in_a_row, index_codec
from nczfs.engine.chunks import shardwrite
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.shardindexes import ShardIndexes, ShardMemory
from nczfs.engine.chunks.shardio import ShardIO
from nczfs.engine.metadata.ledger import Ledger, Shelf
from nczfs.engine.options import MissingChunks
from nczfs.errors import CodecError, Conflict, CorruptChunk, MissingChunk, UnknownCodec
from nczfs.formats.elementtypes import data_type
from nczfs.model.grid import ChunkIndex, UnevenCuts
from nczfs.model.hierarchy import ArrayDescription, ChunkKeys, CodecChain, CodecSpec
from nczfs.zmap.base import ABSENT, Blob, ByteRange, Features, Part, Stat, Version, WriteOptions
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support import waiting
from tests.support.sharded import INDEX_CODECS, in_shards

Values: TypeAlias = "dict[ChunkIndex, np.ndarray[Any, Any]]"

MIB = 1 << 20
KEY = Key("v/c/0/0")


class RecordingStore(MemoryZMap):
    """A far store that notes what is asked of it, and lets readers wait."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.sent: list[list[Part]] = []
        self.gate = threading.Event()
        self.gate.set()

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.calls.append(("read", start, stop))
        self.gate.wait(120)
        return super().read(key, start, stop, version=version)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        self.calls.append(("write",))
        return super().write(key, data, **options)

    def write_parts(
        self, key: Key, parts: Sequence[Part], **options: Unpack[WriteOptions]
    ) -> Version:
        self.sent.append(list(parts))
        return super().write_parts(key, parts, **options)

    def stat(self, key: Key) -> Stat:
        self.calls.append(("stat",))
        return super().stat(key)

    def took(self) -> list[str]:
        """The operations since the last call."""
        calls, self.calls = self.calls, []
        return [call[0] for call in calls]


def described(
    shape: tuple[int, ...] = (8, 8),
    chunk_shape: tuple[int, ...] = (2, 2),
    *levels: Sequence[int],
    index_at_end: bool = True,
    fill_value: object = -1,
    dtype: str = "<i4",
    order: tuple[int, ...] = (),
) -> ArrayDescription:
    array = ArrayDescription(
        shape,
        chunk_shape,
        data_type(dtype, (), ""),
        fill_value,
        CodecChain(2),
        ChunkKeys("/", "c", "c"),
    )
    array = in_shards(array, *(levels or ((4, 4),)), index_at_end=index_at_end)
    return replace(array, shards=tuple(replace(each, order=order) for each in array.shards))


def opened(store: MemoryZMap, array: ArrayDescription, **options: Any) -> ShardIO:
    memory = ShardMemory(ShardIndexes(Shelf(Ledger(8 * MIB))))
    place = ArrayPlace(Prefix("v"))
    return ShardIO(store, place, array, MissingChunks.FILL, memory, **options)


def content(array: ArrayDescription) -> Values:
    """Other values for each chunk of the unit (0, 0)."""
    return {
        chunk: np.full(array.chunk_shape, 10 * number + 1, array.dtype.native)
        for number, chunk in enumerate(product(*map(range, array.grid.counts)))
        if array.unit_of(chunk) == (0,) * len(chunk)
    }


def loaded(io: ShardIO, *chunks: ChunkIndex) -> list[int]:
    """The first element of each chunk."""
    halves = io.fetch_several([(chunk, None) for chunk in chunks])
    return [int(half().values.flat[0]) for half in halves]


@pytest.fixture
def store() -> RecordingStore:
    return RecordingStore()


LAYOUTS = pytest.mark.parametrize(
    ("levels", "index_at_end", "order"),
    [
        (((4, 4),), True, ()),
        (((4, 4),), False, ()),
        (((2, 1), (2, 4)), True, ()),
        (((1, 2), (2, 1), (2, 2)), False, ()),
        (((4, 2),), True, (1, 0)),
    ],
    ids=["end", "start", "nested", "nested thrice", "transposed"],
)


@LAYOUTS
def test_each_chunk_is_read_as_it_was_stored(
    store: RecordingStore,
    levels: tuple[Sequence[int], ...],
    index_at_end: bool,
    order: tuple[int, ...],
) -> None:
    array = described((8, 8), (2, 2), *levels, index_at_end=index_at_end, order=order)
    values = content(array)
    opened(store, array).store((0, 0), values, ABSENT)
    expected = [int(each.flat[0]) for each in values.values()]
    assert loaded(opened(store, array), *values) == expected
    one_by_one = opened(store, array)
    assert [loaded(one_by_one, chunk)[0] for chunk in reversed(values)] == expected[::-1]


@LAYOUTS
def test_chunks_that_are_not_written_stay_byte_for_byte_what_they_are(
    store: RecordingStore,
    levels: tuple[Sequence[int], ...],
    index_at_end: bool,
    order: tuple[int, ...],
) -> None:
    array = described((8, 8), (2, 2), *levels, index_at_end=index_at_end, order=order)
    values = content(array)
    left_out = list(values)[5]
    values[left_out] = np.full((2, 2), -1, np.int32)
    version = opened(store, array).store((0, 0), values, ABSENT)
    io = opened(store, array)
    new = {chunk: np.full((2, 2), 7, np.int32) for chunk in list(values)[2:5]}
    assert io.store((0, 0), new, version) is not None
    wanted = [int(each.flat[0]) for each in (values | new).values()]
    assert loaded(opened(store, array), *values) == loaded(io, *values) == wanted


def test_chunks_follow_each_other_in_the_order_of_the_index_and_fill_is_left_out(
    store: RecordingStore,
) -> None:
    array = described()
    values = content(array)
    for chunk in [(0, 1), (3, 3)]:
        values[chunk] = np.full((2, 2), -1, np.int32)
    version = opened(store, array).store(
        (0, 0), {chunk: values[chunk] for chunk in reversed(values) if chunk != (1, 0)}, ABSENT
    )
    opened(store, array).store((0, 0), {(1, 0): values[1, 0]}, version)
    data = bytes(store.read(KEY).data)
    codec = index_codec(INDEX_CODECS, 16)
    places = codec.decode(data[-codec.nbytes :])
    assert np.flatnonzero(are_missing(places)).tolist() == [1, 15]
    lengths = [None if number in (1, 15) else 16 for number in range(16)]
    assert places.tolist() == in_a_row(lengths, 0).tolist()
    assert len(data) == 14 * 16 + codec.nbytes


def test_a_single_element_costs_two_requests_and_the_next_one_in_its_shard_one(
    store: RecordingStore,
) -> None:
    array = described((1 << 15, 1 << 15), (512, 512), (32, 32), dtype="|u1", fill_value=0)
    opened(store, array).store((0, 0), {(0, 1): np.ones((512, 512), np.uint8)}, ABSENT)
    version = opened(store, array).version((0, 0))
    opened(store, array).store((0, 0), {(9, 9): np.full((512, 512), 9, np.uint8)}, version)
    store.took()
    io = opened(store, array)
    assert loaded(io, (0, 1)) == [1]
    assert store.took() == ["read", "read"]
    assert loaded(io, (9, 9)) == [9]
    assert store.took() == ["read"]


@pytest.mark.parametrize(
    ("levels", "requests"), [(((4, 4),), 2), (((2, 2), (2, 2)), 3)], ids=["one level", "two levels"]
)
def test_several_chunks_of_a_shard_cost_one_request_for_each_level(
    store: RecordingStore, levels: tuple[Sequence[int], ...], requests: int
) -> None:
    array = described((8, 8), (2, 2), *levels)
    opened(store, array).store((0, 0), content(array), ABSENT)
    store.took()
    loaded(opened(store, array), (0, 0), (1, 1), (3, 2))
    assert store.took() == ["read"] * requests


def test_a_small_shard_of_which_most_is_wanted_costs_one_request(store: RecordingStore) -> None:
    array = described()
    values = content(array)
    opened(store, array).store((0, 0), values, ABSENT)
    store.took()
    io = opened(store, array)
    loaded(io, *list(values)[:8])
    assert store.took() == ["read"]
    loaded(io, *list(values)[9:11])
    assert store.took() == ["read"]


def test_threads_that_want_one_index_wait_for_one_request(store: RecordingStore) -> None:
    array = described()
    opened(store, array).store((0, 0), content(array), ABSENT)
    store.took()
    io = opened(store, array)
    store.gate.clear()
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(loaded, io, (i, i)) for i in range(4)]
        waiting.until(lambda: bool(store.calls))
        store.gate.set()
        assert [each.result() for each in found] == [[1], [51], [101], [151]]
    assert len([call for call in store.calls if call[1] < 0]) == 1


def test_an_absent_shard_is_fill_and_so_is_what_a_shard_does_not_have(
    store: RecordingStore,
) -> None:
    array = described()
    io = opened(store, array)
    (half,) = io.fetch_several([((0, 0), None)])
    assert half().version is None
    assert half().values.tolist() == [[-1, -1], [-1, -1]]
    version = io.store((0, 0), {(2, 2): np.ones((2, 2), np.int32)}, ABSENT)
    half = io.fetch((0, 0), None)
    assert half().version == version
    assert half().values.tolist() == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize("there", [False, True])
def test_missing_chunks_are_an_error_where_that_is_asked_for(
    store: RecordingStore, there: bool
) -> None:
    array = described()
    if there:
        opened(store, array).store((0, 0), {(2, 2): np.ones((2, 2), np.int32)}, ABSENT)
    io = opened(store, array)
    io._missing_chunks = MissingChunks.ERROR
    good, bad = io.fetch_several([((2, 2), None), ((0, 1), None)])
    if there:
        assert good().values.flat[0] == 1
    with pytest.raises(MissingChunk, match=r"v/c/0/0: chunk \[0, 1\]: chunk was never written"):
        bad()
    assert io.reporting(lambda _: None).fetch((0, 1), None)().values.flat[0] == -1


def test_a_shard_that_is_replaced_between_index_and_chunk_is_read_again(
    store: RecordingStore,
) -> None:
    array = described()
    values = content(array)
    other = opened(store, array)
    version = other.store((0, 0), values, ABSENT)
    io = opened(store, array)
    assert loaded(io, (3, 3)) == [151]
    other.store((0, 0), {(0, 0): np.full((2, 2), -1, np.int32)}, version)
    assert loaded(io, (3, 3), (0, 0)) == [151, -1]
    store.took()
    assert loaded(io, (0, 0)) == [-1]  # it is missing, so the version has to be asked for
    assert store.took() == ["stat"]
    store.delete(KEY)
    assert loaded(io, (3, 3)) == [-1]


def test_what_is_known_of_chunks_is_confirmed_by_one_request(store: RecordingStore) -> None:
    array = described()
    io = opened(store, array)
    version = io.store((0, 0), content(array), ABSENT)
    chunks = [(0, 0), (1, 1), (2, 2)]
    known = [half() for half in io.fetch_several([(chunk, None) for chunk in chunks])]
    store.took()
    again = io.fetch_several(list(zip(chunks, known, strict=True)))
    assert [half() for half in again] == known
    assert store.took() == ["stat"]
    io.store((0, 0), {(1, 1): np.full((2, 2), 5, np.int32)}, version)
    again = io.fetch_several(list(zip(chunks, known, strict=True)))
    assert [half().values.flat[0] for half in again] == [1, 5, 101]


def test_a_writer_that_fills_a_shard_never_reads_it(store: RecordingStore) -> None:
    array = described((7, 8))
    values = content(array)
    assert len(values) == 16
    opened(store, array).store((0, 0), values, ABSENT)
    version = opened(store, array).version((0, 0))
    store.took()
    assert opened(store, array).store((0, 0), values, version) is not None
    assert store.took() == ["write"]


def test_chunks_beyond_the_end_are_kept_where_others_may_have_made_the_array_longer(
    store: RecordingStore,
) -> None:
    longer, shorter = described((8, 8)), described((4, 8))
    version = opened(store, longer).store((0, 0), content(longer), ABSENT)
    io = opened(store, shorter, grows=(True, False))
    assert (3, 0) in set(io.members((0, 0)))
    io.store((0, 0), content(shorter), version)
    assert loaded(opened(store, longer), (3, 3)) == [151]
    fixed = opened(store, shorter)
    fixed.store((0, 0), content(shorter), fixed.version((0, 0)))
    assert loaded(opened(store, longer), (3, 3)) == [-1]


def test_a_shard_of_another_version_is_not_replaced(store: RecordingStore) -> None:
    array = described()
    io = opened(store, array)
    version = io.store((0, 0), content(array), ABSENT)
    io.store((0, 0), {(0, 0): np.zeros((2, 2), np.int32)}, version)
    for known in (io, opened(store, array)):
        with pytest.raises(Conflict):
            known.store((0, 0), {(1, 1): np.zeros((2, 2), np.int32)}, version)
    store.delete(KEY)
    with pytest.raises(Conflict):
        opened(store, array).store((0, 0), {(1, 1): np.zeros((2, 2), np.int32)}, version)


def test_a_shard_of_fill_is_stored_only_where_something_else_is_or_is_meant(
    store: RecordingStore,
) -> None:
    array = described()
    io = opened(store, array)
    fill = dict.fromkeys(content(array), np.full((2, 2), -1, np.int32))
    assert io.store((0, 0), fill, ABSENT) is None
    assert io.store((0, 0), fill, None) is None
    version = io.store((0, 0), fill, ABSENT, explicitly=True)
    assert version is not None
    assert store.stat(KEY).size == 16 * 16 + 4
    assert loaded(opened(store, array), (1, 1)) == [-1]
    version = io.store((0, 0), content(array), version)
    assert io.store((0, 0), fill, version) is not None
    assert store.stat(KEY).size == 16 * 16 + 4


def test_large_parts_that_stay_are_copied_by_the_store_and_small_ones_are_read_together(
    store: RecordingStore,
) -> None:
    array = described((16, MIB), (1, MIB), (16,), dtype="|u1", fill_value=0)
    rng = np.random.default_rng(1)
    values: Values = {
        (row, 0): rng.integers(1, 256, (1, MIB)).astype(np.uint8) for row in range(16)
    }
    version = opened(store, array).store((0, 0), values, ABSENT)
    store.took()
    store.sent.clear()
    new = np.full((1, MIB), 3, np.uint8)
    opened(store, array).store((0, 0), {(2, 0): new}, version)
    (parts,) = store.sent
    copied = [(part.start, part.stop) for part in parts if isinstance(part, ByteRange)]
    assert copied == [(3 * MIB, 16 * MIB)]
    assert [call for call in store.calls if call[0] == "read"][:2] == [
        ("read", -260, None),
        ("read", 0, 2 * MIB),
    ]
    halves = opened(store, array).fetch_several([(chunk, None) for chunk in values])
    for half, wanted in zip(halves, (values | {(2, 0): new}).values(), strict=True):
        assert np.array_equal(half().values, wanted)


def test_the_chunks_that_a_shard_has_are_told_by_its_index(store: RecordingStore) -> None:
    array = described((7, 16), (2, 2), (2, 2), (2, 2))
    io = opened(store, array)
    assert list(io.stored_in((0, 1))) == []
    io.store((0, 1), {(0, 5): np.ones((2, 2), np.int32), (3, 7): np.ones((2, 2), np.int32)}, ABSENT)
    assert list(opened(store, array).stored_in((0, 1))) == [(0, 5), (3, 7)]


@pytest.mark.parametrize("levels", [((1, 1),), ((2, 1), (1, 1))], ids=["one level", "two levels"])
def test_units_may_have_various_lengths(
    store: RecordingStore, levels: tuple[Sequence[int], ...]
) -> None:
    array = described((12, 2), (2, 2), *levels)
    array = replace(array, cuts=(UnevenCuts(((4, 1), (8, 1))), UnevenCuts(((2, 1),))))
    io = opened(store, array)
    rows = [(row, 0) for row in range(6)]
    assert [array.unit_of(chunk) for chunk in rows] == [(0, 0)] * 2 + [(1, 0)] * 4
    for unit in ((0, 0), (1, 0)):
        inside = [chunk for chunk in rows if array.unit_of(chunk) == unit]
        values: Values = {chunk: np.full((2, 2), chunk[0], np.int32) for chunk in inside}
        assert list(io.members(unit)) == list(values)
        io.store(unit, values, ABSENT)
    fresh = opened(store, array)
    assert loaded(fresh, *rows[:2]) == [0, 1]
    assert loaded(fresh, *rows[2:]) == [2, 3, 4, 5]


def spoiled(store: MemoryZMap, places: dict[int, tuple[int, int]], size: int = 1000) -> None:
    """Store a shard of an array as `described` has it, with other places in its index."""
    codec = index_codec(INDEX_CODECS, 16)
    index = in_a_row([None] * 16, 0)
    for number, place in places.items():
        index[number] = place
    store.write(KEY, bytes(size) + codec.encode(index))


@pytest.mark.parametrize(
    "place",
    [(1 << 40, 16), (1270, 16), (0, 1 << 62), (MISSING - 1, 16), (MISSING, 16), (16, MISSING)],
)
def test_a_chunk_beyond_its_shard_is_refused_alone(
    store: RecordingStore, place: tuple[int, int]
) -> None:
    spoiled(store, {0: (0, 16), 1: place})
    io = opened(store, described())
    good, bad = io.fetch_several([((0, 0), None), ((0, 1), None)])
    assert good().values.flat[0] == 0
    with pytest.raises(CorruptChunk, match=r"v/c/0/0: the index of the shard places a chunk of"):
        bad()


def test_chunks_may_overlap(store: RecordingStore) -> None:
    spoiled(store, dict.fromkeys(range(16), (500, 16)))
    assert loaded(opened(store, described()), *content(described())) == [0] * 16


@pytest.mark.parametrize("levels", [((4, 4),), ((4, 2), (1, 2))], ids=["shard", "inner shards"])
def test_many_chunks_that_share_long_bytes_are_not_written_apart(
    store: RecordingStore, levels: tuple[Sequence[int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W96. An object of a few MiB would become one of many GiB."""
    monkeypatch.setattr(shardwrite, "SHARED_BYTES_MAX", 0)
    array = described((16, 16), (4, 4), *levels)
    codec = index_codec(INDEX_CODECS, 8 if len(levels) > 1 else 16)
    places = [[0, 64]] * codec.count
    inner = bytes(64) + codec.encode(np.array(places, np.uint64))
    data = inner
    if len(levels) > 1:
        outer = index_codec(INDEX_CODECS, 2)
        data += outer.encode(np.array([[0, len(inner)]] * 2, np.uint64))
    version = store.write(KEY, data)
    few = np.full((4, 4), 7, np.int32)
    with pytest.raises(CorruptChunk, match=r"v/c/0/0: .*share bytes"):
        opened(store, array).store((0, 0), {(0, 0): few}, version)
    assert bytes(store.read(KEY).data) == data
    monkeypatch.setattr(shardwrite, "SHARED_BYTES_MAX", 10_000)
    opened(store, array).store((0, 0), {(0, 0): few}, version)
    assert loaded(opened(store, array), (0, 0), (0, 1)) == [7, 0]


@pytest.mark.parametrize("size", [0, 3, 259])
def test_an_object_that_is_shorter_than_its_index_is_refused(
    store: RecordingStore, size: int
) -> None:
    store.write(KEY, bytes(size))
    for count in (1, 16):
        chunks = list(content(described()))[:count]
        with pytest.raises(CorruptChunk, match=rf"v/c/0/0: .* has {size} bytes instead of 260"):
            loaded(opened(store, described()), *chunks)


def test_an_index_with_a_wrong_checksum_is_refused_and_nothing_is_written_over_it(
    store: RecordingStore,
) -> None:
    array = described()
    version = opened(store, array).store((0, 0), content(array), ABSENT)
    data = bytearray(store.read(KEY).data)
    data[-20] ^= 1
    version = store.write(KEY, data)
    with pytest.raises(CorruptChunk, match="the index of the shard: the checksum is"):
        loaded(opened(store, array), (0, 0))
    with pytest.raises(CorruptChunk, match="the index of the shard: the checksum is"):
        opened(store, array).store((0, 0), {(0, 0): np.zeros((2, 2), np.int32)}, version)
    assert opened(store, array).store((0, 0), content(array), version) is not None
    assert loaded(opened(store, array), (0, 0)) == [1]


def test_inner_shards_that_are_damaged_are_refused_alone(store: RecordingStore) -> None:
    array = described((8, 8), (2, 2), (2, 2), (2, 2))
    outer = index_codec(INDEX_CODECS, 4)
    index = in_a_row([132, 10, 132, None], 0)
    opened(store, array).store((0, 0), content(array), ABSENT)
    whole = bytes(store.read(KEY).data)
    places = outer.decode(whole[-outer.nbytes :])
    good = whole[int(places[0, 0]) : int(places[0].sum())]
    index = in_a_row([len(good), 10, 70, None], 0)
    store.write(KEY, good + bytes(10) + bytes(70) + outer.encode(index))
    halves = opened(store, array).fetch_several(
        [(chunk, None) for chunk in [(0, 1), (0, 2), (2, 0), (2, 2)]]
    )
    assert halves[0]().values.flat[0] == 11
    with pytest.raises(CorruptChunk, match="an inner shard has 10 bytes, and its index has 68"):
        halves[1]()
    with pytest.raises(CorruptChunk, match="the checksum is"):
        halves[2]()
    assert halves[3]().values.flat[0] == -1


def test_a_chunk_that_claims_far_too_many_bytes_is_refused(store: RecordingStore) -> None:
    spoiled(store, {0: (0, 5000), 1: (0, 16)}, size=5000)
    bad, good = opened(store, described()).fetch_several([((0, 0), None), ((0, 1), None)])
    assert good().values.flat[0] == 0
    with pytest.raises(CorruptChunk, match=r"chunk \[0, 0\]: 5000 bytes are stored"):
        bad()


def test_many_chunks_that_are_longer_than_usual_are_not_read_at_once(
    store: RecordingStore, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("the surplus is ignored")
    spoiled(store, {number: (number, 4000) for number in range(16)}, size=5000)
    halves = opened(store, described()).fetch_several(
        [(chunk, None) for chunk in list(content(described()))[:7]]
    )
    assert store.calls[1:] == [("read", -260, None), ("read", 0, 4000)]
    assert {int(half().values.flat[0]) for half in halves} == {0}


def test_an_index_that_memory_cannot_hold_is_refused_by_name(store: RecordingStore) -> None:
    array = described((1 << 40, 8), (1, 8), (1 << 40,))
    io = opened(store, array)
    for attempt in (io.require, lambda: io.fetch((0, 0), None)):
        with pytest.raises(CodecError, match=r"/v: .* index of 16TiB, more than .*16MiB"):
            attempt()
    assert store.calls == []


def test_an_index_whose_codecs_are_unknown_is_refused_by_name(store: RecordingStore) -> None:
    array = described()
    (shards,) = array.shards
    codecs = (*INDEX_CODECS, CodecSpec("gzip", {"level": 1}))
    array = replace(array, shards=(replace(shards, index_codecs=codecs),))
    with pytest.raises(UnknownCodec, match="/v: index_codecs: codec 'gzip' is not supported"):
        opened(store, array).require()
