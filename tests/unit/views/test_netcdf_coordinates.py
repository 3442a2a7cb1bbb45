"""Which variables stand in a file beside one variable."""

from __future__ import annotations

import pytest

from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Group, Variable
from nczfs.views.netcdf.coordinates import with_coordinates
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import CLASSIC
from tests.support.groups import group, said, variable


def beside(name: str, *groups: Group) -> list[str]:
    (wanted,) = (v for v in groups[0].variables if v.name == name)
    return [v.path for v in with_coordinates(wanted, groups).variables]


def flat(path: str, *attributes: Attribute) -> Variable:
    return variable(path, attributes=attributes)


def test_a_variable_stands_with_the_coordinates_of_its_dimensions_in_their_order() -> None:
    whole = group(
        "",
        variable("x", "<f8", {"x": 3}),
        variable("t2m", "<f4", {"t": 2, "x": 3}),
        variable("other", "<f4", {"x": 3}),
        variable("t", "<i4", {"t": 2}),
    )
    assert beside("t2m", whole) == ["x", "t2m", "t"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("coordinates", "a b missing"),
        ("bounds", "a  b"),
        ("climatology", "a b"),
        ("grid_mapping", "a: b"),
        ("formula_terms", "s: a ps: b"),
        ("coordinates", "/a /b"),
    ],
)
def test_it_stands_with_what_its_attributes_name(name: str, value: str) -> None:
    whole = group("", flat("a"), flat("v", said(name, value)), flat("b"), flat("c"))
    assert beside("v", whole) == ["a", "v", "b"]


def test_it_stands_with_what_describes_its_coordinates_too() -> None:
    whole = group(
        "",
        flat("v", said("coordinates", "time")),
        flat("time", said("bounds", "time_bnds")),
        variable("time_bnds", "<f8", {"time": 3, "nv": 2}),
        variable("nv", "<i4", {"nv": 2}),
    )
    assert beside("v", whole) == ["v", "time", "time_bnds", "nv"]


def test_variables_that_name_each_other_are_taken_once() -> None:
    whole = group("", flat("a", said("coordinates", "b")), flat("b", said("coordinates", "a")))
    assert beside("a", whole) == ["a", "b"]


def test_the_nearest_variable_of_a_name_is_taken() -> None:
    above = group("", variable("lon", "<f8", {"lon": 3}), flat("crs"), flat("v"))
    below = group(
        "g",
        variable("g/v", "<f4", {"/lon": 3, "lat": 2}, attributes=(said("grid_mapping", "crs"),)),
        variable("g/lat", "<f8", {"lat": 2}),
        flat("g/crs"),
    )
    assert beside("v", below, above) == ["lon", "g/v", "g/lat", "g/crs"]


def test_its_file_has_only_its_dimensions_and_the_attributes_of_its_group() -> None:
    above = group("", variable("lon", "<f8", {"lon": 3}), attributes=(said("title", "above"),))
    below = group(
        "g",
        variable("g/v", "<f4", {"/lon": 3}),
        variable("g/w", "<f4", {"lon": 9}),
        group("g/h", flat("g/h/v")),
        attributes=(said("title", "below"),),
    )
    found = with_coordinates(below.variables[0], (below, above))
    content = file_content(found, CLASSIC, lambda _: ())
    assert [(d.name, d.size) for d in content.root.dimensions] == [("lon", 3)]
    assert [v.name for v in content.root.variables] == ["lon", "v"]
    assert content.root.attributes == (said("title", "below"),)
    assert content.omitted == ()


def test_an_attribute_that_is_no_text_names_nothing() -> None:
    whole = group("", flat("v", Attribute("coordinates", NcType.INT, (1,))), flat("1"))
    assert beside("v", whole) == ["v"]
