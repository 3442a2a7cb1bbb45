"""Validation of hierarchies against conventions: patterns, built-in rules, rules of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from nczfs.errors import BadMetadata, UsageError
from nczfs.model.hierarchy import Json
from nczfs.zom import (
    ArrayV2,
    Convention,
    ConventionFault,
    GroupV2,
    Node,
    conventions,
    read_convention,
    to_v3,
    validate,
)

DIMS = "_ARRAY_DIMENSIONS"


def array(*names: str, length: int = 4, **attributes: Any) -> ArrayV2:
    shape = (length,) * len(names)
    return ArrayV2(shape, shape, "<f4", attributes={DIMS: list(names), **attributes})


def pointers(node: Node, convention: Convention | str) -> list[str]:
    return [fault.pointer for fault in validate(node, convention)]


def follows(node: Node, pattern: dict[str, Any]) -> list[str]:
    return pointers(node, read_convention(pattern, "p"))


TIME = array("time", units="days since 2000-01-01")
GOOD = GroupV2({"time": TIME, "t2m": array("time", "x")}, {"title": "t", "n": 1})
PATTERN = {
    "node_type": "group",
    "attributes": {
        "title": {"type": "string"},
        "n": {"enum": [1, 2]},
        "more": {"type": ["array"], "items": {"type": "integer"}, "required": False},
    },
    "members": {
        "time": {
            "node_type": "array",
            "dimension_names": ["time"],
            "shape": [None],
            "dtype": "<f4",
            "attributes": {"units": {"type": "string"}},
        },
        "lat": {"required": False, "node_type": "group"},
        "*": {"node_type": "array", "dimension_names": ["time", None]},
    },
}


def test_a_hierarchy_fits_a_pattern() -> None:
    assert follows(GOOD, PATTERN) == []


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"attributes": {"n": 1}}, "/attributes/title"),
        ({"attributes": {"title": 1, "n": 1}}, "/attributes/title"),
        ({"attributes": {"title": "", "n": True}}, "/attributes/n"),
        ({"attributes": {"title": "", "n": 2, "more": [1, 2.5]}}, "/attributes/more/1"),
        ({"members": {"t2m": array("time", "x")}}, "/members/time"),
        ({"members": {"time": array("time")}}, "/members/time/attributes/units"),
        (
            {"members": {"time": array("x", units="")}},
            f"/members/time/attributes/{DIMS}/0",
        ),
        ({"members": {"time": replace(TIME, dtype="<f8")}}, "/members/time/dtype"),
        ({"members": {"time": TIME, "lat": TIME}}, "/members/lat"),
        ({"members": {"time": TIME, "a": GroupV2({})}}, "/members/a"),
        ({"members": {"time": TIME, "a": array("time")}}, f"/members/a/attributes/{DIMS}"),
    ],
)
def test_each_place_that_does_not_fit_is_named(wrong: dict[str, Any], pointer: str) -> None:
    assert follows(replace(GOOD, **wrong), PATTERN) == [pointer]


@pytest.mark.parametrize(
    ("pattern", "pointer"),
    [
        ({"attributes": {"a": {"typ": "string"}}}, "/attributes/a/typ"),
        ({"attributes": {"a": {"type": "text"}}}, "/attributes/a/type"),
        ({"members": {"a": {"node_type": "both"}}}, "/members/a/node_type"),
        ({"members": {"a": {"atributes": {}}}}, "/members/a/atributes"),
        ({"shape": 3}, "/shape"),
        ({"conventions": "xarray"}, "/conventions"),
        ([], ""),
    ],
)
def test_a_wrong_pattern_is_refused_at_its_place(pattern: Any, pointer: str) -> None:
    with pytest.raises(BadMetadata) as refused:
        read_convention(pattern, "p")
    assert refused.value.pointer == pointer


def test_a_pattern_can_require_other_conventions() -> None:
    bad = replace(GOOD, members={**(GOOD.members or {}), "x": array("x", length=7)})
    assert follows(bad, {"conventions": ["xarray"]}) == ["/members/x/shape/0"]


def test_xarray_wants_names_and_lengths_in_every_group_of_its_own() -> None:
    inner = GroupV2({"a": array("time", length=9), "b": array("time", length=8)})
    tree = GroupV2({**(GOOD.members or {}), "g": inner})
    assert pointers(tree, "xarray") == ["/members/g/members/b/shape/0"]
    assert pointers(to_v3(tree), "xarray") == ["/members/g/members/b/shape/0"]
    scalar = ArrayV2((), (), "<f4")
    assert pointers(scalar, "xarray") == [f"/attributes/{DIMS}"]
    assert pointers(to_v3(scalar), "xarray") == []


def test_cf_wants_what_attributes_refer_to() -> None:
    good = GroupV2(
        {
            "time": array("time", units="days", bounds="time_bnds"),
            "time_bnds": array("time", "nv"),
            "crs": array(),
            "g": GroupV2(
                {
                    "t": array(
                        "time",
                        coordinates="time /crs ../crs",
                        grid_mapping="crs: time",
                        cell_measures="area: elsewhere",
                        flag_values=[1, 2],
                        flag_meanings="low high",
                    )
                }
            ),
        },
        {"Conventions": "CF-1.10 ACDD-1.3"},
    )
    assert pointers(good, "cf") == []
    assert pointers(to_v3(good), "cf") == []


@pytest.mark.parametrize(
    ("attributes", "pointer"),
    [
        ({"units": 1}, "units"),
        ({"coordinates": "nowhere"}, "coordinates"),
        ({"coordinates": 3}, "coordinates"),
        ({"ancillary_variables": "/g/none"}, "ancillary_variables"),
        ({"bounds": "t"}, "bounds"),
        ({"grid_mapping": "none"}, "grid_mapping"),
        ({"flag_values": [1, 2], "flag_meanings": "one"}, "flag_meanings"),
        ({"flag_masks": [1]}, "flag_meanings"),
    ],
)
def test_cf_names_each_attribute_that_is_wrong(attributes: dict[str, Any], pointer: str) -> None:
    tree = GroupV2({"t": array("x", **attributes)}, {"Conventions": "CF-1.8"})
    assert pointers(tree, "cf") == [f"/members/t/attributes/{pointer}"]


def test_cf_names_a_missing_version_and_a_dimension_that_comes_twice() -> None:
    tree = GroupV2({"t": array("x", "x")}, {"Conventions": "COARDS"})
    assert pointers(tree, "cf") == ["/attributes/Conventions", f"/members/t/attributes/{DIMS}"]
    assert pointers(GroupV2({}), "cf") == ["/attributes/Conventions"]


def test_large_patterns_take_time_in_proportion() -> None:
    """Each would take hours if the lists were looked through for each other."""
    many = 100_000
    numbers: list[Json] = list(range(many))
    rule: Json = {"items": {"enum": list(range(many - 1)), "type": ["integer"] * many}}
    pattern: Json = {"attributes": {"a": rule}, "conventions": ["xarray"] * many}
    tree = GroupV2({f"x{i}": array("x", "x") for i in range(10)}, {"a": numbers})
    found = list(validate(tree, read_convention(pattern, "p")))
    assert [each.pointer for each in found] == [f"/attributes/a/{many - 1}"]


@pytest.mark.parametrize(
    ("pattern", "pointer"),
    [
        ({"members": {"*": {"$ref": "#"}}}, "/members/*/$ref"),
        ({"$ref": "#/members/x"}, "/$ref"),
        ({"attributes": {"a": {"items": {"$ref": "#/attributes/a"}}}}, "/attributes/a/items/$ref"),
        ({"attributes": {"a": {"pattern": "(a+)+$"}}}, "/attributes/a/pattern"),
    ],
)
def test_a_pattern_has_neither_references_nor_regular_expressions(
    pattern: Json, pointer: str
) -> None:
    """The first could be cycles, and the second take exponential time."""
    with pytest.raises(BadMetadata) as caught:
        read_convention(pattern, "p")
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("value", "permitted", "fits"),
    [(1, 1.0, True), (True, 1, False), ([True], [1], False), ({"a": [1]}, {"a": [1.0]}, True)],
)
def test_values_are_compared_by_value_and_kind(value: Json, permitted: Json, fits: bool) -> None:
    pattern: Json = {"attributes": {"a": {"const": permitted}}}
    found = list(validate(GroupV2({}, {"a": value}), read_convention(pattern, "p")))
    assert (not found) is fits


def of_another_package(node: Node) -> Iterator[ConventionFault]:
    if not node.attributes:
        yield ConventionFault("/attributes", "is empty")


def test_another_package_brings_a_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"{__name__}:of_another_package"
    points = [
        EntryPoint("toy", here, conventions.ENTRY_POINTS),
        EntryPoint("broken", "nczfs.none:x", conventions.ENTRY_POINTS),
    ]
    monkeypatch.setattr(conventions, "entry_points", lambda group: points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: _load(point))
    assert pointers(GroupV2({}), "toy") == ["/attributes"]
    assert pointers(GOOD, "toy") == []
    with pytest.raises(UsageError, match="'broken' fails"):
        pointers(GOOD, "broken")
    with pytest.raises(UsageError, match="there are xarray, cf, broken, toy"):
        pointers(GOOD, "none")


def _load(point: EntryPoint) -> object:
    if point.name == "broken":
        raise ImportError("no module")
    return of_another_package
