"""The index of a shard: its encoding, and places that a shard cannot have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorstore
import zarr
from zarr.codecs import ShardingCodecIndexLocation
from zarr.core.array import ShardsConfigParam

from nczfs.codecs import shardindex
from nczfs.codecs.shardindex import MISSING, IndexCodec, index_codec
from nczfs.errors import CorruptChunk, UnknownCodec
from nczfs.model.hierarchy import CodecSpec, Json

CRC = CodecSpec("crc32c")
PLACES = np.array([[0, 7], [MISSING, MISSING], [7, 0], [7, 1 << 40]], np.uint64)


def numbers(endian: Json = "little", name: str = "bytes") -> CodecSpec:
    return CodecSpec(name, {"endian": endian})


@pytest.mark.parametrize("checksums", [0, 1, 2])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_an_index_is_decoded_as_it_was_encoded(endian: str, checksums: int) -> None:
    codec = index_codec([numbers(endian), *[CRC] * checksums], 4)
    data = codec.encode(PLACES)
    assert len(data) == codec.nbytes == 64 + 4 * checksums
    assert np.frombuffer(data[:64], "<u8" if endian == "little" else ">u8")[7] == 1 << 40
    found = codec.decode(memoryview(b"x" + data)[1:])
    assert found.dtype == np.uint64
    assert found.tolist() == PLACES.tolist()


def test_a_shard_of_no_chunks_has_an_empty_index() -> None:
    codec = index_codec([numbers()], 0)
    assert codec.nbytes == 0
    assert codec.decode(codec.encode(np.empty((0, 2), np.uint64))).shape == (0, 2)


@pytest.mark.parametrize("checksums", [0, 1])
@pytest.mark.parametrize("change", [slice(0, -1), slice(0, 0), slice(8, None)])
def test_an_index_of_another_length_is_refused(change: slice, checksums: int) -> None:
    codec = index_codec([numbers(), *[CRC] * checksums], 4)
    with pytest.raises(CorruptChunk, match=f"bytes instead of {codec.nbytes}"):
        codec.decode(codec.encode(PLACES)[change])


@pytest.mark.parametrize("place", [0, 63, 64, 67])
def test_an_index_with_a_wrong_checksum_is_refused(place: int) -> None:
    codec = index_codec([numbers(), CRC], 4)
    data = bytearray(codec.encode(PLACES))
    data[place] ^= 1
    with pytest.raises(CorruptChunk, match="index of the shard: the checksum is"):
        codec.decode(data)


def test_the_old_name_of_the_codec_of_numbers_is_known() -> None:
    assert index_codec([numbers("big", "endian")], 1) == IndexCodec(1, np.dtype(">u8"), 0)


@pytest.mark.parametrize(
    ("codecs", "words"),
    [
        ([], "the first one is missing"),
        ([CRC], "the first one is 'crc32c'"),
        ([numbers(), CodecSpec("gzip", {"level": 1})], "codec 'gzip' is not supported"),
        ([numbers(), CRC, CodecSpec("zstd")], "codec 'zstd' is not supported"),
        ([CodecSpec("transpose", {"order": [1, 0]}), numbers()], "the first one is 'transpose'"),
        ([CodecSpec("bytes")], "endian is None"),
        ([numbers("middle")], "endian is 'middle'"),
        ([numbers(["little"])], "endian is"),
        ([CodecSpec("bytes", {"endian": "big", "width": 3})], "the setting 'width' is unknown"),
        ([numbers(), CodecSpec("crc32c", {"location": "start"})], "'location' is unknown"),
    ],
)
def test_codecs_without_a_fixed_length_are_refused_by_name(
    codecs: list[CodecSpec], words: str
) -> None:
    with pytest.raises(UnknownCodec, match=words):
        index_codec(codecs, 4)


@pytest.mark.parametrize(
    ("offset", "length", "is_inside"),
    [
        (0, 100, True),
        (100, 0, True),
        (99, 1, True),
        (0, 101, False),
        (100, 1, False),
        (101, 0, False),
        (MISSING - 1, 1, False),
        (MISSING - 1, 2, False),
        (MISSING, 5, False),
        (5, MISSING, False),
        (MISSING, MISSING - 1, False),
    ],
)
def test_a_place_beyond_the_shard_is_refused(offset: int, length: int, is_inside: bool) -> None:
    places = np.array([[offset, length]], np.uint64)
    assert shardindex.are_inside(places, 100).tolist() == [is_inside]
    if is_inside:
        assert shardindex.place_of(places, 0, 100) == (offset, offset + length)
        return
    with pytest.raises(CorruptChunk, match=f"{length} bytes at {offset}, and the shard has 100"):
        shardindex.place_of(places, 0, 100)


def test_a_missing_chunk_has_no_place() -> None:
    assert shardindex.are_missing(PLACES).tolist() == [False, True, False, False]
    assert shardindex.place_of(PLACES, 1, 0) is None


def test_chunks_follow_one_another_in_the_order_of_the_index() -> None:
    places = shardindex.in_a_row([3, None, 0, 4], 10)
    assert places.tolist() == [[10, 3], [MISSING, MISSING], [13, 0], [13, 4]]


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_other_programs_tells_where_their_chunks_are(
    tmp_path: Path, location: str
) -> None:
    codecs = [numbers(), CRC]
    shards: ShardsConfigParam = {
        "shape": (4, 4),
        "index_location": ShardingCodecIndexLocation(location),
    }
    inner: dict[str, Json] = {"name": "bytes", "configuration": {"endian": "little"}}
    array = zarr.create_array(
        tmp_path / "zarr",
        shape=(4, 4),
        shards=shards,
        chunks=(2, 2),
        dtype="int32",
        fill_value=0,
        compressors=None,
    )
    array[:2, :] = 7
    other = tensorstore.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(tmp_path / "tensorstore")},
            "metadata": {
                "shape": [4, 4],
                "data_type": "int32",
                "fill_value": 0,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
                "codecs": [
                    {
                        "name": "sharding_indexed",
                        "configuration": {
                            "chunk_shape": [2, 2],
                            "codecs": [inner],
                            "index_codecs": [inner, {"name": "crc32c"}],
                            "index_location": location,
                        },
                    }
                ],
            },
        },
        create=True,
    ).result()
    other[:2, :] = 7
    codec = index_codec(codecs, 4)
    for program in ("zarr", "tensorstore"):
        data = (tmp_path / program / "c" / "0" / "0").read_bytes()
        at_end = location == "end"
        places = codec.decode(data[-codec.nbytes :] if at_end else data[: codec.nbytes])
        assert shardindex.are_missing(places).tolist() == [False, False, True, True]
        for number in range(2):
            place = shardindex.place_of(places, number, len(data))
            assert place is not None
            assert np.frombuffer(data[slice(*place)], "<i4").tolist() == [7] * 4
