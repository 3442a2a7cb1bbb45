"""Broken, truncated and hostile chunks give CorruptChunk, or values of the right shape."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.pcodec import PCodec

from nczfs.codecs.base import Pipeline
from nczfs.codecs.blocks import scan_zstd
from nczfs.errors import CodecError, CorruptChunk, UnknownCodec
from nczfs.model.dtypes import VlenKind
from tests.unit.codecs.arrays import CodecObject, pipeline
from tests.unit.codecs.test_round_trips import values_of

ZLIB: CodecObject = {"id": "zlib", "level": 1}
SHUFFLE: CodecObject = {"id": "shuffle", "elementsize": 4}

CHAINS: dict[str, list[CodecObject]] = {
    "raw": [],
    "zlib": [ZLIB],
    "gzip": [{"id": "gzip", "level": 1}],
    "bz2": [{"id": "bz2", "level": 1}],
    "lzma": [{"id": "lzma"}],
    "zstd": [{"id": "zstd", "level": 1}],
    "zstd with checksum": [{"id": "zstd", "level": 1, "checksum": True}],
    "lz4": [{"id": "lz4"}],
    "blosc": [{"id": "blosc", "cname": "lz4"}],
    "blosc zstd bits": [{"id": "blosc", "cname": "zstd", "shuffle": 2}],
    "shuffle": [SHUFFLE],
    "shuffle, zlib, fletcher32": [SHUFFLE, ZLIB, {"id": "fletcher32"}],
    "crc32, gzip": [{"id": "crc32"}, {"id": "gzip"}],
    "jenkins": [{"id": "jenkins_lookup3"}],
    "crc32c": [{"id": "crc32c"}],
    "base64": [{"id": "base64"}],
    "delta": [{"id": "delta", "dtype": "<i4", "astype": "<i2"}, ZLIB],
    "scaled": [
        {"id": "fixedscaleoffset", "offset": 0, "scale": 3, "dtype": "<i4", "astype": "<f8"}
    ],
    "cast": [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<i4"}],
    "packbits": [{"id": "packbits"}],
}
CHECKED = ["zlib", "gzip", "bz2", "lzma", "zstd with checksum", "crc32c", "jenkins"]

OBJECT_CHAINS: dict[str, list[CodecObject]] = {
    "vlen-utf8": [{"id": "vlen-utf8"}],
    "vlen-bytes": [{"id": "vlen-bytes"}, {"id": "zstd"}],
    "vlen-array": [{"id": "vlen-array", "dtype": ">i4"}],
    "json2": [{"id": "json2"}],
    "categorize": [{"id": "categorize", "labels": ["a", "b"], "dtype": "|O", "astype": "|i1"}],
}


def encoded(name: str) -> tuple[Pipeline, bytes]:
    if name in CHAINS:
        dtype = "|b1" if name == "packbits" else "<i4"
        chain = pipeline(dtype, (10, 30), *CHAINS[name])
        return chain, chain.encode(values_of(dtype, (10, 30)))
    kind = VlenKind.BYTES if name == "vlen-bytes" else VlenKind.TEXT
    chain = pipeline("|O", (2, 3), *OBJECT_CHAINS[name], vlen=kind)
    values = np.empty(6, object)
    items: list[Any] = ["a", "b", "", "a", "é", "b" * 9]
    if name == "vlen-bytes":
        items = [b"", b"ab", b"c" * 300, b"\0", b"x", b"y"]
    elif name == "vlen-array":
        items = [np.arange(n) for n in range(6)]
    for place, item in enumerate(items):
        values[place] = item
    return chain, chain.encode(values.reshape(2, 3))


Edits: TypeAlias = "list[tuple[int, int, str]]"
"""Places, bytes, and what is done there: set, delete, insert."""

EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 255), st.sampled_from("sdi")),
    min_size=1,
    max_size=12,
)


def edited(data: bytes, edits: Edits) -> bytes:
    """Data after some changes of single bytes."""
    found = bytearray(data)
    for where, value, what in edits:
        place = where % (len(found) + 1)
        match what:
            case "s":
                found[place : place + 1] = bytes([value])
            case "d":
                del found[place : place + 1]
            case _:
                found.insert(place, value)
    return bytes(found)


def assert_flips_are_noticed_or_harmless(chain: Pipeline, data: bytes, step: int) -> None:
    """Flip one bit of every `step`; one of a header may say nothing of the values."""
    right = chain.decode(data).tobytes()
    for bit in range(0, 8 * len(data), step):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            values = chain.decode(flipped)
        except CorruptChunk:
            continue
        assert values.tobytes() == right


def decode_or_refuse(chain: Pipeline, data: bytes, shape: tuple[int, ...]) -> bool:
    """Whether the data decode; they either do, to this shape, or are a corrupt chunk."""
    try:
        values = chain.decode(data)
    except CorruptChunk:
        return False
    assert values.shape == shape
    assert values.flags.c_contiguous
    assert values.dtype.isnative
    return True


@pytest.mark.parametrize("name", [*CHAINS, *OBJECT_CHAINS])
def test_an_empty_object_is_a_corrupt_chunk(name: str) -> None:
    chain, _ = encoded(name)
    with pytest.raises(CorruptChunk):
        chain.decode(b"")


@pytest.mark.parametrize("name", [*CHAINS, *OBJECT_CHAINS])
def test_every_truncation_is_a_corrupt_chunk(name: str) -> None:
    chain, data = encoded(name)
    cuts = range(0, len(data), max(1, len(data) // 60))
    for cut in [*cuts, len(data) - 1]:
        if name == "packbits" and cut > 0:
            continue  # the last byte holds padding here; the next test is about the size
        with pytest.raises(CorruptChunk):
            chain.decode(data[:cut])


def test_packed_booleans_that_are_too_few_are_a_corrupt_chunk() -> None:
    chain, data = encoded("packbits")
    with pytest.raises(CorruptChunk):
        chain.decode(data[:-1])


@pytest.mark.parametrize("name", CHECKED)
def test_every_flipped_bit_of_checked_data_is_noticed_or_harmless(name: str) -> None:
    chain, data = encoded(name)
    assert_flips_are_noticed_or_harmless(chain, data, step=3)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from([*CHAINS, *OBJECT_CHAINS]),
    edits=EDITS,
)
def test_edited_data_decode_to_the_right_shape_or_not_at_all(name: str, edits: Edits) -> None:
    chain, data = encoded(name)
    decode_or_refuse(chain, edited(data, edits), (10, 30) if name in CHAINS else (2, 3))


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from([*CHAINS, *OBJECT_CHAINS]), data=st.binary(max_size=400))
def test_arbitrary_bytes_decode_to_the_right_shape_or_not_at_all(name: str, data: bytes) -> None:
    chain, _ = encoded(name)
    decode_or_refuse(chain, data, (10, 30) if name in CHAINS else (2, 3))


def zstd_of_unknown_size(size: int) -> bytes:
    """A frame without its content size, of blocks that repeat one byte 128 KiB long."""
    blocks = b""
    while size > 0:
        length = min(size, 128 << 10)
        size -= length
        blocks += ((length << 3) | 2 | (size <= 0)).to_bytes(3, "little") + b"\0"
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + blocks


def blosc_that_claims(size: int) -> bytes:
    data = bytearray(numcodecs.Blosc("lz4").encode(bytes(1 << 16)))
    data[4:8] = struct.pack("<I", size)
    return bytes(data)


BOMB = 1 << 28

BOMBS: dict[str, Callable[[], tuple[list[CodecObject], bytes]]] = {
    "zlib": lambda: ([ZLIB], zlib.compress(bytes(BOMB))),
    "zlib below filters": lambda: (
        [SHUFFLE, {"id": "fletcher32"}, ZLIB],
        zlib.compress(bytes(BOMB)),
    ),
    "zlib in zlib": lambda: ([ZLIB, ZLIB], zlib.compress(zlib.compress(bytes(BOMB)))),
    "gzip": lambda: ([{"id": "gzip"}], gzip.compress(bytes(BOMB))),
    "bz2": lambda: ([{"id": "bz2"}], bz2.compress(bytes(BOMB))),
    "lzma": lambda: ([{"id": "lzma"}], lzma.compress(bytes(BOMB))),
    "lz4": lambda: ([{"id": "lz4"}], bytes(numcodecs.LZ4().encode(bytes(BOMB)))),
    "lz4 that lies": lambda: ([{"id": "lz4"}], struct.pack("<I", 0x7FFFFFFF) + bytes(64)),
    "zstd": lambda: ([{"id": "zstd"}], bytes(numcodecs.Zstd().encode(bytes(BOMB)))),
    "zstd of unknown size": lambda: ([{"id": "zstd"}], zstd_of_unknown_size(BOMB)),
    "zstd in zstd": lambda: ([{"id": "zstd"}] * 2, zstd_of_unknown_size(BOMB)),
    "blosc": lambda: ([{"id": "blosc"}], bytes(numcodecs.Blosc("zstd").encode(bytes(BOMB)))),
    "blosc that lies": lambda: ([{"id": "blosc"}], blosc_that_claims(0x7FFFFFFF)),
    "packbits": lambda: ([{"id": "packbits"}], bytes(1 << 24)),
    "pcodec": lambda: ([{"id": "pcodec"}], bytes(PCodec().encode(np.zeros(BOMB // 4, "i4")))),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_without_taking_memory(name: str) -> None:
    codecs, data = BOMBS[name]()
    dtype = "|b1" if name == "packbits" else "<i4"
    chunk_bytes = 1 << 20
    chain = pipeline(dtype, (chunk_bytes // np.dtype(dtype).itemsize,), *codecs)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptChunk):
            chain.decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    dictionary = 9 << 20 if name == "lzma" else 0  # of xz's ordinary preset
    assert peak < 6 * chunk_bytes + 2 * len(data) + dictionary


OBJECT_BOMBS: dict[str, tuple[list[CodecObject], bytes]] = {
    "too many values": ([{"id": "vlen-utf8"}], struct.pack("<I", 0xFFFFFFFF) + bytes(100)),
    "too many empty values": (
        [{"id": "vlen-utf8"}],
        struct.pack("<I", 1_000_000) + bytes(4_000_000),
    ),
    "too long a value": ([{"id": "vlen-bytes"}], struct.pack("<II", 6, 0xFFFFFFFF) + bytes(100)),
    "too long an array": (
        [{"id": "vlen-array", "dtype": "<i4"}],
        struct.pack("<II", 6, 0xFFFFFFF0) + bytes(100),
    ),
    "too large a shape": ([{"id": "json2"}], b'["a","|O",[1000000000,1000000000]]'),
    "a shape without values": ([{"id": "json2"}], b'["|O",[6]]'),
    "another shape than the values": ([{"id": "json2"}], b'[1,2,3,4,5,6,"|O",[7]]'),
    "deep lists": ([{"id": "json2"}], b"[" * 200_000),
    "a number of many digits": ([{"id": "json2"}], b"[" + b"9" * 100_000 + b',"|O",[6]]'),
    "a negative shape": ([{"id": "json2"}], b'["a","|O",[-1,-1]]'),
    "lengths of many digits": (
        [{"id": "json2"}],
        b'["|O",[' + b",".join([b"9" * 4300] * 300) + b"]]",
    ),
    "a length beyond all arrays": ([{"id": "json2"}], b'[1,2,3,4,5,6,"|O",[9223372036854775808]]'),
    "a shape of many dimensions": (
        [{"id": "json2"}],
        b'["|O",[' + b",".join([b"0"] * 65) + b"]]",
    ),
    "a true length": ([{"id": "json2"}], b'[1,"|O",[true]]'),
    "lists that claim much": ([{"id": "msgpack2"}], b"\xdd\x00\x10\x00\x00" * 1000),
    "packed lengths beyond all arrays": (
        [{"id": "msgpack2"}],
        b"\x93\x01\xa2|O\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    ),
    "flat lists of two dimensions": ([{"id": "json2"}], b'["ab","cd","ef","|O",[3,2]]'),
}


@pytest.mark.parametrize("name", OBJECT_BOMBS)
def test_counts_and_lengths_of_objects_are_checked_before_room_is_made(name: str) -> None:
    codecs, data = OBJECT_BOMBS[name]
    chain = pipeline("|O", (6,), *codecs, vlen=VlenKind.TEXT)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptChunk):
            chain.decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_an_integer_of_too_many_digits_is_refused_in_our_words() -> None:
    chain = pipeline("|O", (6,), {"id": "json2"}, vlen=VlenKind.JSON)
    _, data = OBJECT_BOMBS["a number of many digits"]
    with pytest.raises(CorruptChunk, match="an integer of more than 4300 digits") as caught:
        chain.decode(data)
    assert "set_int_max_str_digits" not in str(caught.value)


def test_an_error_that_is_kept_does_not_keep_the_data() -> None:
    chain = pipeline("|O", (6,), {"id": "json2"}, ZLIB, vlen=VlenKind.JSON)
    data = zlib.compress(b"[" * (8 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptChunk) as caught:
            chain.decode(data)
        assert caught.value.__cause__ is not None
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


@pytest.mark.parametrize("codec", ["json2", "msgpack2"])
def test_members_of_values_have_a_limit_and_the_values_themselves_have_another(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nczfs.codecs.objects.MEMBERS_MAX", 100)
    chain = pipeline("|O", (6,), {"id": codec}, vlen=VlenKind.JSON)
    values = np.empty(6, object)
    values[:] = [[0] * 5] * 6
    assert chain.decode(chain.encode(values)).tolist() == values.tolist()
    values[5] = [0] * 20_000
    with pytest.raises(CorruptChunk, match="members"):
        chain.decode(chain.encode(values))


@pytest.mark.parametrize(("kind", "name"), [(VlenKind.JSON, "json2"), (VlenKind.TEXT, "vlen-utf8")])
def test_chunks_of_too_many_objects_are_refused_before_any_is_read(
    kind: VlenKind, name: str
) -> None:
    with pytest.raises(CodecError, match=r"elements of variable length|JSON values"):
        pipeline("|O", (5000, 5000), {"id": name}, vlen=kind)


def test_a_message_shows_little_of_what_is_wrong() -> None:
    chain = pipeline("|O", (6,), {"id": "json2"}, vlen=VlenKind.JSON)
    for shape in (b"1," * 60 + b"1", b"9" * 4000, b'"' + b"x" * 10**6 + b'"'):
        with pytest.raises(CorruptChunk) as caught:
            chain.decode(b'[[[1]],"|O",[' + shape + b"]]")
        assert len(str(caught.value)) < 200
    with pytest.raises(UnknownCodec) as refused:
        pipeline("<i4", (6,), {"id": "x" * 10**6})
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "codec",
    [
        {"id": "fixedscaleoffset", "offset": 10**400, "scale": 1, "dtype": "<i4"},
        {"id": "fixedscaleoffset", "offset": 0, "scale": "9" * 5000, "dtype": "<i4"},
        {"id": "lzma", "format": 2**80},
        {"id": "lzma", "format": 3, "filters": [{"id": 33, "dict_size": -1}]},
        {"id": "lzma", "format": 3, "filters": [{"id": 2**90}]},
        {"id": "shuffle", "elementsize": 10**300},
        {"id": "jenkins_lookup3", "initval": 2**200},
        {"id": "zstd", "level": 1e300},
    ],
    ids=lambda codec: str(codec)[:40],
)
def test_absurd_numbers_in_a_configuration_are_refused(codec: CodecObject) -> None:
    with pytest.raises(UnknownCodec):
        pipeline("<i4", (6,), codec)


@pytest.mark.parametrize("inflater", ["zlib", "gzip", "bz2", "lzma", "zstd"])
def test_compressed_objects_have_a_limit_too(inflater: str) -> None:
    codecs: list[CodecObject] = [{"id": "vlen-bytes"}, {"id": inflater}]
    chain = pipeline("|O", (6,), *codecs, vlen=VlenKind.BYTES, memory_bytes=1 << 20)
    long = struct.pack("<II", 6, 1 << 24) + bytes(1 << 24)
    codec = numcodecs.get_codec({"id": inflater})
    data = zstd_of_unknown_size(1 << 24) if inflater == "zstd" else codec.encode(long)
    with pytest.raises(CorruptChunk, match="more than"):
        chain.decode(bytes(data))


def test_invalid_utf8_is_a_corrupt_chunk() -> None:
    chain = pipeline("|O", (1,), {"id": "vlen-utf8"}, vlen=VlenKind.TEXT)
    with pytest.raises(CorruptChunk, match="vlen-utf8"):
        chain.decode(struct.pack("<II", 1, 2) + b"\xff\xfe")


@pytest.mark.parametrize("name", ["zlib", "gzip", "bz2", "lzma", "zstd", "lz4", "blosc", "raw"])
def test_somewhat_longer_chunks_are_cut_to_their_length(name: str) -> None:
    chain = pipeline("<i4", (100,), *CHAINS[name])
    values = np.arange(700, dtype="<i4")
    data = pipeline("<i4", (700,), *CHAINS[name]).encode(values)
    told: list[str] = []
    assert np.array_equal(chain.decode(data, told.append), values[:100])
    assert len(told) == 1
    assert "2800 bytes instead of 400" in told[0]


def test_a_longer_chunk_is_unshuffled_before_it_is_cut() -> None:
    chain = pipeline("<i4", (100,), SHUFFLE, ZLIB)
    values = np.arange(700, dtype="<i4")
    data = pipeline("<i4", (700,), SHUFFLE, ZLIB).encode(values)
    assert np.array_equal(chain.decode(data), values[:100])


@pytest.mark.parametrize("name", ["zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "raw"])
def test_what_is_left_of_an_overwritten_longer_object_is_ignored(name: str) -> None:
    chain, data = encoded(name)
    assert np.array_equal(chain.decode(data + b"left over" * 40), chain.decode(data))


@pytest.mark.parametrize("name", ["gzip", "bz2", "lzma", "zstd"])
def test_concatenated_streams_are_one_chunk(name: str) -> None:
    values = np.arange(300, dtype="<i4")
    data = b"".join(
        pipeline("<i4", (100,), *CHAINS[name]).encode(part) for part in np.split(values, 3)
    )
    assert np.array_equal(pipeline("<i4", (300,), *CHAINS[name]).decode(data), values)


def test_countless_empty_streams_are_not_followed() -> None:
    with pytest.raises(CorruptChunk, match="more than 64 compressed streams"):
        pipeline("<i4", (3,), {"id": "gzip"}).decode(gzip.compress(b"") * 4096)


def test_base64_of_other_characters_is_a_corrupt_chunk() -> None:
    chain, data = encoded("base64")
    with pytest.raises(CorruptChunk, match="base64"):
        chain.decode(data[:8] + b"*" + data[8:])


def test_stored_numbers_beyond_the_type_are_values_without_warnings() -> None:
    chain, _ = encoded("scaled")
    assert decode_or_refuse(chain, np.full(300, 1e300).tobytes(), (10, 30))


def test_too_many_categories_do_not_become_long_texts() -> None:
    codec: CodecObject = {"id": "categorize", "labels": ["a"], "dtype": "<U1000", "astype": "|u1"}
    chain = pipeline("<U1000", (1,), codec)
    tracemalloc.start()
    try:
        assert chain.decode(bytes(50_000)).tolist() == [""]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_zstd_frames_of_unknown_size_decode_to_the_chunk() -> None:
    data = zstd_of_unknown_size(1200)
    assert not pipeline("<i4", (300,), {"id": "zstd"}).decode(data).any()
    with pytest.raises(CorruptChunk):
        pipeline("<i4", (400,), {"id": "zstd"}).decode(data)


def test_skippable_zstd_frames_are_skipped() -> None:
    chain, data = encoded("zstd")
    skippable = struct.pack("<II", 0x184D2A5A, 5) + b"abcde"
    assert np.array_equal(chain.decode(skippable + data), chain.decode(data))


def test_a_zstd_frame_of_countless_empty_blocks_is_refused_quickly() -> None:
    data = struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + bytes(3 << 20)
    with pytest.raises(ValueError, match="small blocks"):
        scan_zstd(np.frombuffer(data, "u1"), 1 << 16)


def test_a_lost_memory_is_not_called_a_corrupt_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, data = encoded("shuffle")

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nczfs.codecs.bytefilters.buffers.empty", refuse)
    with pytest.raises(MemoryError):
        chain.decode(data)


def test_the_message_names_the_codec_and_keeps_the_cause() -> None:
    chain, data = encoded("shuffle, zlib, fletcher32")
    with pytest.raises(CorruptChunk, match="fletcher32") as caught:
        chain.decode(data[:-1] + b"\0")
    assert isinstance(caught.value.__cause__, ValueError)
