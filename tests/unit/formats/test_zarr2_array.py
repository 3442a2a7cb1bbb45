from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.problems import Problems
from nczfs.formats.zarr2.array import Dialect, read_array
from nczfs.model.dtypes import NcType, VlenKind
from nczfs.model.hierarchy import ArrayDescription

PLAIN: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "<f4",
    "fill_value": 0,
    "order": "C",
    "compressor": None,
    "filters": None,
}


def described(
    dialect: Dialect = Dialect(),  # noqa: B008 - frozen
    **members: Any,
) -> tuple[ArrayDescription, tuple[str, ...]]:
    problems = Problems()
    document = {name: value for name, value in (PLAIN | members).items() if value is not ...}
    array = read_array(document, "v/.zarray", FormatOptions(), dialect, problems)
    return array, problems.as_tuple()


def array_of(**members: Any) -> ArrayDescription:
    array, problems = described(**members)
    assert problems == ()
    return array


def test_a_plain_array_is_described() -> None:
    array = array_of(order="F", dimension_separator="/", _nczarr_array={"anything": 1})
    assert (array.shape, array.chunk_shape) == ((4, 6), (2, 3))
    assert array.dtype.stored == np.dtype("<f4")
    assert array.dtype.nc_type is NcType.FLOAT
    assert (array.codecs.order, array.codecs.zarr_format) == ("F", 2)
    assert array.chunk_keys.name((1, 2)) == "1/2"


def test_a_missing_separator_is_a_dot_and_a_wrong_one_a_problem() -> None:
    assert array_of().chunk_keys.separator == "."
    array, problems = described(dimension_separator=None)
    assert array.chunk_keys.separator == "."
    assert problems == ("v/.zarray: dimension_separator None is taken as '.'",)


def test_codecs_stand_in_encoding_order_with_what_is_stored() -> None:
    array = array_of(
        filters=[{"id": "delta", "dtype": "<i4"}],
        compressor={"id": "blosc", "cname": "lz4", "clevel": 5},
    )
    assert [codec.name for codec in array.codecs.codecs] == ["delta", "blosc"]
    assert array.codecs.codecs[1].configuration == {"cname": "lz4", "clevel": 5}
    assert array.codecs.compressed
    assert not array_of(filters=[{"id": "zlib"}]).codecs.compressed


def test_an_unknown_codec_is_described() -> None:
    assert array_of(compressor={"id": "what?"}).codecs.codecs[0].name == "what?"


@pytest.mark.parametrize("filters", [None, [], {}, ...])
def test_no_filters_are_spelled_in_several_ways(filters: object) -> None:
    assert array_of(filters=filters).codecs.codecs == ()


def test_numbers_of_codecs_may_be_texts() -> None:
    (codec,) = array_of(compressor={"id": "zlib", "level": "5"}).codecs.codecs
    assert codec.configuration == {"level": 5}


@pytest.mark.parametrize(
    ("stored", "read"), [(0, 8), ("0", 8), ("4", 8), ("8", 8), (4, 4), (8, 8), (1, 1)]
)
def test_netcdf_c_shuffles_with_the_item_size_whatever_it_writes(stored: object, read: int) -> None:
    array = array_of(dtype="<f8", filters=[{"id": "shuffle", "elementsize": stored}])
    assert array.codecs.codecs[0].configuration == {"elementsize": read}


def test_a_chunk_of_length_0_is_one_of_length_1_where_the_array_is_empty() -> None:
    assert array_of(shape=[0, 6], chunks=[0, 3]).chunk_shape == (1, 3)
    with pytest.raises(BadMetadata, match="chunks: length 0 in a dimension of length 6"):
        described(shape=[0, 6], chunks=[1, 0])


def test_scalars_and_very_many_dimensions_are_fine() -> None:
    assert array_of(shape=[], chunks=[]).size == 1
    assert len(array_of(shape=[1] * 1024, chunks=[1] * 1024).shape) == 1024


def test_a_long_array_with_small_chunks_is_fine() -> None:
    array = array_of(shape=[2**63 - 1], chunks=[2**20])
    assert array.decoded_bytes == 4 * (2**63 - 1)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"shape": [-1, 6]}, "shape: -1 is not a length"),
        ({"shape": [2.5, 6]}, r"shape: 2\.5 is not a length"),
        ({"shape": [True, 6]}, "shape: True is not a length"),
        ({"shape": ["4", 6]}, "shape: '4' is not a length"),
        ({"shape": [2**63, 6]}, "shape: 9223372036854775808 is beyond"),
        ({"shape": [10**900, 6]}, r"shape: about 2\^2989 is beyond"),
        ({"shape": 4}, "shape is 4, not a list"),
        ({"shape": ...}, "shape is missing"),
        ({"chunks": None}, "chunks is missing"),
        ({"shape": [1] * 1025}, "shape has 1025 dimensions"),
        ({"chunks": [2]}, "chunks has 1 dimensions and shape has 2"),
        ({"chunks": [2, 0]}, "length 0 in a dimension of length 6"),
        ({"shape": [2**63 - 1] * 2, "chunks": [1, 1]}, r"about 2\^125 chunks|chunks \(max 2"),
        ({"order": "A"}, "order is 'A'"),
        ({"dtype": ...}, "dtype is missing"),
        ({"dtype": "int32"}, "dtype 'int32'"),
        ({"dtype": "=i4"}, "dtype '=i4'"),
        ({"dtype": 4}, "dtype 4 is not a type"),
        ({"dtype": "|S0"}, "elements have no bytes"),
        ({"dtype": "|O"}, "needs a filter"),
        ({"dtype": []}, "is not a type"),
        ({"dtype": [["a"]]}, "a field is"),
        ({"dtype": [["a", "<i4"], ["a", "<i4"]]}, "'a' is empty or used twice"),
        ({"dtype": [["a", "<i4", [-1]]]}, "is not a shape"),
        ({"dtype": [["a", "<i4", [2**40, 2**40]]]}, "too large"),
        ({"dtype": [["a", "|O"]]}, r"'\|O' is not"),
        ({"compressor": {}}, "compressor: {} is not a codec"),
        ({"compressor": "zlib"}, "compressor: 'zlib' is not a codec"),
        ({"filters": "zlib"}, "filters is 'zlib'"),
        ({"filters": [{"id": 1}]}, "filters: .* is not a codec"),
        ({"filters": [{"id": "delta"}] * 65}, "65 filters"),
    ],
)
def test_the_impossible_is_refused_by_its_member(members: dict[str, Any], message: str) -> None:
    with pytest.raises(BadMetadata, match=rf"^v/\.zarray: .*{message}"):
        described(**members)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"zarr_format": 3}, "zarr_format is 3"),
        ({"dtype": "<f16"}, "long doubles"),
        ({"chunks": [2**20, 2**20]}, "chunks of 1099511627776 elements decode to 4398046511104"),
        ({"shape": [2**62] * 900, "chunks": [2**62] * 900}, r"about 2\^55800 elements"),
    ],
)
def test_what_is_not_read_is_refused_by_name(members: dict[str, Any], message: str) -> None:
    with pytest.raises(Unsupported, match=rf"^v/\.zarray: .*{message}"):
        described(**members)


def test_the_largest_chunk_is_an_option() -> None:
    with pytest.raises(Unsupported, match=r"24 bytes each \(limit 23\)"):
        read_array(PLAIN, "v/.zarray", FormatOptions(chunk_bytes_max=23), Dialect(), Problems())


@pytest.mark.parametrize(
    ("typestr", "stored", "nc_type"),
    [
        ("<i1", "i1", NcType.BYTE),
        ("|u1", "u1", NcType.UBYTE),
        (">i4", ">i4", NcType.INT),
        ("|b1", "?", None),
        ("<f2", "<f2", None),
        (">c16", ">c16", None),
        ("|S7", "S7", NcType.STRING),
        (">U3", ">U3", NcType.STRING),
        ("|V5", "V5", None),
        ("<M8[25ms]", "<M8[25ms]", None),
        ("<m8[ns]", "<m8[ns]", None),
    ],
)
def test_simple_types(typestr: str, stored: str, nc_type: NcType | None) -> None:
    dtype = array_of(dtype=typestr, fill_value=None).dtype
    assert (dtype.typestr, dtype.stored, dtype.nc_type) == (typestr, np.dtype(stored), nc_type)


def test_a_structured_type_is_packed_with_a_byte_order_for_each_field() -> None:
    fields = [["id", "|i1"], ["pos", [["x", "<f4"], ["y", ">f8", [2]]]], ["name", "|S3"]]
    dtype = array_of(dtype=fields, fill_value=None).dtype
    inner = np.dtype([("x", "<f4"), ("y", ">f8", (2,))])
    assert dtype.stored == np.dtype([("id", "i1"), ("pos", inner), ("name", "S3")])
    assert dtype.stored.itemsize == 24
    assert dtype.typestr == '[["id","|i1"],["pos",[["x","<f4"],["y",">f8",[2]]]],["name","|S3"]]'


@pytest.mark.parametrize(
    ("codec", "kind"),
    [
        ({"id": "vlen-utf8"}, VlenKind.TEXT),
        ({"id": "vlen-bytes"}, VlenKind.BYTES),
        ({"id": "json2"}, VlenKind.JSON),
        ({"id": "msgpack2"}, VlenKind.JSON),
        ({"id": "categorize", "labels": ["a"]}, VlenKind.TEXT),
        ({"id": "pickle"}, VlenKind.JSON),
        ({"id": "another"}, VlenKind.JSON),
    ],
)
def test_objects_are_what_the_first_filter_makes_of_them(codec: object, kind: VlenKind) -> None:
    dtype = array_of(dtype="|O", filters=[codec], fill_value=None).dtype
    assert dtype.vlen is kind
    assert dtype.item_size == 0


@pytest.mark.parametrize(("spelled", "base"), [("<i4", "<i4"), ("float32", None), ("f4", "<f4")])
def test_arrays_of_variable_length_have_a_type_of_their_own(spelled: str, base: str | None) -> None:
    filters = [{"id": "vlen-array", "dtype": spelled}]
    if base is None:
        with pytest.raises(BadMetadata, match="type string"):
            described(dtype="|O", filters=filters)
    else:
        assert array_of(dtype="|O", filters=filters).dtype.base == np.dtype(base)


def test_netcdf_text_has_one_byte_an_element() -> None:
    dialect = Dialect(char_types=frozenset({"<U1"}), literal_text=True)
    array, _ = described(dialect, dtype="<U1", fill_value="")
    assert array.dtype.stored == np.dtype("S1")
    assert array.dtype.nc_type is NcType.CHAR
    assert array.dtype.typestr == "<U1"
    assert array.fill_value == b""


def test_a_missing_version_is_a_problem_and_no_more() -> None:
    _, problems = described(zarr_format=...)
    assert problems == ("v/.zarray: zarr_format is missing; read as 2",)
