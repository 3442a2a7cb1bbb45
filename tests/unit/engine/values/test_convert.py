"""Values on their way in: converted as netCDF does it, refused when they do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.values.convert import attribute_of, converted, fill_attribute, retyped
from nczfs.errors import BadValue
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DataType, NcType, VlenKind
from nczfs.model.hierarchy import Attribute

INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLOATS = ("f2", "f4", "f8")


def of(code: str, nc_type: NcType | None = None) -> DataType:
    return DataType(np.dtype(code).str, np.dtype(code), None, nc_type)


def vlen(kind: VlenKind) -> DataType:
    return DataType("|O", np.dtype(object), kind)


def test_values_of_the_type_are_not_copied() -> None:
    given = np.arange(3, dtype=np.int32)
    assert converted(given, of("<i4"), "/v") is given


def test_values_of_the_other_byte_order_keep_their_meaning() -> None:
    found = converted(np.array([1, 256], ">i4"), of("<i4"), "/v")
    assert found.tolist() == [1, 256]
    assert converted(np.array([1, 256], "<i4"), of(">i4"), "/v").dtype == np.dtype("=i4")


@given(st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.data())
def test_an_integer_is_kept_or_refused_never_wrapped(
    source: str, target: str, data: st.DataObject
) -> None:
    limits = np.iinfo(source)
    edges = [n for t in INTEGERS for n in (np.iinfo(t).min, np.iinfo(t).max)]
    inside = [n + d for n in edges for d in (-1, 0, 1) if limits.min <= n + d <= limits.max]
    number = data.draw(st.sampled_from(inside) | st.integers(int(limits.min), int(limits.max)))
    fits = np.iinfo(target).min <= number <= np.iinfo(target).max
    check(np.array([0, number], source), of(target), [0, number] if fits else None)


@given(st.sampled_from(FLOATS), st.sampled_from(INTEGERS), st.data())
def test_a_float_loses_its_fraction_or_is_refused(
    source: str, target: str, data: st.DataObject
) -> None:
    edges = [float(n) for t in INTEGERS for n in (np.iinfo(t).min, np.iinfo(t).max)]
    near = [e + d for e in edges for d in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    number = data.draw(st.sampled_from([*near, *map(np.nextafter, near, [0.0] * len(near))]))
    with np.errstate(over="ignore"):
        number = float(np.dtype(source).type(number))
    fits = np.isfinite(number) and np.iinfo(target).min <= int(number) <= np.iinfo(target).max
    check(np.array([0, number], source), of(target), [0, int(number)] if fits else None)


@pytest.mark.parametrize("target", [*INTEGERS])
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_no_integer(source: str, target: str, number: float) -> None:
    check(np.array([number], source), of(target), None)


def check(given: np.ndarray[Any, np.dtype[Any]], dtype: DataType, wanted: list[int] | None) -> None:
    if wanted is None:
        with pytest.raises(BadValue, match=r"^/v: .* is out of range for "):
            converted(given, dtype, "/v")
    else:
        found = converted(given, dtype, "/v")
        assert found.tolist() == wanted
        assert found.dtype == dtype.native


@pytest.mark.parametrize(
    ("given", "code", "wanted"),
    [
        ([1e300], "f4", None),
        ([-1e300], "f4", None),
        ([70000.0], "f2", None),
        ([float("inf"), float("nan")], "f4", [float("inf"), float("nan")]),
        ([0.1], "f4", [float(np.float32(0.1))]),
        ([1e-300], "f4", [0.0]),
        ([1, 2], "f8", [1.0, 2.0]),
        ([True, False], "i2", [1, 0]),
        ([1 + 2j], "c8", [1 + 2j]),
        ([1.5], "c16", [1.5 + 0j]),
        ([1e300 + 0j], "c8", None),
        ([1 + 0j], "f8", None),
        ([1 + 0j], "i4", None),
        ([0, 1], "?", [False, True]),
        ([0.0, 1.0], "?", [False, True]),
        ([2], "?", None),
        ([0.5], "?", None),
        ([None], "i4", None),
        ([None, 1.5], "f8", None),
        (["1"], "i4", None),
        ([1], "S3", None),
        ([1.5], "M8[s]", None),
        ([7], "M8[s]", [np.datetime64(7, "s")]),
        ([{}], "i4", None),
        ([[1], [2, 3]], "i4", None),
    ],
)
def test_numbers_of_other_kinds(given: Any, code: str, wanted: list[Any] | None) -> None:
    values = np.array(given, object) if any(isinstance(x, list) for x in given) else given
    if wanted is None:
        with pytest.raises(BadValue, match=r"^/v: "):
            converted(values, of(code), "/v")
    else:
        np.testing.assert_array_equal(converted(values, of(code), "/v"), np.array(wanted, code))


@pytest.mark.parametrize(
    ("objects", "code", "wanted"),
    [
        ([1, 2.75], "i4", [1, 2]),
        ([np.int64(-1)], "u1", None),
        ([300], "i1", None),
        ([2**64 - 1, 0], "u8", [2**64 - 1, 0]),
        ([2**70], "i8", None),
        ([1e300], "f4", None),
        ([np.float32(0.5), 1], "f8", [0.5, 1.0]),
    ],
)
def test_objects_are_judged_by_what_they_are(
    objects: list[Any], code: str, wanted: list[Any] | None
) -> None:
    values = np.array(objects, object)
    if wanted is None:
        with pytest.raises(BadValue, match=r"^/v: "):
            converted(values, of(code), "/v")
    else:
        assert converted(values, of(code), "/v").tolist() == wanted


def test_large_integers_in_a_list_are_not_rounded() -> None:
    numbers = [2**64 - 1, 0, 2**63 + 1]
    assert converted(numbers, of("u8"), "/v").tolist() == numbers
    with pytest.raises(BadValue, match=r"^/v: "):
        converted([2**64, 0], of("u8"), "/v")
    with pytest.raises(BadValue, match=r"^/v: "):
        converted([-1, 2**63], of("u8"), "/v")
    assert converted([0.5, 3], of("u8"), "/v").tolist() == [0, 3]


def test_scalars_of_python_are_values_too() -> None:
    assert converted(7, of("i2"), "/v").shape == ()
    assert converted("é", of("S4"), "/v").tolist() == "é".encode()
    with pytest.raises(BadValue, match="40000 is out of range for int16"):
        converted(40000, of("i2"), "/v")


@pytest.mark.parametrize(
    ("given", "code", "wanted"),
    [
        (["abc", ""], "S3", [b"abc", b""]),
        (["é"], "S2", ["é".encode()]),
        ([b"ab"], "U2", ["ab"]),
        (["\U0001f600a"], "U2", ["\U0001f600a"]),
        (np.array(["a", b"\xff"], object), "S1", [b"a", b"\xff"]),
        (np.array(["a", "bc"], object), "S2", [b"a", b"bc"]),
        (np.array([], object), "S2", []),
        (["abcd"], "S3", None),
        (["éé"], "S3", None),
        (np.array(["abc"], object), "S2", None),
        (["abc"], "U2", None),
        ([b"\xff"], "U2", None),
        (np.array(["a", 1], object), "S2", None),
    ],
)
def test_text_is_utf8_and_never_cut(given: Any, code: str, wanted: list[Any] | None) -> None:
    if wanted is None:
        with pytest.raises(BadValue, match=r"^/v: "):
            converted(given, of(code), "/v")
    else:
        found = converted(given, of(code), "/v")
        assert found.tolist() == wanted
        assert found.dtype == np.dtype(code)


def test_a_string_that_is_too_long_is_named_with_its_length() -> None:
    with pytest.raises(BadValue, match=r"/v: b'\\xc3\\xa9\\xc3\\xa9' has 4 bytes, an element 3"):
        converted(["a", "éé"], of("S3"), "/v")


def test_a_text_is_a_row_of_characters() -> None:
    assert converted("hey", of("S1"), "/v").tolist() == [b"h", b"e", b"y"]
    assert converted(["ab", "c"], of("S1"), "/v").tolist() == [[b"a", b"b"], [b"c", b""]]
    assert converted(["a", "b"], of("S1"), "/v").tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (VlenKind.TEXT, ["a", "é", ""], ["a", 1]),
        (VlenKind.BYTES, [b"a", b""], [b"a", "b"]),
        (VlenKind.ARRAY, [[1, 2], []], [[1], 2]),
    ],
)
def test_elements_of_variable_length_have_their_kind(
    kind: VlenKind, good: list[Any], bad: list[Any]
) -> None:
    found = converted(good, vlen(kind), "/v")
    assert found.dtype == object
    assert [list(x) if kind is VlenKind.ARRAY else x for x in found] == good
    objects = np.empty(len(bad), object)
    objects[:] = bad
    with pytest.raises(BadValue, match=rf"^/v: .*: expected {kind.value}"):
        converted(objects, vlen(kind), "/v")


@pytest.mark.parametrize(
    "given", [np.array([[b"a"], [b"\xc3\xa9"]]), [[b"a"], ["é"]], np.array([["a"], ["é"]], object)]
)
def test_bytes_are_text_where_text_is_stored(given: Any) -> None:
    before = np.array(given, object)
    assert converted(given, vlen(VlenKind.TEXT), "/v").tolist() == [["a"], ["é"]]
    assert (np.asarray(given, object) == before).all(), "the caller's own"
    assert converted(np.array(b"q"), vlen(VlenKind.TEXT), "/v").item() == "q"
    with pytest.raises(BadValue, match=r"^/v: 'utf-8' codec can't decode byte 0xff"):
        converted(np.array([b"\xff"]), vlen(VlenKind.TEXT), "/v")


@pytest.mark.parametrize(
    ("value", "nc_type", "stored"),
    [
        ("text", NcType.CHAR, "text"),
        (np.str_("text"), NcType.CHAR, "text"),
        (b"text", NcType.CHAR, "text"),
        (["a", "é"], NcType.STRING, ("a", "é")),
        (np.array(["a"]), NcType.STRING, ("a",)),
        (3, NcType.INT64, (3,)),
        (2**63, NcType.UINT64, (2**63,)),
        (1.5, NcType.DOUBLE, (1.5,)),
        (np.float32(0.5), NcType.FLOAT, (0.5,)),
        (np.arange(2, dtype=">i2"), NcType.SHORT, (0, 1)),
        ([1, 2], NcType.INT64, (1, 2)),
        ((1.0, 2), NcType.DOUBLE, (1.0, 2.0)),
        (True, NcType.JSON, True),
        (np.True_, NcType.JSON, True),
        (None, NcType.JSON, None),
        ({"a": [1, 2.5, None]}, NcType.JSON, {"a": [1, 2.5, None]}),
        ([[1, 2], [3, 4]], NcType.JSON, [[1, 2], [3, 4]]),
        (2**70, NcType.JSON, 2**70),
        (np.float16(0.5), NcType.JSON, 0.5),
        (Attribute("other", NcType.UBYTE, (7,)), NcType.UBYTE, (7,)),
    ],
)
def test_the_type_of_an_attribute_follows_from_its_value(
    value: Any, nc_type: NcType, stored: Any
) -> None:
    found = attribute_of("a", value)
    assert found == Attribute("a", nc_type, stored)
    assert type(found.value) is type(stored)


@pytest.mark.parametrize("value", [1j, object(), {1: 2}, b"\xff", {"a": 1j}])
def test_what_neither_netcdf_nor_json_has_is_refused(value: Any) -> None:
    with pytest.raises(BadValue, match="a"):
        attribute_of("a", value)


def test_an_attribute_takes_another_type_only_when_that_holds_its_value() -> None:
    def number(nc_type: NcType, *values: float) -> Attribute:
        return Attribute("a", nc_type, values)

    assert retyped(number(NcType.INT64, 3), NcType.BYTE) == number(NcType.BYTE, 3)
    assert retyped(number(NcType.INT64, 3), NcType.FLOAT) == number(NcType.FLOAT, 3.0)
    assert retyped(number(NcType.DOUBLE, 3.0), NcType.INT) == number(NcType.INT, 3)
    for value, nc_type in ((300, NcType.BYTE), (2.5, NcType.INT), (1e300, NcType.FLOAT)):
        with pytest.raises(BadValue):
            retyped(number(NcType.DOUBLE, value), nc_type)


@pytest.mark.parametrize("nc_type", CODE_OF_NC_TYPE)
def test_the_fill_attribute_has_the_type_of_the_variable(nc_type: NcType) -> None:
    found = fill_attribute(7, of(CODE_OF_NC_TYPE[nc_type], nc_type), "/v")
    assert found == Attribute("_FillValue", nc_type, (7,))


def test_the_fill_attribute_of_text_is_text_and_of_other_types_there_is_none() -> None:
    assert fill_attribute("é", of("S8", NcType.STRING), "/v") == Attribute(
        "_FillValue", NcType.STRING, ("é",)
    )
    assert fill_attribute(b"x", of("S1", NcType.CHAR), "/v") == Attribute(
        "_FillValue", NcType.CHAR, "x"
    )
    assert fill_attribute(b"\xff", of("S8", NcType.STRING), "/v") is None
    assert fill_attribute(1j, of("c8"), "/v") is None
    with pytest.raises(BadValue, match="/v: fill value: 300 is out of range"):
        fill_attribute(300, of("i1", NcType.BYTE), "/v")
    with pytest.raises(BadValue, match="/v: fill value: lists of unequal lengths are not a value"):
        fill_attribute([None, []], of("i2", NcType.SHORT), "/v")
