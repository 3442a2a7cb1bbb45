"""The codecs of new arrays: what nobody else could read is refused, with its name and why."""

from __future__ import annotations

import pytest

from nczfs.codecs.wanted import check_codecs
from nczfs.errors import CodecError, UnknownCodec
from tests.unit.codecs.arrays import CodecObject, described
from tests.unit.codecs.v3arrays import LITTLE, Word, described3
from tests.unit.codecs.v3arrays import codec as word


@pytest.mark.parametrize(
    ("codec", "why"),
    [
        ({"id": "nope"}, "'nope' is not installed"),
        ({"id": "zlib", "foo": 1}, "'foo'"),
        ({"id": "zlib", "level": 99}, "'zlib'.*level"),
        ({"id": "zlib", "level": "5"}, "'zlib'"),
        ({"id": "gzip", "level": 99}, "'gzip'"),
        ({"id": "bz2", "level": 0}, "'bz2'.*between 1 and 9"),
        ({"id": "lzma", "preset": 99}, "'lzma'"),
        ({"id": "zstd", "level": 23}, "'zstd': level is 23, not -131072 to 22"),
        ({"id": "blosc", "clevel": 10}, "'blosc': clevel is 10, not 0 to 9"),
        ({"id": "blosc", "cname": "zip"}, "'blosc'.*'zip'"),
        ({"id": "shuffle", "elementsize": -4}, "'shuffle': elementsize is -4"),
        ({"id": "pickle"}, "'pickle' is not allowed"),
    ],
)
def test_codecs_that_others_cannot_follow_are_refused(codec: CodecObject, why: str) -> None:
    with pytest.raises(UnknownCodec, match=why):
        check_codecs(described("<f4", (3, 4), codec))


def test_codecs_that_do_not_take_the_elements_are_refused() -> None:
    codec: CodecObject = {"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<f8"}
    with pytest.raises(CodecError, match="'astype' cannot encode"):
        check_codecs(described("<f4", (3, 4), codec))


@pytest.mark.parametrize(
    "codec",
    [
        {"id": "zlib", "level": 0},
        {"id": "zlib"},
        {"id": "zstd", "level": -5},
        {"id": "blosc", "cname": "zstd", "clevel": 9, "shuffle": -1, "blocksize": 0},
        {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
        {"id": "lz4", "acceleration": 1},
        {"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f4", "astype": "<i2"},
        {"id": "fletcher32"},
    ],
)
def test_what_numcodecs_takes_is_taken(codec: CodecObject) -> None:
    check_codecs(described("<f4", (3, 4), codec))


def test_an_array_of_any_size_and_rank_is_checked_by_one_element() -> None:
    check_codecs(described("<f4", (1 << 40,) * 70, {"id": "zlib"}))


V3_CHAINS: dict[str, list[Word]] = {
    "transpose": [word("transpose", order=[1, 0]), LITTLE],
    "reshape": [word("reshape", shape=[[0, 1]]), LITTLE],
    "compressed shards": [
        word("sharding_indexed", chunk_shape=[2, 3], codecs=[LITTLE], index_codecs=[LITTLE]),
        word("gzip", level=1),
    ],
    "packed": [word("cast_value", data_type="int8"), word("packbits", last_bit=5)],
}


@pytest.mark.parametrize("name", V3_CHAINS)
def test_codecs_of_zarr_v3_are_tried_with_a_chunk_that_they_take(name: str) -> None:
    check_codecs(described3("i4", (4, 6), *V3_CHAINS[name]))


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        (word("gzip", level=11), "level is 11, not 0 to 9"),
        (word("zstd", level=23), "level is 23, not -131072 to 22"),
        (word("blosc", cname="lz4", clevel=10), "clevel is 10, not 0 to 9"),
        (word("numcodecs.zlib", level=10), "'zlib': its settings are refused"),
    ],
)
def test_settings_out_of_range_are_refused_for_a_new_array_of_zarr_v3(
    codec: Word, message: str
) -> None:
    with pytest.raises(UnknownCodec, match=message):
        check_codecs(described3("i4", (4, 6), LITTLE, codec))


def test_codecs_that_cannot_store_zero_are_tried_with_the_fill_value() -> None:
    less = word("scale_offset", offset=1, scale=2)
    check_codecs(described3("u1", (4,), less, word("bytes"), fill=7))
    with pytest.raises(CodecError, match="0 less 1 is no number of the type"):
        check_codecs(described3("u1", (4,), less, word("bytes"), fill=0))
    with pytest.raises(CodecError, match="0 less 1 is no number of the type"):
        check_codecs(described3("u1", (4,), less, word("bytes"), fill=None))
