"""What nczfs encodes, numcodecs and zarr-python decode to the same values, and the reverse."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numpy as np
import pytest
import zarr
from isal import isal_zlib

from nczfs.buffers import Values
from tests.unit.codecs.arrays import CodecObject, pipeline

DTYPES = [
    "|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u4", "<i4", "<i8", ">u8", "<f2", ">f2", "<f4",
    ">f4", "<f8", ">f8", "<c8", ">c16", "|S5", "<U3", ">U3", "|V7", "<M8[s]", ">M8[25ms]",
    "<m8[D]",
]  # fmt: skip

COMPRESSORS: list[CodecObject | None] = [
    None,
    {"id": "zlib", "level": 1},
    {"id": "zlib", "level": 0},
    {"id": "zlib", "level": 9},
    {"id": "gzip", "level": 1},
    {"id": "gzip", "level": 5},
    {"id": "bz2", "level": 2},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"id": "lzma", "format": 3, "check": 0, "preset": None,
     "filters": [{"id": 0x21, "preset": 1}]},
    {"id": "zstd", "level": 3},
    {"id": "zstd", "level": -5, "checksum": True},
    {"id": "lz4", "acceleration": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 0},
    {"id": "blosc", "cname": "blosclz", "clevel": 9, "shuffle": 0, "blocksize": 256},
    {"id": "blosc", "cname": "zlib", "clevel": 3, "shuffle": -1, "blocksize": 0},
    {"id": "blosc", "cname": "lz4hc", "clevel": 3, "shuffle": 1, "blocksize": 0},
]  # fmt: skip

BYTE_FILTERS: list[CodecObject] = [
    {"id": "shuffle", "elementsize": 4},
    {"id": "shuffle", "elementsize": 1},
    {"id": "fletcher32"},
    {"id": "crc32"},
    {"id": "crc32", "location": "end"},
    {"id": "adler32"},
    {"id": "adler32", "location": "end"},
    {"id": "crc32c"},
    {"id": "crc32c", "location": "start"},
    {"id": "jenkins_lookup3", "initval": 0},
    {"id": "jenkins_lookup3", "initval": 7},
    {"id": "base64"},
]

NUMBER_FILTERS: list[tuple[str, list[CodecObject]]] = [
    ("<i4", [{"id": "delta", "dtype": "<i4", "astype": "<i4"}]),
    (">i8", [{"id": "delta", "dtype": ">i8", "astype": "<i2"}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 270, "scale": 10, "dtype": "<f8",
              "astype": "<i2"}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f8", "astype": "<i4"},
             {"id": "delta", "dtype": "<i4", "astype": "<i4"}]),
    ("<f4", [{"id": "quantize", "digits": 2, "dtype": "<f4", "astype": "<f4"}]),
    ("<f8", [{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f2"}]),
    ("<f4", [{"id": "bitround", "keepbits": 5}]),
    ("<f8", [{"id": "bitround", "keepbits": 52}]),
    ("<f8", [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}]),
    (">i4", [{"id": "astype", "encode_dtype": "|i1", "decode_dtype": ">i4"}]),
    ("|b1", [{"id": "packbits"}]),
    ("<U6", [{"id": "categorize", "labels": ["female", "male"], "dtype": "<U6",
              "astype": "|u1"}]),
    ("<i4", [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5},
             {"id": "fletcher32"}]),
    ("<f8", [{"id": "pcodec", "level": 8}]),
    ("<i8", [{"id": "delta", "dtype": "<i8", "astype": "<i4"}, {"id": "pcodec"}]),
]  # fmt: skip


def values_of(dtype: str, shape: tuple[int, ...] = (6, 10)) -> Values:
    """Small whole numbers of either sign, in native byte order."""
    native = np.dtype(dtype).newbyteorder("=")
    numbers: Values = np.arange(int(np.prod(shape))).reshape(shape) % 23
    match native.kind:
        case "b":
            return (numbers % 3).astype(native)
        case "S":
            return numbers.astype("S5").astype(native)
        case "U":
            return np.array(["", "male", "female"], native).take(numbers % 3)
        case "V":
            return np.frombuffer(numbers.astype("u1").repeat(7).tobytes(), native).reshape(shape)
        case "M" | "m":
            return numbers.astype("i8").view(native)
        case "c":
            return (numbers - 5j * numbers).astype(native)
        case "u":
            return numbers.astype(native)
        case _:
            return (numbers - 11).astype(native)


class Peer:
    """An array of one chunk that zarr-python reads and writes."""

    def __init__(
        self,
        directory: Path,
        dtype: str,
        shape: tuple[int, ...],
        filters: list[CodecObject] | None,
        compressor: CodecObject | None,
        order: str,
    ) -> None:
        document = {
            "zarr_format": 2, "shape": shape, "chunks": shape, "dtype": dtype, "order": order,
            "filters": filters, "compressor": compressor, "fill_value": None,
        }  # fmt: skip
        (directory / ".zarray").write_text(json.dumps(document))
        self.chunk = directory / ".".join("0" * len(shape) or "0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of codecs and types that are not in Zarr v3
            self.array: Any = zarr.open_array(directory, mode="r+", zarr_format=2)

    def encode(self, values: Values) -> bytes:
        self.array[...] = values
        return self.chunk.read_bytes()

    def decode(self, data: bytes) -> Values:
        self.chunk.write_bytes(data)
        return np.asarray(self.array[...])


def same(a: Values, b: Values) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def identity(codec: CodecObject | None) -> str:
    return "-".join(str(value) for value in (codec or {"id": "raw"}).values())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_passes_between_zarr_python_and_nczfs(
    tmp_path: Path, dtype: str, order: Literal["C", "F"]
) -> None:
    compressor: CodecObject = {"id": "zlib", "level": 1}
    peer = Peer(tmp_path, dtype, (6, 10), None, compressor, order)
    ours = pipeline(dtype, (6, 10), compressor, order=order)
    values = values_of(dtype)
    assert same(ours.decode(peer.encode(values)), values)
    read = peer.decode(ours.encode(values))
    assert read.tolist() == values.tolist()


@pytest.mark.parametrize("dtype", ["<f4", ">i2"])
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=identity)
def test_every_compressor_passes_between_numcodecs_and_nczfs(
    compressor: CodecObject | None, dtype: str
) -> None:
    codecs = [compressor] if compressor else []
    ours = pipeline(dtype, (60, 70), *codecs)
    values = values_of(dtype, (60, 70))
    stored = values.astype(dtype)
    if compressor is None:
        assert ours.encode(values) == stored.tobytes()
        assert same(ours.decode(stored.tobytes()), values)
        return
    theirs = numcodecs.get_codec(dict(compressor))
    assert same(ours.decode(bytes(theirs.encode(stored))), values)
    assert bytes(theirs.decode(ours.encode(values))) == stored.tobytes()


@pytest.mark.parametrize("name", ["zlib", "gzip"])
@pytest.mark.parametrize("level", [0, 1, 6])
def test_deflated_data_need_neither_libdeflate_nor_isal(
    name: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = pipeline("<f4", (60, 70), {"id": name, "level": level})
    values = values_of("<f4", (60, 70))
    with_both = ours.encode(values)
    monkeypatch.setattr("nczfs.codecs.streams.deflate", None)
    monkeypatch.setattr("nczfs.codecs.streams.isal_zlib", None)
    assert same(ours.decode(with_both), values)
    without = ours.encode(values)
    monkeypatch.undo()
    assert same(ours.decode(without), values)


@pytest.mark.parametrize(("name", "window_bits"), [("zlib", 15), ("gzip", 31)])
def test_level_1_is_what_isal_makes_of_it(name: str, window_bits: int) -> None:
    values = values_of("<f4", (60, 70))
    fast = isal_zlib.compress(values.tobytes(), 1, window_bits)
    assert pipeline("<f4", (60, 70), {"id": name, "level": 1}).encode(values) == fast


@pytest.mark.parametrize("codec", BYTE_FILTERS, ids=identity)
def test_every_byte_filter_passes_between_numcodecs_and_nczfs(codec: CodecObject) -> None:
    ours = pipeline("<f4", (6, 10), codec)
    theirs = numcodecs.get_codec(dict(codec))
    values = values_of("<f4")
    assert same(ours.decode(bytes(theirs.encode(values))), values)
    assert bytes(theirs.decode(ours.encode(values))) == values.tobytes()
    assert ours.encode(values) == bytes(theirs.encode(values))


# zarr-python itself reads other values than it wrote where bitround meets F order.
IN_BOTH_ORDERS = [
    pytest.param(dtype, filters, order, id=f"{dtype} {filters[0]['id']} {order}")
    for dtype, filters in NUMBER_FILTERS
    for order in ("C", "F")
    if (filters[0]["id"], order) != ("bitround", "F")
]


@pytest.mark.parametrize(("dtype", "filters", "order"), IN_BOTH_ORDERS)
def test_every_number_filter_passes_between_zarr_python_and_nczfs(
    tmp_path: Path, dtype: str, filters: list[CodecObject], order: Literal["C", "F"]
) -> None:
    compressor: CodecObject = {"id": "zstd", "level": 1}
    peer = Peer(tmp_path, dtype, (6, 10), filters, compressor, order)
    ours = pipeline(dtype, (6, 10), *filters, compressor, order=order)
    values = values_of(dtype)
    theirs = ours.decode(peer.encode(values))
    assert np.array_equal(theirs, np.asarray(peer.array[...]))
    written = ours.encode(values)
    assert same(ours.decode(written), theirs)
    assert np.array_equal(peer.decode(written), theirs)


def test_bitround_of_big_endian_floats_rounds_as_of_little_endian_ones() -> None:
    codec: CodecObject = {"id": "bitround", "keepbits": 4}
    values = np.linspace(1, 2, 50, dtype="f4")
    little, big = pipeline("<f4", (50,), codec), pipeline(">f4", (50,), codec)
    rounded = little.decode(little.encode(values))
    assert not np.array_equal(rounded, values)
    assert same(big.decode(big.encode(values)), rounded)


@pytest.mark.parametrize("order", ["C", "F"])
def test_structured_elements_get_the_native_order_of_each_field(order: Literal["C", "F"]) -> None:
    stored = np.dtype(
        [("id", "<i4"), ("name", "S4"), ("at", [("x", "<f4"), ("y", ">f8")]), ("v", ">i2", (2,))]
    )
    ours = pipeline(stored, (2, 3), {"id": "zlib", "level": 1}, order=order)
    values = np.zeros((2, 3), stored.newbyteorder("="))
    values["id"] = np.arange(6).reshape(2, 3)
    values["name"] = b"ab"
    values["at"]["y"] = values["id"] / 7
    values["v"] = 258
    data = numcodecs.Zlib().encode(values.astype(stored).tobytes(order=order))
    decoded = ours.decode(data)
    assert decoded.dtype == stored.newbyteorder("=")
    assert same(decoded, values)
    assert numcodecs.Zlib().decode(ours.encode(values)) == numcodecs.Zlib().decode(data)


def test_a_scalar_is_one_element() -> None:
    ours = pipeline(">f8", (), {"id": "zlib", "level": 1}, order="F")
    decoded = ours.decode(ours.encode(np.array(2.5)))
    assert decoded.shape == ()
    assert decoded[()] == 2.5


def test_raw_native_data_are_shown_without_a_copy_and_read_only() -> None:
    data = bytearray(np.arange(6, dtype="<f8").tobytes())
    values = pipeline("<f8", (2, 3)).decode(data)
    assert np.shares_memory(values, np.frombuffer(data, "u1"))
    assert not values.flags.writeable


def test_a_transposed_view_is_encoded_as_its_values() -> None:
    ours = pipeline("<i4", (3, 2), {"id": "zlib", "level": 1})
    values = np.arange(6, dtype="i4").reshape(2, 3).T
    assert np.array_equal(ours.decode(ours.encode(values)), values)
