"""Random chains of Zarr v3 over random types and shapes, with zarr-python and tensorstore."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.buffers import Values
from nczfs.model.smallnumbers import bits_of, number_kind
from tests.unit.codecs.test_v3_round_trips import CORE, Peer, as_object, sharding
from tests.unit.codecs.v3arrays import Word, codec, dtype_of, pipeline3, same_bits

SMALL = ["int2", "int4", "uint2", "uint4", "bfloat16", "float4_e2m1fn", "float6_e2m3fn",
         "float8_e3m4", "float8_e4m3fn", "float8_e5m2", "complex_bfloat16"]  # fmt: skip
OF_TENSORSTORE = [*CORE, "int4", "bfloat16", "float8_e4m3fn", "float8_e5m2"]

COMPRESSION: list[Word] = [
    codec("gzip", level=1),
    codec("zstd", level=-3, checksum=True),
    codec("zstd", level=5, checksum=False),
    codec("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=8, blocksize=0),
    codec("blosc", cname="zstd", clevel=1, shuffle="bitshuffle", typesize=2, blocksize=0),
    codec("blosc", cname="zlib", clevel=1, shuffle="noshuffle", typesize=1, blocksize=0),
    codec("crc32c"),
]


@st.composite
def serialized(draw: st.DrawFn, name: str, shape: tuple[int, ...], depth: int) -> list[Word]:
    """The codecs from array to bytes and after it."""
    endian = draw(st.sampled_from(["little", "big"]))
    item = dtype_of(CORE.get(name, name)).itemsize
    plain = codec("bytes", endian=endian) if item > 1 else codec("bytes")
    if depth < 2 and draw(st.booleans()):
        inner = [draw(st.sampled_from([n for n in range(1, side + 1) if side % n == 0]))
                 for side in shape]  # fmt: skip
        index: list[Word] = [codec("bytes", endian=draw(st.sampled_from(["little", "big"])))]
        index += [codec("crc32c")] * draw(st.booleans())
        plain = sharding(
            inner,
            *draw(chains(name, tuple(inner), depth + 1)),
            index_codecs=index,
            index_location=draw(st.sampled_from(["start", "end"])),
        )
    return [plain, *draw(st.lists(st.sampled_from(COMPRESSION), max_size=2))]


@st.composite
def chains(draw: st.DrawFn, name: str, shape: tuple[int, ...], depth: int = 0) -> list[Word]:
    """A legal chain for arrays of a type and a shape."""
    if draw(st.booleans()):
        order = draw(st.permutations(range(len(shape))))
        shape = tuple(shape[place] for place in order)
        return [codec("transpose", order=list(order)), *draw(serialized(name, shape, depth))]
    return draw(serialized(name, shape, depth))


shapes = st.lists(st.integers(1, 6), min_size=0, max_size=4).map(tuple)


def some(draw_bytes: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Values:
    """Values of any bits that numbers of the type can have."""
    count = int(np.prod(shape, dtype=int))
    raw = np.resize(np.frombuffer(draw_bytes, "u1"), count * dtype.itemsize)
    if dtype.kind == "b":
        raw = raw & 1
    elif bits_of(dtype) < 8:
        raw = raw & ((1 << bits_of(dtype)) - 1)
    return raw.view(dtype).reshape(shape)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_values_pass_through_any_chain_to_the_bit(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*CORE, *SMALL]))
    shape = data.draw(shapes)
    dtype = dtype_of(CORE.get(name, name))
    chain = data.draw(chains(name, shape))
    values = some(data.draw(st.binary(min_size=1, max_size=64)), dtype, shape)
    ours = pipeline3(CORE.get(name, name), shape, *chain)
    decoded = ours.decode(ours.encode(values))
    assert same_bits(decoded, values)
    assert decoded.flags.c_contiguous


def fill_of(dtype: np.dtype[Any]) -> Any:
    return {"b": False, "c": [0, 0]}.get(number_kind(dtype), 0)


def is_for_zarr_python(chain: list[Word]) -> bool:
    """Whether zarr-python reads a chain: it checks shards as if nothing were transposed."""
    is_transposed = False
    for word in chain:
        if isinstance(word, dict) and word["name"] == "transpose":
            is_transposed = True
        if isinstance(word, dict) and word["name"] == "sharding_indexed":
            inner: Any = word["configuration"]
            return not is_transposed and is_for_zarr_python(inner["codecs"])
    return True


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_chain_passes_between_zarr_python_and_nczfs(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*CORE]))
    shape = data.draw(shapes.filter(bool))  # it fails to write shards of rank 0
    dtype = dtype_of(CORE[name])
    chain = data.draw(chains(name, shape).filter(is_for_zarr_python))
    values = some(data.draw(st.binary(min_size=1, max_size=64)), dtype, shape)
    ours = pipeline3(CORE[name], shape, *chain)
    with TemporaryDirectory() as directory:
        peer = Peer(Path(directory), name, shape, chain, fill_of(dtype))
        assert same_bits(peer.decode(ours.encode(values)), values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of compressed shards, which are slow
            peer.array[...] = values
        if peer.chunk.exists():
            assert same_bits(ours.decode(peer.chunk.read_bytes()), values)


def tensorstore_array(
    directory: str, name: str, shape: tuple[int, ...], chain: list[Word], dtype: np.dtype[Any]
) -> tuple[Any, Path]:
    document = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": fill_of(dtype), "attributes": {},
        "codecs": [as_object(each) for each in chain],
    }  # fmt: skip
    (Path(directory) / "zarr.json").write_text(json.dumps(document))
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": directory + "/"}}
    array = tensorstore.open(spec, open=True, recheck_cached=True).result()
    return array, Path(directory) / ".".join(["c", *["0"] * len(shape)])


def is_for_tensorstore(chain: list[Word]) -> bool:
    """Whether tensorstore reads a chain: it compresses no whole shards."""
    last: Any = chain[-1]
    for word in chain:
        if isinstance(word, dict) and word["name"] == "sharding_indexed":
            inner: Any = word["configuration"]
            return word is last and is_for_tensorstore(inner["codecs"])
    return True


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_chain_passes_between_tensorstore_and_nczfs(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(OF_TENSORSTORE))
    shape = data.draw(shapes)
    dtype = dtype_of(CORE.get(name, name))
    chain = data.draw(chains(name, shape).filter(is_for_tensorstore))
    values = some(data.draw(st.binary(min_size=1, max_size=64)), dtype, shape)
    ours = pipeline3(CORE.get(name, name), shape, *chain)
    with TemporaryDirectory() as directory:
        array, chunk = tensorstore_array(directory, name, shape, chain, dtype)
        chunk.write_bytes(ours.encode(values))
        assert array.read().result().tobytes() == values.tobytes()
        chunk.unlink()
        array.write(values).result()
        if chunk.exists():
            assert same_bits(ours.decode(chunk.read_bytes()), values)


def test_a_negative_small_integer_passes_between_tensorstore_and_nczfs(tmp_path: Path) -> None:
    values = np.array([-8, -1, 0, 7]).astype(dtype_of("int4"))
    array, chunk = tensorstore_array(str(tmp_path), "int4", (4,), [codec("bytes")], values.dtype)
    array.write(values).result()
    ours = pipeline3("int4", (4,), codec("bytes"))
    assert same_bits(ours.decode(chunk.read_bytes()), values)


@pytest.mark.parametrize("endian", ["little", "big"])
def test_bfloat16_passes_between_tensorstore_and_nczfs(tmp_path: Path, endian: str) -> None:
    values = np.array([1.5, -2, 300]).astype(dtype_of("bfloat16"))
    chain = [codec("bytes", endian=endian)]
    array, chunk = tensorstore_array(str(tmp_path), "bfloat16", (3,), chain, values.dtype)
    array.write(values).result()
    assert same_bits(pipeline3("bfloat16", (3,), *chain).decode(chunk.read_bytes()), values)
