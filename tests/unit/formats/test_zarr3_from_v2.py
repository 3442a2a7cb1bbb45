"""Descriptions of Zarr v2 arrays in Zarr v3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nczfs.errors import Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.jsonwrite import strict
from nczfs.formats.problems import Problems
from nczfs.formats.zarr2.array import Dialect, read_array
from nczfs.formats.zarr3.from_v2 import array_of_v2
from nczfs.formats.zarr3.write import array_members

PLAIN: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
DELTA = {"id": "delta", "dtype": "<i4", "astype": "<i2"}
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "blocksize": 0}
BLOSC_3 = {"typesize": 4, "cname": "lz4", "clevel": 5, "blocksize": 0}


def converted(**changes: Any) -> dict[str, Any]:
    """Return the members in Zarr v3 of the plain array with changes."""
    array = read_array(PLAIN | changes, "v/.zarray", FormatOptions(), Dialect(), Problems())
    members = array_members(array_of_v2(array, "v/.zarray"), (), "v/.zarray")
    found: dict[str, Any] = json.loads(strict(dict(members)))
    return found


def test_a_plain_array_keeps_its_keys_and_its_bytes() -> None:
    assert converted() == {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "fill_value": 0,
        "codecs": [LITTLE],
    }
    nested = converted(dimension_separator="/")["chunk_key_encoding"]
    assert nested == {"name": "v2", "configuration": {"separator": "/"}}


@pytest.mark.parametrize(
    ("changes", "codecs"),
    [
        ({"dtype": ">i4"}, [{"name": "bytes", "configuration": {"endian": "big"}}]),
        ({"dtype": "|u1"}, [{"name": "bytes"}]),
        ({"order": "F"}, [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE]),
        ({"order": "F", "shape": [4], "chunks": [2]}, [LITTLE]),
        (
            {"compressor": {"id": "gzip", "level": 5}},
            [LITTLE, {"name": "gzip", "configuration": {"level": 5}}],
        ),
        (
            {"compressor": {"id": "gzip", "level": -1}},
            [LITTLE, {"name": "numcodecs.gzip", "configuration": {"level": -1}}],
        ),
        (
            {"compressor": {"id": "zstd", "level": 3}},
            [LITTLE, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
        ),
        (
            {"compressor": {"id": "zlib", "level": 5}},
            [LITTLE, {"name": "numcodecs.zlib", "configuration": {"level": 5}}],
        ),
        (
            {"compressor": BLOSC | {"shuffle": 1}},
            [LITTLE, {"name": "blosc", "configuration": BLOSC_3 | {"shuffle": "shuffle"}}],
        ),
        (  # zarr-python refuses it
            {"compressor": BLOSC | {"shuffle": -1}},
            [LITTLE, {"name": "blosc", "configuration": BLOSC_3 | {"shuffle": "shuffle"}}],
        ),
        (
            {"compressor": BLOSC | {"shuffle": -1}, "dtype": "|i1"},
            [
                {"name": "bytes"},
                {
                    "name": "blosc",
                    "configuration": BLOSC_3 | {"shuffle": "bitshuffle", "typesize": 1},
                },
            ],
        ),
        (
            {"filters": [DELTA]},
            [
                {"name": "numcodecs.delta", "configuration": {"dtype": "<i4", "astype": "<i2"}},
                LITTLE,
            ],
        ),
        (  # the bytes have the order of what the filter gives
            {"dtype": ">i4", "filters": [DELTA | {"dtype": ">i4"}]},
            [
                {"name": "numcodecs.delta", "configuration": {"dtype": ">i4", "astype": "<i2"}},
                LITTLE,
            ],
        ),
        (
            {"dtype": ">f8", "filters": [{"id": "astype", "encode_dtype": "|u1"}]},
            [
                {"name": "numcodecs.astype", "configuration": {"encode_dtype": "|u1"}},
                {"name": "bytes"},
            ],
        ),
        (
            {"dtype": "|b1", "filters": [{"id": "packbits"}], "fill_value": False},
            [{"name": "numcodecs.packbits", "configuration": {}}, {"name": "bytes"}],
        ),
        (  # zarr-python refuses it
            {
                "filters": [{"id": "shuffle", "elementsize": 4}, {"id": "fletcher32"}],
                "compressor": {"id": "zlib", "level": 1},
            },
            [
                LITTLE,
                {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
                {"name": "numcodecs.fletcher32", "configuration": {}},
                {"name": "numcodecs.zlib", "configuration": {"level": 1}},
            ],
        ),
        ({"filters": [{"id": "crc32c"}]}, [LITTLE, {"name": "crc32c"}]),
        (
            {"filters": [{"id": "crc32c", "location": "start"}]},
            [LITTLE, {"name": "numcodecs.crc32c", "configuration": {"location": "start"}}],
        ),
    ],
)
def test_codecs_are_said_in_zarr_v3(changes: dict[str, Any], codecs: list[Any]) -> None:
    assert converted(**changes)["codecs"] == codecs


@pytest.mark.parametrize(
    ("codec", "name", "fill"), [("vlen-utf8", "string", ""), ("vlen-bytes", "bytes", "")]
)
def test_elements_of_variable_length_keep_their_codec(codec: str, name: str, fill: str) -> None:
    found = converted(
        dtype="|O", filters=[{"id": codec}], fill_value=0, compressor={"id": "gzip", "level": 1}
    )
    assert (found["data_type"], found["fill_value"]) == (name, fill)
    gzip = {"name": "gzip", "configuration": {"level": 1}}
    assert found["codecs"] == [{"name": codec}, gzip]


@pytest.mark.parametrize(
    ("dtype", "zero"),
    [
        ("<f8", 0.0),
        ("|b1", False),
        ("<U3", ""),
        ("|S3", "AAAA"),
        ("<c8", [0.0, 0.0]),
        ("<M8[D]", 0),
    ],
)
def test_an_undefined_fill_value_is_the_zero_of_the_type(dtype: str, zero: object) -> None:
    assert converted(dtype=dtype, fill_value=None)["fill_value"] == zero


def test_fields_of_one_byte_order_are_a_structured_type() -> None:
    found = converted(dtype=[["a", ">i4"], ["b", "|S2"], ["c", ">f8"]], fill_value=None)
    assert found["data_type"]["name"] == "structured"
    assert found["codecs"] == [{"name": "bytes", "configuration": {"endian": "big"}}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": [["a", "<i4"], ["b", ">f8"]]}, "dtype: its fields differ in byte order"),
        ({"dtype": [["a", "<i4", [2]]]}, "no structured types with arrays"),
        ({"dtype": "|O", "filters": [{"id": "pickle"}]}, "dtype: Zarr v3 has no type for"),
        ({"dtype": "|O", "filters": [{"id": "json2"}]}, "dtype: Zarr v3 has no type for"),
        ({"filters": [{"id": "base64"}]}, r"filters\[0\]: Zarr v3 has no codec 'base64'"),
        ({"compressor": {"id": "mine"}}, "compressor: Zarr v3 has no codec 'mine'"),
        (
            {"filters": [{"id": "shuffle", "elementsize": 4}, DELTA]},
            r"filters\[1\]: 'delta' follows a codec of bytes",
        ),
    ],
)
def test_what_zarr_v3_cannot_say_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Unsupported, match=f"^v/.zarray: .*{message}"):
        converted(**changes | {"fill_value": None})
