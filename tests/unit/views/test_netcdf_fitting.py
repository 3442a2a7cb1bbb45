"""What a group shows as a netCDF file, by the rules of the two formats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nczfs.errors import CorruptChunk, StoreError
from nczfs.formats.elementtypes import data_type
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import CodecSpec, Group, Variable
from nczfs.views.netcdf.attributes import OMITTED
from nczfs.views.netcdf.content import Compound, Elements, FileContent, FileVariable, Opaque, Texts
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import CLASSIC, NCSTREAM, NETCDF4, FileFormat
from tests.support.groups import NCZARR, group, said, variable

BOTH = pytest.mark.parametrize("kind", [NETCDF4, CLASSIC])
ALL = pytest.mark.parametrize("kind", [NETCDF4, CLASSIC, NCSTREAM], ids=lambda kind: kind.suffix)


def unread(variable: Variable) -> tuple[str, ...]:
    raise AssertionError(f"{variable.path} is read")


def three(variable: Variable) -> tuple[str, ...]:
    return ("a", "żółw", "")


def content(of: Group, kind: FileFormat = NETCDF4, texts: Any = unread, **more: Any) -> FileContent:
    return file_content(of, kind, texts, **more)


def only(of: Variable, kind: FileFormat = NETCDF4, texts: Any = unread) -> FileVariable:
    (found,) = content(group("", of), kind, texts).root.variables
    return found


def attributes(found: FileVariable) -> dict[str, tuple[NcType, object]]:
    return {a.name: (a.type, a.value) for a in found.attributes}


def sizes(found: FileVariable) -> list[tuple[str, int]]:
    return [(d.name, d.size) for d in found.dimensions]


@pytest.mark.parametrize(
    ("typestr", "nc_type", "cell"),
    [
        ("|i1", NcType.BYTE, "i1"),
        (">i2", NcType.SHORT, "i2"),
        ("<i4", NcType.INT, "i4"),
        (">f8", NcType.DOUBLE, "f8"),
        ("<f4", NcType.FLOAT, "f4"),
        ("|u1", NcType.UBYTE, "u1"),
        ("<u8", NcType.UINT64, "u8"),
        ("char", NcType.CHAR, "S1"),
        ("|S1", NcType.CHAR, "S1"),
        ("<f2", NcType.FLOAT, "f4"),
        ("|b1", NcType.BYTE, "i1"),
    ],
)
@BOTH
def test_a_number_or_a_character_is_an_element_of_its_type(
    typestr: str, nc_type: NcType, cell: str, kind: FileFormat
) -> None:
    found = only(variable("v", typestr, {"x": 3}), kind)
    assert found.type is nc_type
    assert found.values == Elements(variable("v", typestr, {"x": 3}), np.dtype(cell))
    assert sizes(found) == [("x", 3)]


def test_a_bool_says_that_it_is_one() -> None:
    assert attributes(only(variable("v", "|b1"))) == {"dtype": (NcType.CHAR, "bool")}


def test_a_complex_number_is_a_compound_and_left_out_of_a_classic_file() -> None:
    whole = group("", variable("a", "<c8"), variable("b", ">c16"), variable("c", "<c8"))
    a, b, c = content(whole).root.variables
    assert a.type == Compound("complex64", np.dtype([("r", "f4"), ("i", "f4")]))
    assert b.type == Compound("complex128", np.dtype([("r", "f8"), ("i", "f8")]))
    assert c.type is a.type
    classic = content(whole, CLASSIC)
    assert classic.root.variables == ()
    assert classic.omitted[0] == "/a: is of type <c8"


def test_structures_and_bytes_without_meaning_have_types_of_their_own() -> None:
    fields: list[object] = [["id", ">i4"], ["name", "|S3"], ["v", "<f8", [2]], ["ok", "|b1"]]
    found = only(variable("v", fields))
    wanted = np.dtype([("id", "i4"), ("name", "S1", (3,)), ("v", "f8", (2,)), ("ok", "i1")])
    assert found.type == Compound("compound24", wanted)
    assert only(variable("v", "|V5")).type == Opaque("opaque5", 5)


@pytest.mark.parametrize(
    ("typestr", "wanted"),
    [
        ("<M8[ns]", {"units": "nanoseconds since 1970-01-01", "calendar": "proleptic_gregorian"}),
        (">M8[D]", {"units": "days since 1970-01-01", "calendar": "proleptic_gregorian"}),
        ("<m8[h]", {"units": "hours"}),
        ("<m8[ms]", {"units": "milliseconds", "dtype": "timedelta64[ms]"}),
        ("<M8[25s]", {}),
        ("<m8[Y]", {}),
    ],
)
@BOTH
def test_a_time_is_a_number_with_its_unit(
    typestr: str, wanted: dict[str, str], kind: FileFormat
) -> None:
    found = only(variable("v", typestr, {"x": 2}), kind)
    assert found.type is NcType.INT64
    fill = {"_FillValue": (NcType.INT64, (-(2**63),))}
    assert attributes(found) == fill | {k: (NcType.CHAR, v) for k, v in wanted.items()}


def test_a_time_with_a_unit_of_its_own_keeps_it() -> None:
    found = only(variable("v", "<M8[s]", attributes=(said("units", "K"),)))
    assert set(attributes(found)) == {"_FillValue", "units"}


@pytest.mark.parametrize(
    "text",
    [
        variable("v", "<U4", {"x": 3}),
        variable("v", "|O", {"x": 3}, filters=("vlen-utf8",)),
        variable("v", "|S6", {"x": 3}, format_name=NCZARR),
    ],
    ids=["U", "vlen", "cells"],
)
@pytest.mark.parametrize("kind", [NETCDF4, NCSTREAM], ids=lambda kind: kind.suffix)
def test_few_strings_are_strings(text: Variable, kind: FileFormat) -> None:
    found = only(text, kind, three)
    assert found.type is NcType.STRING
    assert found.values == Texts(text, ("a", "żółw", ""))
    assert sizes(found) == [("x", 3)]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        (variable("v", "<U4", {"x": 65_537}), 16),
        (variable("v", "|S6", {"x": 65_537}, format_name=NCZARR), 6),
        (variable("v", "|S200", {"x": 65_000}, format_name=NCZARR), 200),
        (variable("v", "|S6", {"x": 3}), 6),
    ],
    ids=["U", "cells", "wide", "bytes"],
)
@ALL
def test_many_strings_and_bytes_are_characters(
    text: Variable, width: int, kind: FileFormat
) -> None:
    found = only(text, kind)
    assert found.type is NcType.CHAR
    assert found.values == Elements(text, np.dtype(f"S{width}"))
    assert sizes(found) == [("x", text.array.size), (f"string{width}", width)]
    assert attributes(found)["_Encoding"] == (NcType.CHAR, "utf-8")


def test_a_classic_file_has_few_strings_of_variable_length_as_wide_as_the_longest() -> None:
    text = variable("v", "|O", {"x": 3}, filters=("vlen-utf8",))
    found = only(text, CLASSIC, three)
    assert (found.type, found.values) == (NcType.CHAR, Texts(text, ("a", "żółw", "")))
    assert sizes(found) == [("x", 3), ("string7", 7)]


@ALL
def test_strings_that_cannot_be_read_or_are_too_many_are_left_out(kind: FileFormat) -> None:
    def corrupt(_: Variable) -> tuple[str, ...]:
        raise CorruptChunk("v/0: ends early")

    few = variable("v", "|O", {"x": 3}, filters=("vlen-utf8",))
    assert content(group("", few), kind, corrupt).omitted == ("/v: v/0: ends early",)
    many = variable("v", "|O", {"x": 70_000}, filters=("vlen-utf8",))
    assert content(group("", many), kind).omitted == (
        "/v: has 70000 strings of variable length, more than 65536",
    )


@pytest.mark.parametrize(("kind", "is_held"), [(NETCDF4, False), (CLASSIC, True)])
def test_a_string_with_nul_has_no_place_among_strings_that_end_with_it(
    kind: FileFormat, *, is_held: bool
) -> None:
    text = variable("v", "|O", {"x": 2}, filters=("vlen-utf8",))
    found = content(group("", text), kind, lambda _: ("a\0b", "c"))
    assert len(found.root.variables) == is_held
    assert found.omitted == (() if is_held else ("/v: has strings that contain NUL",))


@ALL
def test_an_attribute_that_is_left_out_is_named_with_the_group_that_has_it(
    kind: FileFormat,
) -> None:
    large = said("large", "x" * (1 << 20))
    whole = group("g", group("g/below", attributes=(large,)), attributes=(large,))
    lines = [line.partition(": ")[0] for line in content(whole, kind).omitted]
    assert lines == ["/below", "/"]


def test_a_store_that_does_not_answer_is_an_error_and_leaves_nothing_out() -> None:
    def unanswered(_: Variable) -> tuple[str, ...]:
        raise StoreError("no answer")

    with pytest.raises(StoreError):
        content(group("", variable("v", "<U1", {"x": 1})), texts=unanswered)


def test_one_long_string_does_not_make_a_classic_file_of_a_terabyte() -> None:
    text = variable("v", "|O", {"x": 65_000}, filters=("vlen-utf8",))
    found = content(group("", text), CLASSIC, lambda _: ("x" * (8 << 20), *[""] * 64_999))
    assert found.root.variables == ()
    assert "limited" in found.omitted[0]


@ALL
@pytest.mark.parametrize("codec", ["vlen-array", "vlen-bytes", "json2"])
def test_other_objects_are_left_out_and_named(kind: FileFormat, codec: str) -> None:
    dtype = data_type("|O", (CodecSpec(codec, {"dtype": "<i4"}),), "v")
    plain = variable("v", "<f4")
    found = content(group("", replace(plain, array=replace(plain.array, dtype=dtype))), kind)
    assert found.root.variables == ()


def test_groups_are_nested_and_left_out_of_a_classic_file() -> None:
    whole = group(
        "",
        variable("v"),
        group("a", variable("a/v"), group("a/b", variable("a/b/v"), attributes=(said("t", "x"),))),
    )
    root = content(whole).root
    assert [g.path for g in content(whole).groups()] == ["", "a", "a/b"]
    assert root.groups[0].groups[0].attributes == (said("t", "x"),)
    assert root.groups[0].groups[0].variables[0].name == "v"
    classic = content(whole, CLASSIC)
    assert classic.omitted == ("/a: is a group",)
    assert [v.name for v in classic.root.variables] == ["v"]


@BOTH
def test_a_broken_member_is_left_out_with_its_reason(kind: FileFormat) -> None:
    found = content(group("g", variable("g/v"), broken=(("w", "g/w/.zarray: is not JSON"),)), kind)
    (left_out,) = (a for a in found.root.attributes if a.name == OMITTED)
    assert left_out == said(OMITTED, "/w: cannot be read: g/w/.zarray: is not JSON")
    assert found.omitted == ()


def test_a_group_declares_the_dimensions_of_groups_above_it() -> None:
    root = content(group("g", variable("g/v", "<f4", {"/t": 2, "x": 3}))).root
    assert [(d.name, d.size, d.group) for d in root.dimensions] == [("t", 2, ""), ("x", 3, "")]
    assert root.variables[0].dimensions == root.dimensions


@BOTH
def test_two_lengths_of_one_dimension_are_two_dimensions(kind: FileFormat) -> None:
    whole = group("", variable("a", "<f4", {"x": 3}), variable("b", "<f4", {"x": 5}))
    a, b = content(whole, kind).root.variables
    assert sizes(a) == [("x", 3)]
    assert sizes(b) == [("_Anonymous_Dim_5", 5)]


def test_a_dimension_of_a_group_that_is_not_above_is_declared_in_the_root() -> None:
    whole = group(
        "",
        group("a", variable("a/v", "<f4", {"x": 3})),
        group("b", variable("b/v", "<f4", {"/a/x": 3})),
    )
    found = content(whole)
    assert [(d.group, d.name) for v in found.variables() for d in v.dimensions] == [
        ("a", "x"),
        ("", "x"),
    ]


def test_a_dimension_behind_a_nearer_one_of_its_name_is_still_the_farther_one() -> None:
    inner = group("g", variable("g/near", "<f4", {"x": 2}), variable("g/far", "<f4", {"/x": 9}))
    near, far = content(group("", variable("x", "<f4", {"x": 9}), inner)).root.groups[0].variables
    assert (near.dimensions[0].group, near.dimensions[0].size) == ("g", 2)
    assert (far.dimensions[0].group, far.dimensions[0].size) == ("", 9)
