"""Names, dimensions and attributes of a group that becomes a netCDF file."""

from __future__ import annotations

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.formats.names import NETCDF_NAME_BYTES_MAX, netcdf_fault
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension, Group, Variable
from nczfs.views.netcdf.content import Compound, FileContent, FileVariable
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import CLASSIC, NETCDF4, FileFormat
from nczfs.views.netcdf.names import UniqueNames, file_name
from tests.support.groups import NCZARR, ZARR, group, number, said, variable

BOTH = pytest.mark.parametrize("kind", [NETCDF4, CLASSIC])


def unread(variable: Variable) -> tuple[str, ...]:
    raise AssertionError(f"{variable.path} is read")


def content(
    of: Group, kind: FileFormat = NETCDF4, record_dimensions: tuple[str, ...] = (), title: str = ""
) -> FileContent:
    return file_content(of, kind, unread, record_dimensions, title)


def only(of: Variable, kind: FileFormat = NETCDF4) -> FileVariable:
    (found,) = content(group("", of), kind).root.variables
    return found


def attributes(found: FileVariable) -> dict[str, tuple[NcType, object]]:
    return {a.name: (a.type, a.value) for a in found.attributes}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("t2m", "t2m"),
        ("2m temperature", "2m temperature"),
        ("e\u0301", "é"),
        ("-a", "_%2Da"),
        (" a", "_%20a"),
        ("a ", "a%20"),
        ("a/b", "a%2Fb"),
        ("a\nb", "a%0Ab"),
        ("a\x7f", "a%7F"),
        ("a\udcff", "a%FF"),
        ("", "_"),
        (".", "_%2E"),
        ("_nc4_non_coord_x", "_%5Fnc4_non_coord_x"),
    ],
)
def test_what_netcdf_cannot_have_in_a_name_is_encoded(name: str, wanted: str) -> None:
    assert file_name(name) == wanted


def test_long_names_that_differ_at_the_end_still_differ() -> None:
    one, other = file_name("日" * 100 + "a"), file_name("日" * 100 + "b")
    assert one != other
    assert one.startswith("日" * 80)
    assert len(one.encode()) <= NETCDF_NAME_BYTES_MAX


@given(name=st.text(st.characters(categories=None) | st.sampled_from("-/ \0%"), max_size=400))
def test_any_name_becomes_one_that_netcdf_can_have(name: str) -> None:
    found = file_name(name)
    assert netcdf_fault(found, NETCDF_NAME_BYTES_MAX) is None
    assert unicodedata.is_normalized("NFC", found)
    assert file_name(found) == found


@BOTH
def test_a_variable_and_a_group_of_another_name_say_their_own(kind: FileFormat) -> None:
    whole = group("", variable("-a"), group("-g", variable("-g/v")))
    root = content(whole, kind).root
    assert root.variables[0].name == "_%2Da"
    assert attributes(root.variables[0])["nczfs_name"] == (NcType.CHAR, "-a")
    if kind is NETCDF4:
        assert root.groups[0].path == "_%2Dg"
        assert root.groups[0].attributes == (said("nczfs_name", "-g"),)


@BOTH
def test_a_dimension_and_its_coordinate_have_one_name(kind: FileFormat) -> None:
    found = only(variable("-x", "<f8", {"-x": 3}), kind)
    assert found.name == found.dimensions[0].name == "_%2Dx"


@BOTH
def test_names_that_netcdf_takes_for_the_same_are_told_apart(kind: FileFormat) -> None:
    whole = group("", variable("é"), variable("e\u0301"), variable("é_2"))
    found = content(whole, kind).root.variables
    assert [v.name for v in found] == ["é", "é_2", "é_2_2"]
    assert attributes(found[1]) == {"nczfs_name": (NcType.CHAR, "e\u0301")}


def test_a_group_does_not_have_the_name_of_a_dimension_or_a_type_that_of_either() -> None:
    whole = group(
        "",
        variable("v", "<f4", {"time": 3}),
        variable("complex64", "<c8"),
        group("time", variable("time/v")),
    )
    root = content(whole).root
    assert [g.name for g in root.groups] == ["time_2"]
    assert isinstance(root.variables[1].type, Compound)
    assert root.variables[1].type.name == "complex64_2"


def test_a_dimension_of_characters_has_a_name_of_its_own() -> None:
    whole = group(
        "",
        variable("a", "|S5", {"x": 2}),
        variable("b", "|S5", {"string5": 7}),
        variable("c", "|S7", {"string7": 7}),
    )
    a, b, c = content(whole).root.variables
    assert [(d.name, d.size) for d in a.dimensions] == [("x", 2), ("string5_2", 5)]
    assert [(d.name, d.size) for d in b.dimensions] == [("string5", 7), ("string5_2", 5)]
    assert [(d.name, d.size) for d in c.dimensions] == [("string7", 7), ("string7", 7)]


def test_many_equal_names_take_time_in_proportion() -> None:
    names = UniqueNames()
    start = time.process_time()
    found = {names.given("é" if n % 2 else "e\u0301") for n in range(50_000)}
    assert len(found) == 50_000
    few = time.process_time() - start
    for n in range(50_000):
        found.add(names.given("é" if n % 2 else "e\u0301"))
    assert time.process_time() - start < 20 * few + 5


@pytest.mark.parametrize(
    ("typestr", "fill", "wanted"),
    [
        ("<f4", np.nan, (NcType.FLOAT, "nan")),
        ("<i2", 0, (NcType.SHORT, "0")),
        ("<f2", np.float16(-1.5), (NcType.FLOAT, "-1.5")),
        ("<i4", -2147483647, None),
        ("<f8", None, None),
        ("|b1", False, None),
        ("<c8", 1j, None),
        ("|S3", b"x", None),
    ],
)
def test_a_fill_value_that_only_the_array_has_is_shown(
    typestr: str, fill: object, wanted: tuple[NcType, str] | None
) -> None:
    found = attributes(only(variable("v", typestr, {"x": 2}, fill=fill))).get("_FillValue")
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0], str(found[1][0])) == wanted  # type: ignore[index]


@pytest.mark.parametrize(
    ("typestr", "own", "wanted"),
    [
        ("<i2", number("_FillValue", NcType.SHORT, -9), (NcType.SHORT, (-9,))),
        ("<i2", number("_FillValue", NcType.DOUBLE, -9.0), (NcType.SHORT, (-9,))),
        ("<f4", number("_FillValue", NcType.INT, 7), (NcType.FLOAT, (7.0,))),
        ("<f2", said("_FillValue", "NaN"), (NcType.FLOAT, "nan")),
        ("|b1", number("_FillValue", NcType.INT, 0), (NcType.BYTE, (0,))),
        ("char", said("_FillValue", "-"), (NcType.CHAR, "-")),
        ("<i2", number("_FillValue", NcType.DOUBLE, 1e9), None),
        ("<i2", number("_FillValue", NcType.SHORT, 1, 2), None),
        ("<i2", said("_FillValue", "none"), None),
        ("char", said("_FillValue", "é"), None),
        ("|S3", said("_FillValue", "abc"), None),
        ("<c8", said("_FillValue", "NaN"), None),
    ],
)
def test_a_fill_value_is_one_of_its_variable_s_type_or_is_left_out(
    typestr: str, own: Attribute, wanted: tuple[NcType, object] | None
) -> None:
    whole = content(group("", variable("v", typestr, {"x": 2}, attributes=(own,))))
    found = attributes(whole.root.variables[0]).get("_FillValue")
    if wanted is None:
        assert found is None
        assert whole.omitted == (
            "/v: attribute _FillValue: is not one value of the variable's type",
        )
    elif wanted[1] == "nan":
        assert found is not None
        assert found[0] is wanted[0]
        assert isinstance(found[1], tuple)
        assert np.isnan(found[1]).all()
    else:
        assert found == wanted


def test_an_empty_text_that_fills_characters_is_no_loss() -> None:
    own = Attribute("_FillValue", NcType.STRING, ("",))
    text = variable("v", "|S3", {"x": 2}, attributes=(own,), format_name=NCZARR)
    found = content(group("", text), CLASSIC)
    assert found.omitted == ()
    assert list(attributes(found.root.variables[0])) == ["_Encoding"]


def test_a_fill_value_of_another_type_is_replaced_with_that_of_the_array() -> None:
    own = number("_FillValue", NcType.DOUBLE, 1e9)
    found = only(variable("v", "<i2", {"x": 2}, fill=-5, attributes=(said("a", "b"), own)))
    assert attributes(found) == {"a": (NcType.CHAR, "b"), "_FillValue": (NcType.SHORT, (-5,))}


def test_values_that_only_json_has_are_its_text_and_lists_of_strings_are_strings() -> None:
    given = (said("j", {"a": None}), said("s", ("one", "two")), said("t", "text"))
    whole = group("", variable("v", attributes=given))
    netcdf4, classic = (
        attributes(content(whole, kind).root.variables[0]) for kind in (NETCDF4, CLASSIC)
    )
    assert netcdf4["j"] == classic["j"] == (NcType.CHAR, '{"a": null}')
    assert netcdf4["s"] == (NcType.STRING, ("one", "two"))
    assert classic["s"] == (NcType.CHAR, "one\ntwo")
    assert netcdf4["t"] == classic["t"] == (NcType.CHAR, "text")


@BOTH
@pytest.mark.parametrize(
    ("typestr", "own", "wanted"),
    [
        ("|b1", said("dtype", "mask"), "mask"),
        ("|S3", said("_Encoding", "latin-1"), "latin-1"),
    ],
)
def test_an_attribute_of_the_variable_s_own_stays(
    typestr: str, own: Attribute, wanted: str, kind: FileFormat
) -> None:
    found = only(variable("v", typestr, {"x": 2}, attributes=(own,)), kind)
    assert attributes(found) == {own.name: (NcType.CHAR, wanted)}


def test_the_encoding_of_text_is_that_of_the_file() -> None:
    text = variable("v", "<U2", {"x": 2}, attributes=(said("_Encoding", "latin-1"),))
    assert attributes(only(text, CLASSIC)) == {"_Encoding": (NcType.CHAR, "utf-8")}


def test_attributes_that_netcdf_4_keeps_for_itself_are_left_out() -> None:
    whole = group("", variable("v", attributes=(said("CLASS", "x"), said("units", "K"))))
    found = content(whole)
    assert attributes(found.root.variables[0]) == {"units": (NcType.CHAR, "K")}
    assert found.omitted == ("/v: attribute 'CLASS': netCDF reserves it",)
    assert list(attributes(content(whole, CLASSIC).root.variables[0])) == ["CLASS", "units"]


@BOTH
def test_names_of_attributes_are_encoded_and_told_apart(kind: FileFormat) -> None:
    given = (said("a/b", "1"), said("é", "2"), said("e\u0301", "3"))
    assert list(attributes(only(variable("v", attributes=given), kind))) == ["a%2Fb", "é", "é_2"]


def test_the_attribute_of_what_was_left_out_is_bounded() -> None:
    members = [variable(f"variable_with_a_long_name_{n}", "<c8") for n in range(5000)]
    found = content(group("", *members), CLASSIC)
    assert len(found.omitted) == 5000
    (omitted,) = found.root.attributes
    assert isinstance(omitted.value, str)
    assert len(omitted.value) < 33_000
    kept = omitted.value.count("\n")
    assert omitted.value.endswith(f"and {5000 - kept} more")


def test_an_attribute_of_ours_replaces_one_of_its_name() -> None:
    whole = group("", variable("z", "<c8"), attributes=(said("nczfs_omitted", "old"),))
    assert content(whole, CLASSIC).root.attributes == (said("nczfs_omitted", "/z: is of type <c8"),)
    assert content(whole).root.attributes == (said("nczfs_omitted", "old"),)


def records(content: FileContent) -> list[str]:
    return [d.name for d in content.root.dimensions if d.unlimited]


def test_every_unlimited_dimension_of_a_netcdf_4_file_is_one() -> None:
    whole = group("", variable("v", "<f4", {"x": 3, "t": 0}, unlimited=("x", "t")))
    assert records(content(whole)) == ["x", "t"]


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        (["t x"], ["t"]),
        (["t x", "x t"], []),
        (["t x", "u y", "u x"], ["u"]),
        (["t x", "u t"], ["u"]),
        (["x"], []),
        (["x", "t"], ["t"]),
        (["t t"], []),
    ],
)
def test_the_record_dimension_leads_wherever_it_is_and_most_variables_have_it(
    shapes: list[str], wanted: list[str]
) -> None:
    lengths = {"t": 2, "u": 3, "x": 4, "y": 5}
    members = [
        variable(
            f"v{n}", "<f4", {name: lengths[name] for name in shape.split()}, unlimited=("t", "u")
        )
        for n, shape in enumerate(shapes)
    ]
    if shapes == ["t t"]:
        t = Dimension("t", 2, unlimited=True)
        twice = variable("v", "<f4", {"t": 2, "t2": 2})
        members = [Variable("v", "v", ZARR, twice.array, (t, t))]
    found = content(group("", *members), CLASSIC)
    assert records(found) == wanted
    assert len(found.root.variables) == len(members)


def test_a_second_dimension_of_length_0_takes_its_variables_away() -> None:
    whole = group(
        "",
        variable("a", "<f4", {"none": 0, "x": 2}),
        variable("b", "<f4", {"t": 3}, unlimited=("t",)),
        variable("c", "<f4", {"x": 2}),
    )
    found = content(whole, CLASSIC)
    assert [v.name for v in found.root.variables] == ["b", "c"]
    assert [d.name for d in found.root.dimensions] == ["x", "t"]
    assert "length 0" in found.omitted[0]
    assert [d.size for d in content(whole).root.variables[0].dimensions] == [0, 2]


@BOTH
def test_a_dimension_of_pure_zarr_is_unlimited_where_it_is_asked_for(kind: FileFormat) -> None:
    whole = group("", variable("v", "<f4", {"t": 2, "x": 3}))
    assert records(content(whole, kind, record_dimensions=("t",))) == ["t"]
    stated = group("", variable("v", "<f4", {"t": 2}, format_name=NCZARR), format_name=NCZARR)
    assert records(content(stated, kind, record_dimensions=("t",))) == []


@BOTH
def test_a_dimension_without_variables_is_declared(kind: FileFormat) -> None:
    declared = (Dimension("x", 3), Dimension("t", 0, unlimited=True))
    found = content(group("", dimensions=declared, format_name=NCZARR), kind)
    assert [(d.name, d.size, d.unlimited) for d in found.root.dimensions] == [
        ("x", 3, False),
        ("t", 0, True),
    ]


def test_more_dimensions_than_hdf5_has_are_left_out() -> None:
    deep = variable("v", "|S3", {f"d{n}": 1 for n in range(32)})
    assert content(group("", deep)).omitted == ("/v: has 33 dimensions, more than 32",)
    assert content(group("", deep), CLASSIC).omitted == ()


def test_groups_a_thousand_deep_are_no_matter() -> None:
    inner = group("/".join(["g"] * 1000))
    for depth in range(999, -1, -1):
        inner = group("/".join(["g"] * depth), inner)
    assert sum(1 for _ in content(inner).groups()) == 1001


@BOTH
def test_many_members_take_time_in_proportion(kind: FileFormat) -> None:
    def taken(count: int) -> float:
        members = [variable(f"v{n}", "<f4", {f"x{n}": 3}) for n in range(count)]
        whole = group("", *members)
        start = time.process_time()
        assert len(content(whole, kind).root.variables) == count
        return time.process_time() - start

    small = taken(2000)
    assert taken(20_000) < 30 * small + 5


@BOTH
def test_a_variable_without_a_name_has_the_title(kind: FileFormat) -> None:
    (found,) = content(group("", variable("", "<i4")), kind, title="sst").root.variables
    assert (found.name, found.attributes) == ("sst", ())
