from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.zarr3.format import Zarr3Format
from nczfs.formats.zarr3.grids import grid_json
from nczfs.model.dtypes import NcType, VlenKind
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.testing.documents import DictDocuments

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
PLAIN: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 6],
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [BYTES],
    "attributes": {},
}
INDEX_CODECS = [BYTES, {"name": "crc32c"}]


def grid(*lengths: Any) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(lengths)}}


def rectilinear(*chunk_shapes: Any, kind: str = "inline") -> dict[str, Any]:
    configuration = {"kind": kind, "chunk_shapes": list(chunk_shapes)}
    return {"name": "rectilinear", "configuration": configuration}


def sharding(chunk_shape: list[Any], *codecs: Any, **members: Any) -> dict[str, Any]:
    configuration = {"chunk_shape": chunk_shape, "codecs": list(codecs) or [BYTES]}
    configuration |= {"index_codecs": INDEX_CODECS} | members
    return {"name": "sharding_indexed", "configuration": configuration}


def transpose(*order: int) -> dict[str, Any]:
    return {"name": "transpose", "configuration": {"order": list(order)}}


def variable_of(options: FormatOptions = FormatOptions(), **members: Any) -> Variable:  # noqa: B008
    document = {name: value for name, value in (PLAIN | members).items() if value is not ...}
    node = Zarr3Format(options).read_node("v", DictDocuments({"v/zarr.json": document}))
    assert isinstance(node, Variable)
    return node


def array_of(**members: Any) -> ArrayDescription:
    variable = variable_of(**members)
    assert variable.problems == ()
    return variable.array


def test_a_plain_array_is_described() -> None:
    array = array_of()
    assert (array.shape, array.chunk_shape) == ((4, 6), (2, 3))
    assert (array.dtype.typestr, array.dtype.nc_type) == ("<f4", NcType.FLOAT)
    assert (array.codecs.zarr_format, array.codecs.order) == (3, "C")
    assert [(c.name, dict(c.configuration)) for c in array.codecs.codecs] == [
        ("bytes", {"endian": "little"})
    ]
    assert array.chunk_keys.name((1, 0)) == "c/1/0"
    assert array.shards == ()


def test_chunks_of_listed_lengths_are_described() -> None:
    array = array_of(chunk_grid=rectilinear(3, [1, [2, 2], 9]))
    assert array.chunk_shape == (3, 9)
    assert array.grid.counts == (2, 4)
    boxes = [array.grid.box((1, i)) for i in range(4)]
    assert [(box.start, box.stop) for box in boxes] == [
        ((3, 0), (4, 1)),
        ((3, 1), (4, 3)),
        ((3, 3), (4, 5)),
        ((3, 5), (4, 6)),
    ]
    assert array.grid.extent((1, 3)) == (3, 9)
    listed = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [3, [1, [2, 2], 9]]},
    }
    assert grid_json(array) == listed


def test_shards_of_listed_lengths_have_equal_chunks() -> None:
    array = array_of(chunk_grid=rectilinear([2, 4], [6]), codecs=[sharding([2, 3])])
    assert array.grid.counts == (2, 2)
    assert array.units.counts == (2, 1)
    assert [array.unit_of((i, 1)) for i in range(2)] == [(0, 0), (1, 0)]


def test_the_codec_gives_the_byte_order() -> None:
    big = {"name": "bytes", "configuration": {"endian": "big"}}
    assert array_of(codecs=[big]).dtype.typestr == ">f4"
    assert array_of(codecs=[sharding([1, 1], big)]).dtype.typestr == ">f4"
    packed = [sharding([1, 1], big), {"name": "crc32c"}]
    assert array_of(codecs=packed).dtype.typestr == ">f4"
    assert array_of(codecs=[big], data_type="int8").dtype.typestr == "|i1"


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("default", ("c/1/2", "c")),
        ({"name": "default"}, ("c/1/2", "c")),
        ({"name": "default", "configuration": {}}, ("c/1/2", "c")),
        ({"name": "default", "configuration": {"separator": "."}}, ("c.1.2", "c")),
        ("v2", ("1.2", "0")),
        ({"name": "v2", "configuration": {"separator": "/"}}, ("1/2", "0")),
    ],
)
def test_both_key_encodings_are_read(encoding: object, names: tuple[str, str]) -> None:
    keys = array_of(chunk_key_encoding=encoding).chunk_keys
    assert (keys.name((1, 2)), keys.name(())) == names
    assert keys.index(names[0], 2) == (1, 2)
    assert keys.index(names[1], 0) == ()


def test_short_forms_mean_what_long_ones_mean() -> None:
    long = array_of(
        data_type={"name": "uint8", "configuration": {}},
        codecs=[{"name": "bytes", "must_understand": True}, {"name": "crc32c"}],
    )
    short = array_of(data_type="uint8", codecs=["bytes", "crc32c"], attributes=...)
    assert long == short


def test_a_codec_that_may_be_skipped_says_so() -> None:
    codecs = [BYTES, {"name": "what?", "must_understand": False}]
    chain = array_of(codecs=codecs).codecs.codecs
    assert [(codec.name, codec.must_understand) for codec in chain] == [
        ("bytes", True),
        ("what?", False),
    ]


@pytest.mark.parametrize(
    ("data_type", "typestr", "nc_type"),
    [
        ("bool", "|b1", None),
        ("int64", "<i8", NcType.INT64),
        ("float16", "<f2", None),
        ("complex64", "<c8", None),
        ("r24", "|V3", None),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "|V3", None),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}}, "|S5", "string"),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, "<U2", "string"),
        (
            {
                "name": "numpy.datetime64",
                "configuration": {"unit": "\u03bcs", "scale_factor": 10},
            },
            "<M8[10us]",
            None,
        ),
        (
            {"name": "numpy.timedelta64", "configuration": {"unit": "D", "scale_factor": 1}},
            "<m8[D]",
            None,
        ),
    ],
)
def test_types_of_a_fixed_size_are_read(data_type: Any, typestr: str, nc_type: Any) -> None:
    dtype = array_of(data_type=data_type, fill_value=fill_of(typestr)).dtype
    assert (dtype.typestr, dtype.stored) == (typestr, np.dtype(typestr))
    assert dtype.nc_type is (NcType.STRING if nc_type == "string" else nc_type)


def fill_of(typestr: str) -> Any:
    return {"c": [0, 0], "V": [0, 0, 0], "S": "", "U": "", "b": False}.get(typestr[1], 0)


@pytest.mark.parametrize(
    ("data_type", "kind"),
    [
        ("string", VlenKind.TEXT),
        ("bytes", VlenKind.BYTES),
        ("variable_length_bytes", VlenKind.BYTES),
    ],
)
def test_types_of_a_variable_length_are_read(data_type: str, kind: VlenKind) -> None:
    dtype = array_of(data_type=data_type, fill_value="", codecs=["vlen-utf8"]).dtype
    assert (dtype.typestr, dtype.vlen) == ("|O", kind)


@pytest.mark.parametrize("endian", ["little", "big"])
def test_structured_types_have_one_byte_order(endian: str) -> None:
    inner = {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "int16"}]}}
    fields: list[Any] = [{"name": "a", "data_type": "float64"}, {"name": "b", "data_type": inner}]
    codec = {"name": "bytes", "configuration": {"endian": endian}}
    fill = {"a": "NaN", "b": {"x": 3}}
    pairs: list[Any] = [list(field.values()) for field in fields]
    for name, spelled in (("struct", fields), ("structured", pairs)):
        data_type = {"name": name, "configuration": {"fields": spelled}}
        array = array_of(data_type=data_type, codecs=[codec], fill_value=fill)
        order = "<" if endian == "little" else ">"
        wanted = np.dtype([("a", f"{order}f8"), ("b", [("x", f"{order}i2")])])
        assert array.dtype.stored == wanted
        assert array.dtype.typestr == f'[["a","{order}f8"],["b",[["x","{order}i2"]]]]'
        record: Any = array.fill_value
        assert np.isnan(record["a"])
        assert record["b"]["x"] == 3


def test_shards_are_taken_out_of_the_codecs() -> None:
    array = array_of(
        chunk_grid=grid(4, 6),
        codecs=[sharding([2, 3], BYTES, "crc32c", index_location="start")],
    )
    assert array.chunk_shape == (2, 3)
    assert [codec.name for codec in array.codecs.codecs] == ["bytes", "crc32c"]
    (shards,) = array.shards
    assert (shards.shape, shards.index_at_end, shards.order) == ((4, 6), False, ())
    assert [codec.name for codec in shards.index_codecs] == ["bytes", "crc32c"]


def test_shards_within_shards_are_taken_out_one_by_one() -> None:
    inner = sharding([1, 3], BYTES)
    array = array_of(chunk_grid=grid(4, 6), codecs=[sharding([2, 6], inner)])
    assert array.chunk_shape == (1, 3)
    assert [shards.shape for shards in array.shards] == [(4, 6), (2, 6)]


def test_chunks_of_transposed_shards_have_the_order_of_the_array() -> None:
    array = array_of(
        shape=[8, 9, 10],
        chunk_grid=grid(8, 9, 10),
        codecs=[transpose(2, 0, 1), sharding([5, 4, 3], transpose(1, 0, 2), BYTES)],
    )
    assert array.chunk_shape == (4, 3, 5)
    (shards,) = array.shards
    assert (shards.shape, shards.order) == ((8, 9, 10), (2, 0, 1))
    names = [codec.name for codec in array.codecs.codecs]
    assert names == ["transpose", "transpose", "bytes"]


@pytest.mark.parametrize(
    "codecs",
    [
        [sharding([2, 3]), {"name": "gzip", "configuration": {"level": 1}}],
        [{"name": "reshape", "configuration": {"shape": [24]}}, sharding([24])],
        [{"name": "what?"}, sharding([2, 3])],
    ],
)
def test_shards_stay_where_their_chunks_cannot_be_decoded_alone(codecs: list[Any]) -> None:
    array = array_of(chunk_grid=grid(4, 6), codecs=codecs)
    assert (array.chunk_shape, array.shards) == ((4, 6), ())
    assert len(array.codecs.codecs) == 2


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"shape": ...}, "shape is missing"),
        ({"shape": [-1, 6]}, "shape: -1 is not a length"),
        ({"shape": [True, 6]}, "shape: True is not a length"),
        ({"shape": [1.0, 6]}, "shape: 1.0 is not a length"),
        ({"shape": [10**900, 6]}, r"shape: about 2\^2989 is beyond"),
        ({"shape": [1] * 1025}, "shape has 1025 dimensions"),
        ({"data_type": ...}, "data_type is missing"),
        ({"data_type": "what?"}, "data_type 'what\\?' is not supported"),
        ({"data_type": 3}, "data_type: 3 is neither a name nor"),
        ({"data_type": {"name": "int8", "must_understand": False}}, "cannot be false here"),
        ({"data_type": {"name": "int8", "configuration": {"a": 1}}}, "unknown configuration 'a'"),
        ({"data_type": {"name": "int8", "more": 1}}, "'int8': unknown member 'more'"),
        ({"data_type": "r7"}, "'r7': elements are no whole bytes"),
        ({"data_type": "r99999999999"}, "an element of 12499999999|too large|whole bytes"),
        (
            {"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 7}}},
            "7 is no multiple of 4",
        ),
        (
            {"data_type": {"name": "raw_bytes", "configuration": {"length_bytes": 2**40}}},
            "an element of 1099511627776 bytes is too large",
        ),
        (
            {"data_type": {"name": "struct", "configuration": {"fields": []}}},
            r"struct: fields \[\]",
        ),
        ({"chunk_grid": "regular"}, "chunk_shape is None, not a list of lengths"),
        ({"chunk_grid": {"name": "hexagonal"}}, "chunk_grid 'hexagonal' is not supported"),
        ({"chunk_grid": rectilinear(2, 3, kind="file")}, "rectilinear of kind 'file'"),
        ({"chunk_grid": rectilinear(2)}, "chunk_shapes has 1 dimensions and shape has 2"),
        ({"chunk_grid": rectilinear(2, 0)}, "0 is not a length of at least 1"),
        ({"chunk_grid": rectilinear(2, [3, [1, 2, 3]])}, "how often it is repeated"),
        ({"chunk_grid": rectilinear(2, [3, 2])}, "along dimension 1 end at 5, and the array at 6"),
        (
            {"chunk_grid": rectilinear(2, [4, 3]), "codecs": [sharding([1, 4])]},
            "3 along dimension 1 is no multiple of 4",
        ),
        ({"chunk_grid": grid(2)}, "chunk_shape has 1 dimensions and shape has 2"),
        ({"chunk_grid": grid(2, 0)}, "length 0 in a dimension of length 6"),
        ({"chunk_key_encoding": "n5"}, "chunk_key_encoding 'n5' is not supported"),
        (
            {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "-"}}},
            "separator is '-'",
        ),
        ({"codecs": []}, "codecs is empty"),
        ({"codecs": "bytes"}, "codecs: 'bytes' is not a list"),
        ({"codecs": [{}]}, "is neither a name nor an object with a name"),
        ({"codecs": ["bytes"] * 65}, "65 codecs"),
        ({"codecs": [sharding([2, 4])]}, "cannot be divided into chunks of"),
        ({"codecs": [sharding([2])]}, "chunk_shape has 1 dimensions, and its array 2"),
        ({"codecs": [sharding([2, 0])]}, "chunk_shape: 0 is not a length"),
        ({"codecs": [sharding([2, 3], index_location="top")]}, "index_location is 'top'"),
        ({"codecs": [sharding([2, 3], index_codecs=[])]}, "a list of codecs is empty"),
        ({"codecs": [sharding([2, 3], surprise=1)]}, "unknown configuration 'surprise'"),
        ({"codecs": [transpose(0, 0), sharding([2, 3])]}, r"order \[0, 0\] for 2 dimensions"),
        ({"storage_transformers": [{"name": "cache"}]}, "storage_transformers .* not supported"),
        ({"surprise": 1}, "member 'surprise' is unknown"),
        ({"surprise": {"must_understand": True}}, "member 'surprise' is unknown"),
        ({"node_type": "leaf"}, "node_type is 'leaf'"),
        ({"node_type": ...}, "node_type is missing"),
        ({"zarr_format": 2}, "zarr_format is 2, not 3"),
    ],
)
def test_what_is_wrong_or_unknown_is_refused_by_name(members: Any, message: str) -> None:
    with pytest.raises((BadMetadata, Unsupported), match=rf"^v/zarr\.json: .*({message})"):
        variable_of(**members)


def test_members_that_need_not_be_understood_are_ignored() -> None:
    array_of(harmless={"must_understand": False, "x": 1}, storage_transformers=[])
    array_of(storage_transformers=None)


def test_an_index_of_giant_shards_is_refused() -> None:
    with pytest.raises(Unsupported, match="the index of 1099511627776 chunks is larger"):
        variable_of(
            shape=[2**60], chunk_grid=grid(2**40), codecs=[sharding([1])], data_type="uint8"
        )


def test_shards_within_shards_have_a_limit() -> None:
    codec: Any = BYTES
    for _ in range(10):
        codec = sharding([1, 1], codec)
    with pytest.raises(Unsupported, match="shards within shards more than 8 times"):
        variable_of(chunk_grid=grid(1, 1), codecs=[codec])


def test_fields_within_fields_have_a_limit() -> None:
    data_type: Any = "int8"
    for _ in range(40):
        data_type = {"name": "struct", "configuration": {"fields": [["a", data_type]]}}
    with pytest.raises(BadMetadata, match=r"nested more than|fields within fields"):
        variable_of(data_type=data_type)


def test_names_of_dimensions_may_be_missing_one_by_one() -> None:
    variable = variable_of(dimension_names=[None, "x"])
    assert [(d.name, d.size, d.anonymous) for d in variable.dimensions] == [
        ("_Anonymous_Dim_4", 4, True),
        ("x", 6, False),
    ]
    assert variable.problems == ()
    assert all(d.anonymous for d in variable_of(dimension_names=None).dimensions)


@pytest.mark.parametrize(
    ("names", "found", "problem"),
    [
        (["", "x"], ["_Anonymous_Dim_4", "x"], "'' cannot be the name of a dimension"),
        (["a/b", "x"], ["_Anonymous_Dim_4", "x"], "'a/b' cannot be the name of a dimension"),
        (["n", "n"], ["n", "_Anonymous_Dim_6"], "dimension 'n' has two lengths"),
        (["n"], ["_Anonymous_Dim_4", "_Anonymous_Dim_6"], r"dimension_names \['n'\] does not fit"),
    ],
)
def test_names_that_netcdf_cannot_have_are_problems(
    names: list[str], found: list[str], problem: str
) -> None:
    variable = variable_of(dimension_names=names)
    assert [dimension.name for dimension in variable.dimensions] == found
    (message,) = variable.problems
    assert re.search(problem, message)


def test_one_dimension_may_be_there_twice() -> None:
    variable = variable_of(shape=[4, 4], dimension_names=["n", "n"])
    assert [dimension.name for dimension in variable.dimensions] == ["n", "n"]
    assert variable.problems == ()


def test_names_that_a_conversion_has_left_in_the_attributes_count() -> None:
    variable = variable_of(attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    assert [dimension.name for dimension in variable.dimensions] == ["y", "x"]
    assert variable.attributes == ()


def test_dimensions_have_no_names_if_the_user_wants_none() -> None:
    variable = variable_of(FormatOptions(xarray=False), dimension_names=["y", "x"])
    assert all(dimension.anonymous for dimension in variable.dimensions)


def test_a_missing_fill_value_is_a_problem() -> None:
    variable = variable_of(fill_value=...)
    assert variable.array.fill_value is None
    assert variable.problems == ("v/zarr.json: fill_value is missing; taken as undefined",)
