"""Elements of variable length: texts, byte strings, arrays, JSON values."""

from __future__ import annotations

from typing import Any, Literal

import msgpack
import numcodecs
import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.errors import CodecError, CorruptChunk, UnknownCodec
from nczfs.model.dtypes import VlenKind
from tests.unit.codecs.arrays import CodecObject, pipeline

UTF8: CodecObject = {"id": "vlen-utf8"}
JSON2: CodecObject = {"id": "json2"}


def objects(*items: object) -> Values:
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array


CASES: list[tuple[CodecObject, VlenKind, Values]] = [
    (UTF8, VlenKind.TEXT, objects("", "é", "abc", "q" * 300, "\0", "𝄞")),
    ({"id": "vlen-bytes"}, VlenKind.BYTES, objects(b"", b"\0\xff", b"abc", b"q" * 300, b"z", b"")),
    (JSON2, VlenKind.JSON, objects("a", {"k": [1, 2]}, None, 3.5, True, "é")),
    (
        {"id": "categorize", "labels": ["red", "green"], "dtype": "|O", "astype": "|u1"},
        VlenKind.TEXT,
        objects("red", "green", "", "green", "red", ""),
    ),
]


@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}, {"id": "blosc"}])
@pytest.mark.parametrize(("codec", "kind", "values"), CASES, ids=[str(c[0]["id"]) for c in CASES])
def test_objects_pass_between_numcodecs_and_nczfs(
    codec: CodecObject, kind: VlenKind, values: Values, compressor: CodecObject | None
) -> None:
    codecs = [codec, compressor] if compressor else [codec]
    ours = pipeline("|O", (2, 3), *codecs, vlen=kind)
    data: Any = values
    for each in codecs:
        data = numcodecs.get_codec(dict(each)).encode(data)
    decoded = ours.decode(bytes(data))
    assert decoded.shape == (2, 3)
    assert decoded.reshape(-1).tolist() == values.tolist()
    data = ours.encode(values.reshape(2, 3))
    for each in reversed(codecs):
        data = numcodecs.get_codec(dict(each)).decode(data)
    assert np.asarray(data).tolist() == values.tolist()


@pytest.mark.parametrize("dtype", ["<i4", ">i4"])
def test_ragged_arrays_have_native_byte_order(dtype: str) -> None:
    ours = pipeline("|O", (3,), {"id": "vlen-array", "dtype": dtype}, vlen=VlenKind.ARRAY)
    values = objects(np.arange(3, dtype="i4"), np.empty(0, "i4"), np.array([7], "i4"))
    theirs = numcodecs.VLenArray(dtype)
    decoded = ours.decode(bytes(theirs.encode(values)))
    assert [part.tolist() for part in decoded] == [[0, 1, 2], [], [7]]
    assert {part.dtype for part in decoded} == {np.dtype("i4")}
    assert ours.encode(values) == bytes(theirs.encode(values))


@pytest.mark.parametrize("order", ["C", "F"])
def test_texts_follow_the_order_of_the_chunk(order: Literal["C", "F"]) -> None:
    ours = pipeline("|O", (2, 3), UTF8, vlen=VlenKind.TEXT, order=order)
    values = objects(*"abcdef").reshape(2, 3)
    data = numcodecs.VLenUTF8().encode(np.asarray(values, order=order))
    assert ours.encode(values) == bytes(data)
    assert ours.decode(bytes(data)).tolist() == values.tolist()


@pytest.mark.parametrize("order", ["C", "F"])
def test_nested_json_lists_are_in_c_order_whatever_the_chunk_says(
    order: Literal["C", "F"],
) -> None:
    ours = pipeline("|O", (2, 2), JSON2, vlen=VlenKind.JSON, order=order)
    data = b'[[{"a":1},[2]],["three",null],"|O",[2,2]]'
    assert ours.decode(data).tolist() == [[{"a": 1}, [2]], ["three", None]]


def test_msgpack_lists_are_read_and_written() -> None:
    ours = pipeline("|O", (3,), {"id": "msgpack2"}, vlen=VlenKind.JSON)
    values = objects("a", {"k": [1, 2]}, None)
    data = ours.encode(values)
    assert msgpack.unpackb(data) == ["a", {"k": [1, 2]}, None, "|O", [3]]
    assert ours.decode(data).tolist() == values.tolist()


def test_a_chunk_of_too_few_texts_is_corrupt() -> None:
    data = bytes(numcodecs.VLenUTF8().encode(objects("a", "b")))
    with pytest.raises(CorruptChunk):
        pipeline("|O", (3,), UTF8, vlen=VlenKind.TEXT).decode(data)


def test_a_chunk_of_more_texts_is_cut() -> None:
    data = bytes(numcodecs.VLenUTF8().encode(objects("a", "b", "c")))
    decoded = pipeline("|O", (2,), UTF8, vlen=VlenKind.TEXT).decode(data)
    assert decoded.tolist() == ["a", "b"]


def test_categories_beyond_the_labels_are_empty_texts() -> None:
    codec: CodecObject = {
        "id": "categorize", "labels": ["a"], "dtype": "|O", "astype": "|i1",
    }  # fmt: skip
    ours = pipeline("|O", (4,), codec, vlen=VlenKind.TEXT)
    assert ours.decode(bytes([1, 0, 2, 255])).tolist() == ["a", "", "", ""]


def test_values_that_a_codec_cannot_hold_are_named() -> None:
    ours = pipeline("|O", (1,), UTF8, vlen=VlenKind.TEXT)
    with pytest.raises(CodecError, match="vlen-utf8"):
        ours.encode(objects(b"bytes"))


def test_objects_without_an_object_codec_are_refused() -> None:
    with pytest.raises(UnknownCodec, match="object codec"):
        pipeline("|O", (1,), {"id": "zlib"}, vlen=VlenKind.TEXT)
    with pytest.raises(UnknownCodec, match="object codec"):
        pipeline("|O", (1,), vlen=VlenKind.TEXT)


@pytest.mark.parametrize("vlen", [None, VlenKind.TEXT])
def test_an_object_codec_elsewhere_is_refused(vlen: VlenKind | None) -> None:
    codecs = [UTF8, UTF8] if vlen else [UTF8]
    with pytest.raises(UnknownCodec, match="vlen-utf8"):
        pipeline("|O" if vlen else "<i4", (1,), *codecs, vlen=vlen)
