"""The codecs of new arrays: what nobody else could read is refused, with its name and why."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.codecs.wanted import check_codecs
from nczfs.errors import CodecError, UnknownCodec
from tests.unit.codecs.arrays import CodecObject, described

ELEMENT = np.zeros((), "<f4")


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
        check_codecs(described("<f4", (3, 4), codec), ELEMENT)


def test_codecs_that_do_not_take_the_elements_are_refused() -> None:
    codec: CodecObject = {"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<f8"}
    with pytest.raises(CodecError, match="'astype' cannot encode"):
        check_codecs(described("<f4", (3, 4), codec), ELEMENT)


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
    check_codecs(described("<f4", (3, 4), codec), ELEMENT)


def test_an_array_of_any_size_and_rank_is_checked_by_one_element() -> None:
    check_codecs(described("<f4", (1 << 40,) * 70, {"id": "zlib"}), ELEMENT)
