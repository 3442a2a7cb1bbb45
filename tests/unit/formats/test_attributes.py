from __future__ import annotations

import math
from typing import Any

import pytest

from nczfs.formats.attributes import NAMES_MAX, attribute_text, read_attributes
from nczfs.formats.jsontext import parse_object
from nczfs.formats.problems import Problems
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute


def one(text: str, typestr: str | None = None, **how: Any) -> tuple[Attribute, tuple[str, ...]]:
    """The attribute of a document that spells its value so."""
    values, _ = parse_object(f'{{"a": {text}}}'.encode(), "k")
    problems = Problems()
    types = {} if typestr is None else {"a": typestr}
    (attribute,) = read_attributes(values, types, "v/.zattrs", problems, **how)
    return attribute, problems.as_tuple()


def read(text: str, typestr: str | None = None, **how: Any) -> tuple[NcType, Any]:
    attribute, problems = one(text, typestr, **how)
    assert problems == ()
    return attribute.type, attribute.value


def fill(text: str, variable_type: NcType | None) -> Attribute:
    """The `_FillValue` that is spelled so, without a type, of a variable."""
    values, _ = parse_object(f'{{"_FillValue": {text}}}'.encode(), "k")
    (found,) = read_attributes(values, {}, "v/.zattrs", Problems(), variable_type=variable_type)
    return found


@pytest.mark.parametrize(
    ("text", "nc_type", "value"),
    [
        ("1", NcType.INT, (1,)),
        ("-2147483648", NcType.INT, (-(2**31),)),
        ("4294967295", NcType.UINT, (2**32 - 1,)),
        ("-2147483649", NcType.INT64, (-(2**31) - 1,)),
        ("18446744073709551615", NcType.UINT64, (2**64 - 1,)),
        ("18446744073709551616", NcType.JSON, 2**64),
        ("[1,2]", NcType.INT, (1, 2)),
        ("[1,5000000000]", NcType.INT64, (1, 5000000000)),
        ("[-1,18446744073709551615]", NcType.JSON, [-1, 2**64 - 1]),
        ("1.0", NcType.DOUBLE, (1.0,)),
        ("1e3", NcType.DOUBLE, (1000.0,)),
        # netcdf-c takes the type of the first and then fails to open the dataset.
        ("[1, 2.5]", NcType.DOUBLE, (1.0, 2.5)),
        ("[1, 0.1, 1e+300]", NcType.DOUBLE, (1.0, 0.1, 1e300)),
        ("-Infinity", NcType.DOUBLE, (-math.inf,)),
        ('"NaN"', NcType.CHAR, "NaN"),
        ('""', NcType.CHAR, ""),
        ('["abc","de"]', NcType.STRING, ("abc", "de")),
        ("007", NcType.CHAR, "007"),
        ("true", NcType.JSON, True),
        ("[1,true]", NcType.JSON, [1, True]),
        ("null", NcType.JSON, None),
        ("[]", NcType.JSON, []),
        ('{"b": [1,{"c": null}]}', NcType.JSON, {"b": [1, {"c": None}]}),
        ('["a",1]', NcType.JSON, ["a", 1]),
        ("[0.5," + "9" * 400 + "]", NcType.JSON, [0.5, int("9" * 400)]),
    ],
)
def test_without_a_type_the_value_suggests_one(text: str, nc_type: NcType, value: Any) -> None:
    assert read(text) == (nc_type, value)


@pytest.mark.parametrize(
    ("text", "nc_type", "value"),
    [
        ("7", NcType.FLOAT, (7.0,)),
        ("7.5", NcType.FLOAT, (7.5,)),
        ('"Infinity"', NcType.FLOAT, (math.inf,)),
        ('"-Infinity"', NcType.DOUBLE, (-math.inf,)),
        ("-1", NcType.BYTE, (-1,)),
        ("[-1]", NcType.SHORT, (-1,)),
    ],
)
def test_without_a_type_a_fill_value_is_of_the_type_of_its_variable(
    text: str, nc_type: NcType, value: Any
) -> None:
    assert fill(text, nc_type) == Attribute("_FillValue", nc_type, value)


def test_the_word_for_nan_is_a_fill_value_of_floats() -> None:
    found = fill('"NaN"', NcType.FLOAT)
    assert found.type is NcType.FLOAT
    assert isinstance(found.value, tuple)
    assert math.isnan(float(found.value[0]))


@pytest.mark.parametrize(
    ("text", "variable_type", "nc_type"),
    [
        ("300", NcType.BYTE, NcType.INT),
        ("1.5", NcType.INT, NcType.DOUBLE),
        ('"NaN"', NcType.INT, NcType.CHAR),
        ('"none"', NcType.FLOAT, NcType.CHAR),
        ('"NaN"', NcType.CHAR, NcType.CHAR),
        ("[1,2]", NcType.FLOAT, NcType.INT),
        ("1", None, NcType.INT),
    ],
)
def test_a_fill_value_that_does_not_fit_its_variable_is_what_it_suggests(
    text: str, variable_type: NcType | None, nc_type: NcType
) -> None:
    assert fill(text, variable_type).type is nc_type


@pytest.mark.parametrize(
    ("text", "typestr", "nc_type", "value"),
    [
        ("1", "<i1", NcType.BYTE, (1,)),
        ("1", ">i4", NcType.INT, (1,)),
        ("1", "|u1", NcType.UBYTE, (1,)),
        ("[1,2,3]", "<i2", NcType.SHORT, (1, 2, 3)),
        ("true", "<u1", NcType.UBYTE, (1,)),
        ("18446744073709551615", "<u8", NcType.UINT64, (2**64 - 1,)),
        ("1", "<f8", NcType.DOUBLE, (1.0,)),
        ("3.14159", "<f4", NcType.FLOAT, (3.141590118408203,)),
        ("[1,0.1,1e+300]", "<f8", NcType.DOUBLE, (1.0, 0.1, 1e300)),
        ('"-Infinity"', "<f8", NcType.DOUBLE, (-math.inf,)),
        ("-Infinity", "<f4", NcType.FLOAT, (-math.inf,)),
        ("Nan", "<f4", NcType.FLOAT, "nan"),
        ('"x"', ">S1", NcType.CHAR, "x"),
        ('"x"', "<U1", NcType.CHAR, "x"),
        ('"x"', "|U1", NcType.CHAR, "x"),
        ('"x"', "|S1", NcType.CHAR, "x"),
        ('"solo"', "|S128", NcType.STRING, ("solo",)),
        ('["abc","de"]', "|S128", NcType.STRING, ("abc", "de")),
        ('{"b":[1.50]}', "|J0", NcType.JSON, {"b": [1.5]}),
        ('"x"', "what", NcType.CHAR, "x"),
        ("3", "", NcType.INT, (3,)),
    ],
)
def test_with_a_type_the_value_is_of_that_type(
    text: str, typestr: str, nc_type: NcType, value: Any
) -> None:
    found = read(text, typestr)
    assert (found[0], str(found[1][0]) if value == "nan" else found[1]) == (nc_type, value)


@pytest.mark.parametrize(
    "text",
    ["12", "true", "[1,2]", '{"a": [1,2]}', "007", "+5", "1.", "0x10", "True", "nan", "-inf",
     "1.50", "1e3", "null", "NULL", "[]", "{}", "[1.50,{\"b\": 007}]", "18446744073709551616"],
)  # fmt: skip
def test_text_that_netcdf_c_stored_as_json_comes_back_as_text(text: str) -> None:
    assert read(text, ">S1") == (NcType.CHAR, text)
    # The same when another attribute makes the document no JSON.
    assert read(f'{text}, "_nczarr_x": bare', ">S1") == (NcType.CHAR, text)


@pytest.mark.parametrize(
    ("text", "typestr"),
    [("300", "<i1"), ("-1", "<u1"), ("1e300", "<f4"), ('"x"', "<i4"), ("1.5", "<i4"),
     ("[1,[2]]", "<i4"), ("null", "<f8"), ("{}", "<f8")],
)  # fmt: skip
def test_a_value_that_is_not_of_its_type_is_a_problem_and_read_without(
    text: str, typestr: str
) -> None:
    attribute, problems = one(text, typestr)
    assert attribute == one(text)[0]
    (problem,) = problems
    assert problem.startswith("v/.zattrs: attribute 'a': ")
    assert problem.endswith(f"is not of its type {typestr!r}")


def test_4_8_0_stores_lists_of_one() -> None:
    assert read('["latitude"]', "|S1", lists_of_one=True) == (NcType.CHAR, "latitude")
    assert read("[17]", "<i4", lists_of_one=True) == (NcType.INT, (17,))
    assert read('["latitude"]', ">S1") == (NcType.CHAR, '["latitude"]')


def test_where_netcdf_c_reads_as_pure_zarr_text_is_a_string() -> None:
    assert read('"x"', ">S1", text_type=NcType.STRING) == (NcType.STRING, ("x",))
    assert read('"x"', text_type=NcType.STRING) == (NcType.CHAR, "x")


def test_more_attributes_than_a_node_can_have_are_left_out() -> None:
    problems = Problems()
    values: dict[str, Any] = {f"a{i}": i for i in range(NAMES_MAX + 5)}
    assert len(read_attributes(values, {}, "k", problems)) == NAMES_MAX
    assert problems.as_tuple() == (f"k: attributes beyond {NAMES_MAX} are ignored",)


def test_the_attributes_of_the_format_are_hidden_and_the_order_is_kept() -> None:
    values = dict.fromkeys(
        ["z", "_ARRAY_DIMENSIONS", "_NCProperties", "_nczarr_attr", "_NCZARR_ATTR",
         "_nczarr_maxstrlen", "_FillValue", "_nc", "a"], "x"
    )  # fmt: skip
    found = read_attributes(dict(values), {}, "k", Problems())
    assert [attribute.name for attribute in found] == [
        "z",
        "_nczarr_maxstrlen",
        "_FillValue",
        "_nc",
        "a",
    ]


def test_an_attribute_without_a_name_is_left_out() -> None:
    problems = Problems()
    assert read_attributes({"": 1, "b": 2}, {}, "k", problems)[0].name == "b"
    assert problems.as_tuple() == ("k: an attribute without a name is ignored",)


@pytest.mark.parametrize(
    ("nc_type", "value", "text"),
    [
        (NcType.CHAR, "K", "K\n"),
        (NcType.CHAR, "", "\n"),
        (NcType.CHAR, "two\nlines\n", "two\nlines\n\n"),
        (NcType.CHAR, "é\0", "é\0\n"),
        (NcType.STRING, ("solo",), "solo\n"),
        (NcType.STRING, ("abc", 'd"é'), '["abc", "d\\"é"]\n'),
        (NcType.STRING, (), "[]\n"),
        (NcType.INT, (1, -2), "1 -2\n"),
        (NcType.UBYTE, (255,), "255\n"),
        (NcType.UINT64, (2**64 - 1,), "18446744073709551615\n"),
        (NcType.DOUBLE, (1.0, 0.1, 1e300), "1. 0.1 1.e+300\n"),
        (NcType.DOUBLE, (math.pi, 1 / 3), "3.141592653589793 0.3333333333333333\n"),
        (NcType.FLOAT, (1.5, 0.10000000149011612), "1.5 0.1\n"),
        (NcType.FLOAT, (16777216.0, 0.3333333432674408), "16777216. 0.33333334\n"),
        (NcType.DOUBLE, (math.nan, math.inf, -math.inf), "NaN Infinity -Infinity\n"),
        (NcType.DOUBLE, (), "\n"),
        (NcType.JSON, {"b": [1, {"c": None}]}, '{"b": [1, {"c": null}]}\n'),
        (NcType.JSON, True, "true\n"),
        (NcType.JSON, None, "null\n"),
    ],
)
def test_the_text_of_an_attribute(nc_type: NcType, value: Any, text: str) -> None:
    assert attribute_text(Attribute("a", nc_type, value)) == text
