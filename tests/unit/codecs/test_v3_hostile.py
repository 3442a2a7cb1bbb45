"""Broken, truncated and hostile chunks of Zarr v3 are corrupt chunks, and take no memory."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.codecs.base import Pipeline
from nczfs.errors import CodecError, CorruptChunk, UnknownCodec
from nczfs.model.dtypes import VlenKind
from tests.unit.codecs.test_hostile import (
    EDITS,
    Edits,
    assert_flips_are_noticed_or_harmless,
    decode_or_refuse,
    edited,
    zstd_of_unknown_size,
)
from tests.unit.codecs.test_round_trips import values_of
from tests.unit.codecs.v3arrays import BIG, LITTLE, Word, codec, pipeline3

SHAPE = (10, 30)
INDEX: list[Word] = [LITTLE, "crc32c"]
PLAIN_INDEX: list[Word] = [LITTLE]


def shards(chunk_shape: list[int], *codecs: Word, **others: Any) -> Word:
    members = {"chunk_shape": chunk_shape, "codecs": list(codecs), "index_codecs": INDEX}
    return codec("sharding_indexed", **(members | others))


CHAINS: dict[str, list[Word]] = {
    "bytes": [BIG],
    "transpose, gzip": [codec("transpose", order=[1, 0]), LITTLE, codec("gzip", level=1)],
    "zstd": [LITTLE, codec("zstd", level=1)],
    "blosc": [LITTLE, codec("blosc", cname="zstd", shuffle="bitshuffle", typesize=4)],
    "crc32c": [LITTLE, "crc32c"],
    "reshape": [codec("reshape", shape=[-1, 3]), LITTLE],
    "bitround": [codec("bitround", keepbits=9), LITTLE],
    "cast": [codec("cast_value", data_type="int8"), "bytes"],
    "cast to floats": [codec("cast_value", data_type="float16"), LITTLE],
    "scale": [codec("scale_offset", offset=-100, scale=3), LITTLE],
    "packbits": [codec("packbits", padding_encoding="last_byte", last_bit=30)],
    "pcodec": [codec("numcodecs.pcodec")],
    "delta": [codec("numcodecs.delta", dtype="<i4", astype="<i2"), LITTLE],
    "shards": [shards([5, 10], LITTLE, codec("zstd", level=1))],
    "shards with the index in front": [shards([5, 3], BIG, index_location="start")],
    "shards without checksum": [shards([5, 10], LITTLE, index_codecs=PLAIN_INDEX)],
    "compressed shards": [shards([5, 10], LITTLE), codec("gzip", level=1)],
    "nested shards": [shards([5, 15], shards([1, 5], LITTLE, "crc32c"))],
}
# Every bit of the data counts in these, or says nothing of the values.
CHECKED = ["transpose, gzip", "crc32c", "compressed shards"]
TEXTS = {
    "vlen-utf8": ["vlen-utf8"],
    "vlen-utf8 in shards": [shards([5, 10], "vlen-utf8")],
}  # type: dict[str, list[Word]]


def encoded(name: str) -> tuple[Pipeline, bytes]:
    if name in TEXTS:
        chain = pipeline3("O", SHAPE, *TEXTS[name], vlen=VlenKind.TEXT)
        texts = np.array([f"{n % 23}é" for n in range(300)], object).reshape(SHAPE)
        return chain, chain.encode(texts)
    chain = pipeline3("i4", SHAPE, *CHAINS[name])
    return chain, chain.encode(values_of("i4", SHAPE))


@pytest.mark.parametrize("name", [*CHAINS, *TEXTS])
def test_every_truncation_is_a_corrupt_chunk(name: str) -> None:
    chain, data = encoded(name)
    for cut in [*range(0, len(data), max(1, len(data) // 60)), len(data) - 1]:
        if name == "shards with the index in front" and cut >= 20 * 16 + 4:
            continue  # the next test is about chunks beyond the shard
        with pytest.raises(CorruptChunk):
            chain.decode(data[:cut])


@pytest.mark.parametrize("name", CHECKED)
def test_every_flipped_bit_of_checked_data_is_noticed_or_harmless(name: str) -> None:
    chain, data = encoded(name)
    assert_flips_are_noticed_or_harmless(chain, data, step=7)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from([*CHAINS, *TEXTS]),
    edits=EDITS,
)
def test_edited_data_decode_to_the_right_shape_or_not_at_all(name: str, edits: Edits) -> None:
    chain, data = encoded(name)
    decode_or_refuse(chain, edited(data, edits), SHAPE)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from([*CHAINS, *TEXTS]), data=st.binary(max_size=400))
def test_arbitrary_bytes_decode_to_the_right_shape_or_not_at_all(name: str, data: bytes) -> None:
    chain, _ = encoded(name)
    decode_or_refuse(chain, data, SHAPE)


BOMB = 1 << 28
CHUNK_BYTES = 1 << 20


def bomb_of(name: str) -> bytes:
    match name:
        case "gzip":
            return gzip.compress(bytes(BOMB))
        case "zstd":
            return bytes(numcodecs.Zstd().encode(bytes(BOMB)))
        case "zstd of unknown size":
            return zstd_of_unknown_size(BOMB)
    return bytes(numcodecs.Blosc("zstd").encode(bytes(BOMB)))


BOMBED: dict[str, list[Word]] = {
    "gzip": [LITTLE, codec("gzip", level=1)],
    "zstd": [LITTLE, codec("zstd", level=1)],
    "zstd of unknown size": [LITTLE, codec("zstd", level=1)],
    "blosc": [LITTLE, codec("blosc", cname="zstd")],
}


def peak_of(chain: Pipeline, data: bytes) -> int:
    """The most memory that decoding takes, which fails."""
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            chain.decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("front", [[], [codec("transpose", order=[0])],
                                   [codec("cast_value", data_type="float64")]])  # fmt: skip
@pytest.mark.parametrize("name", BOMBED)
def test_a_bomb_is_refused_without_taking_memory(name: str, front: list[Word]) -> None:
    data = bomb_of(name)
    chain = pipeline3("i4", (CHUNK_BYTES // 4,), *front, *BOMBED[name])
    assert peak_of(chain, data) < 12 * CHUNK_BYTES + 2 * len(data)


def test_a_bomb_behind_very_many_compressors_is_refused_without_taking_memory() -> None:
    """Each of them raised the limit by half, 60 of them beyond any memory."""
    data = gzip.compress(bomb_of("gzip"))
    chain = pipeline3("i4", (6,), LITTLE, *[codec("gzip", level=1)] * 60)
    assert peak_of(chain, data) < 12 * CHUNK_BYTES
    values = np.arange(6, dtype="i4")
    assert chain.decode(chain.encode(values)).tolist() == values.tolist()


def test_a_table_of_very_many_scalars_is_refused() -> None:
    """Mapping 2^20 elements by 20,000 pairs took 25 s."""
    table = {"decode": [[n % 100, n] for n in range(1025)]}
    with pytest.raises(UnknownCodec, match=r"cast_value.*decode has 1025 pairs \(max 1024\)"):
        pipeline3("i4", (6,), codec("cast_value", data_type="int8", scalar_map=table), "bytes")


@pytest.mark.parametrize("name", BOMBED)
def test_bombs_in_a_shard_are_refused_without_taking_memory(name: str) -> None:
    data = bomb_of(name)
    places = struct.pack("<QQ", 0, len(data)) * 4
    inner = shards([CHUNK_BYTES // 16], *BOMBED[name], index_codecs=PLAIN_INDEX)
    chain = pipeline3("i4", (CHUNK_BYTES // 4,), inner)
    assert peak_of(chain, data + places) < 12 * CHUNK_BYTES + 2 * len(data)
    outer = pipeline3("i4", (CHUNK_BYTES // 4,), inner, *BOMBED[name][1:])
    assert peak_of(outer, data) < 12 * CHUNK_BYTES + 2 * len(data)


@pytest.mark.parametrize(
    "place",
    [(0, 17), (17, 0), (1 << 63, 16), (16, 1 << 63), ((1 << 64) - 1, 8), (8, (1 << 64) - 1),
     ((1 << 64) - 8, 16)],
)  # fmt: skip
def test_a_chunk_beyond_its_shard_is_a_corrupt_chunk(place: tuple[int, int]) -> None:
    chain = pipeline3("i4", (4,), shards([4], LITTLE, index_codecs=PLAIN_INDEX))
    data = bytes(16) + struct.pack("<QQ", *place)
    if sum(place) <= len(data):
        place = (place[0] + len(data), place[1])
        data = bytes(16) + struct.pack("<QQ", *place)
    with pytest.raises(CorruptChunk, match=r"'sharding_indexed': the index of the shard places"):
        chain.decode(data)


def within_each_other(levels: int, count: int) -> tuple[list[Word], bytes]:
    """Shards within shards whose entries all name the same bytes, compressed, and their chain."""
    data, codecs, length = bytes(4), [LITTLE], 1
    for _ in range(levels):
        data += struct.pack("<QQ", 0, len(data)) * count
        codecs = [shards([length], *codecs, index_codecs=PLAIN_INDEX)]
        length *= count
    return [*codecs, codec("gzip", level=1)], gzip.compress(data)


def test_few_bytes_that_stand_for_millions_of_chunks_are_refused() -> None:
    """Decoding 64^4 chunks, which 4 KiB of indexes name, took minutes."""
    codecs, data = within_each_other(4, 16)
    values = pipeline3("i4", (16**4,), *codecs).decode(data)
    assert not values.any()
    for levels, count in [(4, 17), (1, (1 << 16) + 1), (4, 64)]:
        codecs, _ = within_each_other(levels, count)
        with pytest.raises(UnknownCodec, match=r"sharding_indexed.* can only be read as a whole"):
            pipeline3("i4", (count**levels,), *codecs)
    codecs, _ = within_each_other(9, 1)
    with pytest.raises(UnknownCodec, match="shards within shards more than 8 times"):
        pipeline3("i4", (1,), *codecs)


def test_chunks_may_overlap() -> None:
    chain = pipeline3("i4", (4, 2), shards([2, 2], LITTLE, index_codecs=PLAIN_INDEX))
    values = np.arange(4, dtype="<i4")
    data = values.tobytes() + struct.pack("<QQ", 0, 16) * 2
    assert chain.decode(data).ravel().tolist() == [0, 1, 2, 3] * 2


def test_a_broken_chunk_is_named_by_its_place_in_the_shard() -> None:
    chain = pipeline3("i4", (4, 2), shards([2, 2], LITTLE, "crc32c", index_codecs=PLAIN_INDEX))
    data = bytearray(chain.encode(np.arange(1, 9, dtype="i4").reshape(4, 2)))
    data[21] ^= 1
    with pytest.raises(CorruptChunk, match=r"'sharding_indexed': chunk \[1, 0\]: codec 'crc32c'"):
        chain.decode(data)


def test_texts_in_overlapping_chunks_share_one_allowance_of_memory() -> None:
    chunk = struct.pack("<II", 1, 1 << 20) + b"x" * (1 << 20)
    data = chunk + struct.pack("<QQ", 0, len(chunk)) * 1000
    chain = pipeline3(
        "O", (1000,), shards([1], "vlen-utf8", index_codecs=PLAIN_INDEX), vlen=VlenKind.TEXT,
        memory_bytes=8 << 20,
    )  # fmt: skip
    tracemalloc.start()
    try:
        with pytest.raises(CorruptChunk, match="take more than 8MiB of memory"):
            chain.decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20


def test_an_error_that_is_kept_does_not_keep_the_data() -> None:
    chain = pipeline3("u1", (1 << 24,), "bytes", "crc32c", codec("gzip", level=1))
    data = gzip.compress(bytes((1 << 24) + 4))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptChunk) as caught:
            chain.decode(data)
        assert caught.value.__cause__ is not None
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


def test_surplus_bytes_of_a_chunk_are_reported_and_ignored() -> None:
    chain = pipeline3("i4", (3,), LITTLE, codec("zstd", level=1))
    data = bytes(numcodecs.Zstd().encode(np.arange(5, dtype="<i4")))
    messages: list[str] = []
    assert chain.decode(data, messages.append).tolist() == [0, 1, 2]
    assert messages == ["a chunk decodes to 20 bytes instead of 12; the surplus is ignored"]
