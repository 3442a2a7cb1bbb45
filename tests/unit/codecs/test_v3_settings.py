"""Chains of Zarr v3 that cannot be used are refused by the name of the codec and what is wrong."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from numcodecs.registry import codec_registry

from nczfs.codecs.pipelines import pipeline_of
from nczfs.errors import UnknownCodec
from nczfs.model.dtypes import VlenKind
from tests.unit.codecs.arrays import pipeline
from tests.unit.codecs.v3arrays import LITTLE, Word, codec, described3, pipeline3

INNER: dict[str, Any] = {"chunk_shape": [2, 3], "codecs": [LITTLE], "index_codecs": [LITTLE]}

CASES: dict[str, tuple[list[Word], str]] = {
    "none": ([], "none from array to bytes"),
    "no serializer": ([codec("transpose", order=[0, 1])], "none from array to bytes"),
    "bytes first": (["crc32c", LITTLE], "'bytes' is from array to bytes, and cannot follow"),
    "two serializers": ([LITTLE, LITTLE], "'bytes' is from array to bytes, and cannot follow"),
    "array codec last": (
        [LITTLE, codec("transpose", order=[0, 1])],
        "'transpose' is from array to array, and cannot follow 'bytes'",
    ),
    "array codec after compression": (
        [LITTLE, "crc32c", codec("transpose", order=[0, 1])],
        "'transpose' is from array to array, and cannot follow 'crc32c'",
    ),
    "serializer after compression": ([LITTLE, "crc32c", LITTLE], "'bytes' is from array to bytes"),
    "unknown": ([LITTLE, "example.unheard-of"], "'example.unheard-of' is not installed"),
    "unknown of numcodecs": ([LITTLE, "numcodecs.x"], "'numcodecs.x' is not installed"),
    "zfp": ([codec("zfp", mode="reversible")], "'zfp': .* not supported"),
    "zfp of numcodecs": (
        [codec("numcodecs.zfpy", mode=4)], "'numcodecs.zfpy': .* not supported.*pip install zfpy"
    ),
    "unknown setting of pcodec": ([codec("numcodecs.pcodec", x=8)], "its setting 'x' is unknown"),
    "pcodec of bytes": (
        [codec("cast_value", data_type="int8"), codec("numcodecs.pcodec")], "numbers of 2 to 8"
    ),
    "n5": ([codec("n5_default")], "'n5_default': .* not supported"),
    "conditional": ([codec("conditional")], "'conditional': .* not supported"),
    "no endian": (["bytes"], "'bytes': endian is missing"),
    "wrong endian": ([codec("bytes", endian="middle")], "endian is 'middle'; it must be 'little'"),
    "unknown setting": ([codec("bytes", endian="big", x=1)], "'bytes': its setting 'x' is unknown"),
    "unknown setting of gzip": (
        [LITTLE, codec("gzip", level=1, mtime=0)], "'gzip': its setting 'mtime' is unknown"
    ),
    "unknown setting of crc32c": ([LITTLE, codec("crc32c", location="start")], "'crc32c'"),
    "unknown setting of a vlen codec": ([codec("vlen-utf8", x=1)], "'vlen-utf8': its setting"),
    "unknown setting of a filter": (
        [codec("numcodecs.delta", dtype="<i4", x=1), LITTLE], "'numcodecs.delta': its setting 'x'"
    ),
    "transpose without order": ([codec("transpose"), LITTLE], "'transpose': order is None"),
    "transpose of another rank": ([codec("transpose", order=[0]), LITTLE], "a permutation of 2"),
    "transpose of truths": ([codec("transpose", order=[False, True]), LITTLE], "a permutation"),
    "transpose twice": ([codec("transpose", order=[1, 1]), LITTLE], "a permutation of 2"),
    "blosc shuffle": ([LITTLE, codec("blosc", cname="lz4", shuffle=1)], "'blosc': shuffle is 1"),
    "blosc word": ([LITTLE, codec("blosc", shuffle="bytes")], "'blosc': shuffle is 'bytes'"),
    "blosc compressor": ([LITTLE, codec("blosc", cname="zip")], "compressor 'zip'"),
    "blosc typesize": ([LITTLE, codec("blosc", typesize=0)], "'blosc': typesize is 0"),
    "zstd level": ([LITTLE, codec("zstd", level="high")], "'zstd': level is 'high'"),
    "vlen of numbers": (["vlen-utf8"], "'vlen-utf8': it is for texts of variable length"),
    "delta of another type": (
        [codec("numcodecs.delta", dtype="<f8"), LITTLE], "dtype is <f8, and the array has int32"
    ),
    "packed numbers": ([codec("numcodecs.packbits"), "bytes"], "packs only booleans, not int32"),
    "reshape without shape": ([codec("reshape"), LITTLE], "'reshape': shape is None"),
    "reshape twice -1": ([codec("reshape", shape=[-1, -1]), LITTLE], "more than one -1"),
    "reshape of 0": ([codec("reshape", shape=[0, -1]), LITTLE], "the entry 0"),
    "reshape of another size": ([codec("reshape", shape=[5, 5]), LITTLE], r"a chunk of \[4, 6\]"),
    "reshape that does not divide": ([codec("reshape", shape=[5, -1]), LITTLE], "does not fit"),
    "reshape out of order": ([codec("reshape", shape=[[1], [0]]), LITTLE], "out of order"),
    "reshape of no dimension": ([codec("reshape", shape=[[2], -1]), LITTLE], r"the entry \[2\]"),
    "reshape that moves a dimension": (
        [codec("reshape", shape=[2, [0], -1]), LITTLE], r"moves the dimensions \[0\]"
    ),
    "shard of another rank": (
        [codec("sharding_indexed", **{**INNER, "chunk_shape": [2]})], "a shard has 2 sides"
    ),
    "shard not divided": (
        [codec("sharding_indexed", **{**INNER, "chunk_shape": [3, 3]})], "does not divide"
    ),
    "chunk of length 0": (
        [codec("sharding_indexed", **{**INNER, "chunk_shape": [0, 3]})], "chunk_shape is"
    ),
    "shard without codecs": (
        [codec("sharding_indexed", **{**INNER, "codecs": []})], "none from array to bytes"
    ),
    "shard of no codecs": (
        [codec("sharding_indexed", **{**INNER, "codecs": [7]})], "the entry 7, which is no codec"
    ),
    "compressed index": (
        [codec("sharding_indexed", **{**INNER, "index_codecs": [LITTLE, codec("gzip", level=1)]})],
        "index_codecs: codec 'gzip'",
    ),
    "index nowhere": (
        [codec("sharding_indexed", **INNER, index_location="middle")], "index_location is 'middle'"
    ),
    "unknown setting of shards": (
        [codec("sharding_indexed", **INNER, x=1)], "'sharding_indexed': its setting 'x'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_chain_that_cannot_be_used_is_refused(name: str) -> None:
    codecs, message = CASES[name]
    with pytest.raises(UnknownCodec, match=message):
        pipeline3("i4", (4, 6), *codecs)


@pytest.mark.parametrize(
    ("name", "remedy"), [("pcodec", "nczfs\\[pcodec\\]"), ("zfpy", "zfpy==1.0.1")]
)
def test_the_message_of_a_codec_that_needs_a_package_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # it cannot be imported
    monkeypatch.delitem(codec_registry, name, raising=False)
    with pytest.raises(UnknownCodec, match=f"'numcodecs.{name}': .*pip install '?{remedy}"):
        pipeline3("i4", (4, 6), codec(f"numcodecs.{name}"))
    with pytest.raises(UnknownCodec, match=f"'{name}' is not installed: pip install '?{remedy}"):
        pipeline("i4", (4, 6), {"id": name})


def test_texts_need_a_codec_of_texts() -> None:
    with pytest.raises(UnknownCodec, match="'bytes': elements of variable length need a vlen"):
        pipeline3("O", (3,), LITTLE, vlen=VlenKind.TEXT)
    with pytest.raises(UnknownCodec, match="'vlen-bytes': it is for byte strings"):
        pipeline3("O", (3,), "vlen-bytes", vlen=VlenKind.TEXT)


def test_a_message_shows_little_of_what_is_wrong() -> None:
    long = "x" * 10**6
    for wrong in (
        codec("transpose", order=[long]),
        codec(long),
        codec("bytes", **{long: 1}),
        codec("bytes", endian=long),
    ):
        with pytest.raises(UnknownCodec) as caught:
            pipeline_of(described3("i4", (4, 6), wrong, LITTLE))
        assert len(str(caught.value)) < 300
