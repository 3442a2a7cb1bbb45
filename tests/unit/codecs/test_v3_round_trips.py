"""What nczfs encodes for Zarr v3, zarr-python decodes to the same values, and the reverse."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from nczfs.buffers import Values
from nczfs.model.dtypes import VlenKind
from tests.unit.codecs.test_round_trips import values_of
from tests.unit.codecs.v3arrays import BIG, LITTLE, Word, codec, pipeline3, same_bits

INDEX: list[Word] = [LITTLE, "crc32c"]


def sharding(chunk_shape: list[int], *codecs: Word, **others: Any) -> Word:
    return codec(
        "sharding_indexed",
        chunk_shape=chunk_shape,
        codecs=list(codecs),
        **({"index_codecs": INDEX} | others),
    )


CORE = {
    "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4",
    "float64": "f8", "complex64": "c8", "complex128": "c16",
}  # fmt: skip

CHAINS: dict[str, list[Word]] = {
    "bytes": [LITTLE],
    "big-endian": [BIG],
    "gzip": [LITTLE, codec("gzip", level=5)],
    "zstd": [LITTLE, codec("zstd", level=3, checksum=False)],
    "zstd with checksum": [BIG, codec("zstd", level=0, checksum=True)],
    "crc32c": [LITTLE, "crc32c"],
    "gzip, crc32c": [LITTLE, codec("gzip", level=1), "crc32c"],
    "transpose": [codec("transpose", order=[1, 0]), LITTLE],
    "transpose, big-endian, zstd": [
        codec("transpose", order=[1, 0]), BIG, codec("zstd", level=1, checksum=False)
    ],
    "shards": [sharding([3, 5], LITTLE, codec("zstd", level=1, checksum=False))],
    "shards with the index in front": [sharding([2, 2], BIG, index_location="start")],
    "shards with a plain index": [sharding([6, 1], LITTLE, index_codecs=[BIG])],
    "compressed shards": [sharding([3, 5], LITTLE), codec("gzip", level=1)],
    "nested shards": [sharding([3, 10], sharding([1, 5], LITTLE, "crc32c"))],
    # zarr-python wants a chunk that divides the shard before the transposition as well.
    "transposed shards": [codec("transpose", order=[1, 0]), sharding([2, 2], LITTLE)],
    "shards of transposed chunks": [sharding([3, 5], codec("transpose", order=[1, 0]), LITTLE)],
}  # fmt: skip
for _cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
    for _shuffle in ("noshuffle", "shuffle", "bitshuffle"):
        CHAINS[f"blosc {_cname} {_shuffle}"] = [
            LITTLE,
            codec("blosc", cname=_cname, clevel=5, shuffle=_shuffle, typesize=4, blocksize=0),
        ]

NUMCODECS: dict[str, tuple[str, list[Word]]] = {
    "bz2": ("int32", [LITTLE, codec("numcodecs.bz2", level=1)]),
    "lz4": ("int32", [LITTLE, codec("numcodecs.lz4", acceleration=1)]),
    "lzma": ("int32", [LITTLE, codec("numcodecs.lzma")]),
    "zlib": ("int32", [LITTLE, codec("numcodecs.zlib", level=3)]),
    "gzip": ("int32", [LITTLE, codec("numcodecs.gzip", level=1)]),
    "zstd": ("int32", [LITTLE, codec("numcodecs.zstd", level=3)]),
    "blosc": ("int32", [LITTLE, codec("numcodecs.blosc", cname="lz4", clevel=5, shuffle=1)]),
    "adler32": ("int32", [LITTLE, codec("numcodecs.adler32")]),
    "crc32": ("int32", [LITTLE, codec("numcodecs.crc32")]),
    "crc32c": ("int32", [LITTLE, codec("numcodecs.crc32c")]),
    "fletcher32": ("int32", [LITTLE, codec("numcodecs.fletcher32")]),
    "jenkins": ("int32", [LITTLE, codec("numcodecs.jenkins_lookup3")]),
    "shuffle": ("int32", [LITTLE, codec("numcodecs.shuffle", elementsize=4)]),
    "shuffle of the item size": ("int32", [LITTLE, codec("numcodecs.shuffle")]),
    "delta": ("int32", [codec("numcodecs.delta", dtype="<i4"), LITTLE]),
    "delta to bytes": ("int32", [codec("numcodecs.delta", dtype="<i4", astype="|i1"), "bytes"]),
    "fixedscaleoffset": (
        "float64",
        [codec("numcodecs.fixedscaleoffset", offset=270, scale=10, dtype="<f8", astype="<i2"),
         LITTLE],
    ),
    "fixedscaleoffset of the array's type": (
        "float64", [codec("numcodecs.fixedscaleoffset", offset=-3, scale=1, astype="<i4"), LITTLE]
    ),
    "quantize": ("float32", [codec("numcodecs.quantize", digits=2, dtype="<f4"), LITTLE]),
    "astype": (
        "float64", [codec("numcodecs.astype", encode_dtype="<f4", decode_dtype="<f8"), LITTLE]
    ),
    "packbits": ("bool", [codec("numcodecs.packbits"), "bytes"]),
    "pcodec": ("int32", [codec("numcodecs.pcodec", level=8)]),
    "pcodec, crc32c": ("float64", [codec("numcodecs.pcodec", delta_spec="none"), "crc32c"]),
}  # fmt: skip


class Peer:
    """An array of one chunk that zarr-python reads and writes."""

    def __init__(
        self, directory: Path, data_type: object, shape: tuple[int, ...], codecs: list[Word],
        fill: object,
    ) -> None:  # fmt: skip
        document = {
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": fill, "attributes": {},
            "codecs": [as_object(each) for each in codecs],
        }  # fmt: skip
        (directory / "zarr.json").write_text(json.dumps(document))
        self.chunk = directory / ".".join(["c", *["0"] * len(shape)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of codecs that are not in the specification
            self.array: Any = zarr.open_array(directory, mode="r+", zarr_format=3)

    def encode(self, values: Values) -> bytes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.array[...] = values
        return self.chunk.read_bytes()

    def decode(self, data: bytes) -> Values:
        self.chunk.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(self.array[...])


def as_object(word: Any) -> Any:
    """The long form of all codecs, the only one that zarr-python reads."""
    if isinstance(word, str):
        return {"name": word}
    configuration = {
        name: [as_object(each) for each in value] if name.endswith("codecs") else value
        for name, value in word["configuration"].items()
    }
    return {"name": word["name"], "configuration": configuration}


@pytest.mark.parametrize("endian", [LITTLE, BIG], ids=["little", "big"])
@pytest.mark.parametrize("name", CORE)
def test_every_core_type_passes_between_zarr_python_and_nczfs(
    tmp_path: Path, name: str, endian: Word
) -> None:
    values = values_of(CORE[name])
    codecs: list[Word] = [endian if values.itemsize > 1 else "bytes"]
    fill: Any = [0, 0] if values.dtype.kind == "c" else values.dtype.type(0).item()
    peer = Peer(tmp_path, name, values.shape, codecs, fill)
    ours = pipeline3(CORE[name], values.shape, *codecs)
    assert same_bits(ours.decode(peer.encode(values)), values)
    assert same_bits(peer.decode(ours.encode(values)), values)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("data_type", ["float32", "int16"])
def test_every_chain_passes_between_zarr_python_and_nczfs(
    tmp_path: Path, data_type: str, name: str
) -> None:
    values = values_of(CORE[data_type])
    peer = Peer(tmp_path, data_type, values.shape, CHAINS[name], 0)
    ours = pipeline3(CORE[data_type], values.shape, *CHAINS[name])
    decoded = ours.decode(peer.encode(values))
    assert same_bits(decoded, values)
    assert decoded.flags.c_contiguous
    assert same_bits(peer.decode(ours.encode(values)), values)


@pytest.mark.parametrize("name", NUMCODECS)
def test_every_codec_of_numcodecs_passes_between_zarr_python_and_nczfs(
    tmp_path: Path, name: str
) -> None:
    data_type, codecs = NUMCODECS[name]
    values = values_of(CORE[data_type])
    peer = Peer(tmp_path, data_type, values.shape, codecs, 0)
    ours = pipeline3(CORE[data_type], values.shape, *codecs)
    theirs = ours.decode(peer.encode(values))
    assert same_bits(theirs, np.asarray(peer.array[...]))
    written = ours.encode(values)
    assert same_bits(ours.decode(written), theirs)
    assert same_bits(peer.decode(written), theirs)


@pytest.mark.parametrize(
    "codecs",
    [["vlen-utf8"], ["vlen-utf8", codec("zstd", level=1, checksum=False)],
     [codec("transpose", order=[1, 0]), "vlen-utf8"], [sharding([3, 5], "vlen-utf8")]],
    ids=["plain", "zstd", "transpose", "shards"],
)  # fmt: skip
def test_texts_pass_between_zarr_python_and_nczfs(tmp_path: Path, codecs: list[Word]) -> None:
    values = np.array([f"{n % 7 * 'é'}{n % 3 or ''}" for n in range(60)], object).reshape(6, 10)
    peer = Peer(tmp_path, "string", values.shape, codecs, "")
    ours = pipeline3("O", values.shape, *codecs, vlen=VlenKind.TEXT)
    assert peer.decode(ours.encode(values)).tolist() == values.tolist()
    if codecs[0] != codec("transpose", order=[1, 0]):
        # zarr-python writes transposed texts in the order that they have in memory.
        assert ours.decode(peer.encode(values)).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("data_type", "dtype"),
    [
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}}, "U3"),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}}, "S5"),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 7}}, "V7"),
        ({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 5}},
         "M8[5s]"),
        ({"name": "numpy.timedelta64", "configuration": {"unit": "D", "scale_factor": 1}},
         "m8[D]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("endian", [LITTLE, BIG], ids=["little", "big"])
def test_extension_types_pass_between_zarr_python_and_nczfs(
    tmp_path: Path, data_type: Any, dtype: str, endian: Word
) -> None:
    values = values_of(dtype)
    fill = {"U": "", "S": "", "V": "", "M": 0, "m": 0}[values.dtype.kind]
    codecs = [endian if values.dtype.kind in "UMm" else LITTLE]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that are not in the specification
        peer = Peer(tmp_path, data_type, values.shape, codecs, fill)
    ours = pipeline3(dtype, values.shape, *codecs, fill=None)
    assert same_bits(ours.decode(peer.encode(values)), values)
    assert peer.decode(ours.encode(values)).tolist() == values.tolist()


@pytest.mark.parametrize("endian", [LITTLE, BIG, "bytes"], ids=["little", "big", "none"])
def test_all_fields_of_a_structure_have_one_byte_order(endian: Word) -> None:
    native = np.dtype([("id", "i4"), ("name", "S4"), ("at", [("x", "f4"), ("y", "f8")])])
    values = np.zeros((2, 3), native)
    values["id"] = np.arange(6).reshape(2, 3)
    values["at"]["y"] = values["id"] / 7
    ours = pipeline3(native, (2, 3), endian, fill=None)
    stored = native.newbyteorder(">" if endian is BIG else "<")
    data = values.astype(stored).tobytes()
    assert same_bits(ours.decode(data), values)
    assert ours.encode(values) == data


def test_a_scalar_is_one_element() -> None:
    chain = [codec("transpose", order=[]), BIG, codec("zstd", level=1)]
    ours = pipeline3("f8", (), *chain)
    decoded = ours.decode(ours.encode(np.array(2.5)))
    assert decoded.shape == ()
    assert decoded[()] == 2.5
    shard = pipeline3("f8", (), sharding([], LITTLE))
    assert shard.decode(shard.encode(np.array(2.5)))[()] == 2.5


def test_native_data_are_shown_without_a_copy_and_read_only() -> None:
    data = bytearray(np.arange(6, dtype="<f8").tobytes())
    values = pipeline3("f8", (2, 3), LITTLE).decode(data)
    assert np.shares_memory(values, np.frombuffer(data, "u1"))
    assert not values.flags.writeable


@pytest.mark.parametrize("shape", [[[0, 1], [2]], [-1], [[0], -1], [4, 3, -1], [[0, 1, 2]]])
def test_a_reshaped_array_has_the_same_elements_in_the_same_order(shape: list[Any]) -> None:
    values = np.arange(24, dtype="i4").reshape(2, 3, 4)
    ours = pipeline3("i4", (2, 3, 4), codec("reshape", shape=shape), LITTLE)
    assert ours.encode(values) == values.tobytes()
    assert same_bits(ours.decode(values.tobytes()), values)


def test_a_reshape_moves_what_a_transpose_follows() -> None:
    values = np.arange(24, dtype="i4").reshape(2, 3, 4)
    chain = [codec("reshape", shape=[[0, 1], [2]]), codec("transpose", order=[1, 0]), LITTLE]
    ours = pipeline3("i4", (2, 3, 4), *chain)
    data = values.reshape(6, 4).T.tobytes()
    assert ours.encode(values) == data
    assert same_bits(ours.decode(data), values)


def test_names_from_before_the_standard_are_read() -> None:
    values = np.arange(6, dtype="i4").reshape(2, 3)
    old = [codec("transpose", order="F"), codec("endian", endian="big")]
    data = values.T.astype(">i4").tobytes()
    assert same_bits(pipeline3("i4", (2, 3), *old).decode(data), values)


def test_chunks_of_the_fill_value_are_left_out_of_a_shard() -> None:
    values = np.full((6, 10), np.nan, "f4")
    ours = pipeline3("f4", (6, 10), sharding([3, 5], LITTLE), fill=np.nan)
    assert len(ours.encode(values)) == 4 * 16 + 4
    assert same_bits(ours.decode(ours.encode(values)), values)
    values[0, 0] = 1
    assert len(ours.encode(values)) == 3 * 5 * 4 + 4 * 16 + 4
    assert same_bits(ours.decode(ours.encode(values)), values)


def test_an_unknown_codec_that_may_be_skipped_is_skipped_and_forbids_writing() -> None:
    skippable: Word = {"name": "example.skippable", "must_understand": False}
    values = np.arange(6, dtype="u1")
    ours = pipeline3("u1", (6,), "bytes", skippable)
    assert same_bits(ours.decode(values.tobytes()), values)
    with pytest.raises(Exception, match=r"'example\.skippable' is not known"):
        ours.encode(values)
