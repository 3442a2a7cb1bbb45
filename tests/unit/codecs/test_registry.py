"""Which codecs there are, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import numcodecs
import numpy as np
import pytest
from numcodecs.abc import Codec as NumcodecsCodec
from numcodecs.registry import codec_registry, register_codec

from nczfs.codecs import registry
from nczfs.codecs.codec import Codec, Flat, Size, as_bytes
from nczfs.codecs.pipelines import pipeline_of
from nczfs.errors import CorruptChunk, UnknownCodec
from nczfs.model.dtypes import VlenKind
from nczfs.model.hierarchy import ArrayDescription, CodecChain, Json
from tests.unit.codecs.arrays import CodecObject, described, pipeline
from tests.unit.codecs.test_v3_round_trips import sharding
from tests.unit.codecs.v3arrays import BIG, codec, pipeline3


class Inverted(Codec):
    """A third-party codec."""

    def encoded_size(self, size: Size) -> Size:
        return size

    def decode(self, data: Flat, size: Size) -> Flat:
        return ~as_bytes(data)

    def encode(self, data: Flat) -> Flat:
        return ~as_bytes(data)


def make_inverted(configuration: Mapping[str, Json], array: ArrayDescription) -> Codec:
    if "broken" in configuration:
        raise ValueError("not that way")
    return Inverted()


class Doubled(NumcodecsCodec):  # type: ignore[misc]  # numcodecs is not typed
    """A codec that only numcodecs knows."""

    codec_id = "test-doubled"

    def encode(self, buf: Any) -> Any:
        return np.concatenate((np.asarray(buf).view("u1"), np.asarray(buf).view("u1")))

    def decode(self, buf: Any, out: Any = None) -> Any:
        return memoryview(buf)[: len(buf) // 2]


@pytest.mark.parametrize("name", ["szip", "imagecodecs_jpeg2k", "test", "", "vlen-utf9"])
def test_an_unknown_codec_is_named(name: str) -> None:
    with pytest.raises(UnknownCodec, match=f"'{name}' is not installed"):
        pipeline("<i4", (3,), {"id": "shuffle"}, {"id": name})


def test_pickle_is_refused_on_purpose() -> None:
    with pytest.raises(UnknownCodec, match="'pickle' is not allowed"):
        pipeline("|O", (3,), {"id": "pickle", "protocol": 5})


@pytest.mark.parametrize(
    "codec",
    [
        {"id": "shuffle", "elementsize": "four"},
        {"id": "zlib", "level": [1]},
        {"id": "blosc", "cname": "snappier"},
        {"id": "blosc", "shuffle": 7},
        {"id": "delta", "dtype": "|O"},
        {"id": "delta", "dtype": "<i4", "astype": "<U1000"},
        {"id": "delta", "dtype": "<f16"},
        {"id": "delta"},
        {"id": "astype", "encode_dtype": "<c8", "decode_dtype": "<f4"},
        {"id": "fixedscaleoffset", "dtype": "<f4", "offset": 0},
        {"id": "quantize", "digits": 1, "dtype": "<i4"},
        {"id": "bitround"},
        {"id": "crc32", "location": "middle"},
        {"id": "jenkins_lookup3", "prefix": "AA=="},
        {"id": "categorize", "labels": [1], "dtype": "|O"},
        {"id": "categorize", "labels": ["a"], "dtype": "<f4"},
        {"id": "categorize", "labels": ["a"], "dtype": "<U1", "astype": "<f4"},
        {"id": "lzma", "format": 3},
        {"id": "lzma", "format": 3, "filters": [{"id": 0x21, "dict_size": 1 << 31}]},
        {"id": "lzma", "format": 9},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_followed_names_its_codec(codec: CodecObject) -> None:
    with pytest.raises(UnknownCodec, match=f"codec '{codec['id']}': "):
        pipeline("<i4", (3,), codec)


@pytest.mark.parametrize("encoding", ["zlib_codec", "punycode", "no such thing"])
def test_json_in_a_strange_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(UnknownCodec, match="json2"):
        pipeline("|O", (3,), {"id": "json2", "encoding": encoding}, vlen=VlenKind.JSON)


def test_numbers_written_as_text_are_numbers() -> None:
    values = np.arange(12, dtype="<i4")
    ours = pipeline(
        "<i4", (12,), {"id": "shuffle", "elementsize": "4"}, {"id": "zlib", "level": "5"}
    )
    data = numcodecs.Zlib(5).encode(numcodecs.Shuffle(4).encode(values))
    assert np.array_equal(ours.decode(data), values)


def test_unknown_members_of_a_configuration_are_ignored() -> None:
    ours = pipeline("<i4", (2,), {"id": "zstd", "level": 3, "window": 9})
    assert ours.decode(ours.encode(np.array([1, 2], "i4"))).tolist() == [1, 2]


def test_installed_entry_points_are_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("inverted", f"{__name__}:make_inverted", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: make_inverted)
    monkeypatch.setattr(registry, "_installed", lambda: {"inverted": point})
    ours = pipeline(">u2", (2,), {"id": "inverted"}, {"id": "zlib"})
    assert ours.decode(ours.encode(np.array([1, 2], "u2"))).tolist() == [1, 2]
    assert pipeline(">u2", (2,), {"id": "inverted"}).encode(np.array([1, 2], "u2")) == (
        b"\xff\xfe\xff\xfd"
    )
    with pytest.raises(UnknownCodec, match=r"codec 'inverted': .*not that way"):
        pipeline(">u2", (2,), {"id": "inverted", "broken": True})


def test_installed_entry_points_are_codecs_of_bytes_in_zarr_v3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("inverted", f"{__name__}:make_inverted", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: make_inverted)
    monkeypatch.setattr(registry, "_installed", lambda: {"inverted": point})
    ours = pipeline3("u2", (2,), BIG, codec("inverted"))
    assert ours.encode(np.array([1, 2], "u2")) == b"\xff\xfe\xff\xfd"
    inside = sharding([1], BIG, codec("inverted"), codec("zstd", level=1, checksum=True))
    ours = pipeline3("u2", (2,), inside, "inverted")
    assert ours.decode(ours.encode(np.array([1, 2], "u2"))).tolist() == [1, 2]
    with pytest.raises(UnknownCodec, match=r"codec 'inverted': .*not that way"):
        pipeline3("u2", (2,), BIG, codec("inverted", broken=True))
    with pytest.raises(UnknownCodec, match="'bytes' is from array to bytes, and cannot follow"):
        pipeline3("u2", (2,), "inverted", BIG)


def test_codecs_that_only_numcodecs_knows_are_used() -> None:
    register_codec(Doubled)
    try:
        ours = pipeline("<i4", (3,), {"id": "test-doubled"})
    finally:
        del codec_registry["test-doubled"]
    values = np.arange(3, dtype="i4")
    assert ours.encode(values) == 2 * values.tobytes()
    assert ours.decode(ours.encode(values)).tolist() == [0, 1, 2]
    with pytest.raises(CorruptChunk):
        ours.decode(b"ab")


@pytest.mark.parametrize("dtype", ["|S0", "<U0", "|V0"])
def test_elements_without_bytes_are_refused(dtype: str) -> None:
    with pytest.raises(UnknownCodec, match="no bytes"):
        pipeline(dtype, (3,))


def test_chains_of_other_formats_are_refused() -> None:
    array = described("<i4", (3,))
    other = ArrayDescription(
        array.shape, array.chunk_shape, array.dtype, None, CodecChain(zarr_format=4)
    )
    with pytest.raises(UnknownCodec, match="v4"):
        pipeline_of(other)
