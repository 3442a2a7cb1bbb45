from __future__ import annotations

from typing import Any

import pytest

from nczfs.formats.dimensions import (
    VariablePlace,
    anonymous_for,
    by_name,
    by_reference,
    declared_dimensions,
)
from nczfs.formats.names import names_of
from nczfs.formats.problems import PROBLEMS_MAX, Problems
from nczfs.model.hierarchy import Dimension

GROUPS = {
    "": {"lat": Dimension("lat", 3), "time": Dimension("time", 4, unlimited=True)},
    "g1": {"lat": Dimension("lat", 8, group="g1")},
    "g1/sub": {"z": Dimension("z", 2, group="g1/sub")},
}


def declared(group: str) -> dict[str, Dimension]:
    return GROUPS.get(group, {})


def referred(
    references: Any, shape: tuple[int, ...], *, is_whole: bool = True
) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    problems = Problems()
    place = VariablePlace("g1", shape, "k")
    found = by_reference(references, place, declared, problems, is_whole=is_whole)
    return found, problems.as_tuple()


def named(names: Any, shape: tuple[int, ...]) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    problems = Problems()
    return by_name(names, VariablePlace("g1", shape, "k"), declared, problems), problems.as_tuple()


def test_references_may_point_to_any_group() -> None:
    found, problems = referred(["/time", "/g1/sub/z", "/g1/lat", "/lat"], (4, 2, 8, 3))
    assert found == (
        GROUPS[""]["time"],
        GROUPS["g1/sub"]["z"],
        GROUPS["g1"]["lat"],
        GROUPS[""]["lat"],
    )
    assert problems == ()


def test_another_length_than_the_shape_leaves_the_dimension_without_a_name() -> None:
    found, problems = referred(["/lat"], (5,))
    assert found == (Dimension("_Anonymous_Dim_5", 5, anonymous=True),)
    assert problems == (
        "k: dimension '/lat' has length 3, and the shape has 5; it has no name here",
    )


def test_what_is_nowhere_declared_is_left_without_a_name() -> None:
    found, problems = referred(["/nowhere/x"], (5,))
    assert found == anonymous_for((5,))
    assert problems == ("k: there is no dimension '/nowhere/x'",)


@pytest.mark.parametrize("reference", ["/../x", "", "/", "/a//b", 5, None, ["/x"], "/a\0b"])
def test_a_reference_that_is_no_name_is_never_looked_up(reference: Any) -> None:
    problems = Problems()

    def fails(group: str) -> dict[str, Dimension]:
        raise AssertionError(group)

    by_reference([reference], VariablePlace("", (5,), "k"), fails, problems, is_whole=True)
    assert len(problems.as_tuple()) == 1


@pytest.mark.parametrize("references", [["/lat"], "lat", {"a": 1}, ["/lat"] * 3])
def test_references_of_another_number_leave_all_without_names(references: Any) -> None:
    found, problems = referred(references, (3, 3))
    assert found == anonymous_for((3, 3))
    assert len(problems) == 1


def test_in_a_group_opened_as_a_root_names_are_kept() -> None:
    found, problems = referred(
        ["/above/lon", "/above/g1/lat", "/lat", "/lat"], (7, 8, 3, 5), is_whole=False
    )
    assert found[0] == Dimension("lon", 7)
    assert found[1] == GROUPS["g1"]["lat"]
    assert found[2] == GROUPS[""]["lat"]
    # A dimension of that name and another length is visible here.
    assert found[3].anonymous
    assert problems == ()


def test_names_belong_to_the_own_group_unless_a_group_above_declares_them() -> None:
    found, problems = named(["lat", "lat", "time", "new"], (8, 3, 4, 9))
    assert found[0] == GROUPS["g1"]["lat"]
    assert found[2:] == (GROUPS[""]["time"], Dimension("new", 9, group="g1"))
    # One name with two lengths in one variable: the second loses it.
    assert found[1].anonymous
    assert len(problems) == 1


@pytest.mark.parametrize("names", [["x"], "x", {"x": 1}, ["x"] * 3, None])
def test_names_of_another_number_leave_all_without_names(names: Any) -> None:
    found, problems = named(names, (3, 3))
    assert found == anonymous_for((3, 3))
    assert len(problems) == 1


@pytest.mark.parametrize("name", ["a/b", "", "..", None, 3, "x" * 1001])
def test_what_can_be_no_name_leaves_its_dimension_without_one(name: Any) -> None:
    found, problems = named([name, "ok"], (3, 2))
    assert [d.name for d in found] == ["_Anonymous_Dim_3", "ok"]
    assert len(problems) == 1


def test_a_group_declares_lengths_and_unlimited_dimensions() -> None:
    problems = Problems()
    value = {"t": {"size": 0, "unlimited": 1}, "x": {"size": 3, "unlimited": 0}, "y": 2}
    assert declared_dimensions(value, "g", "k", problems) == {  # type: ignore[arg-type]
        "t": Dimension("t", 0, unlimited=True, group="g"),
        "x": Dimension("x", 3, group="g"),
        "y": Dimension("y", 2, group="g"),
    }
    assert problems.as_tuple() == ()


@pytest.mark.parametrize("size", [-1, 2**63, 1.5, "3", None, True, {}, {"unlimited": 1}])
def test_what_is_no_length_is_left_out(size: Any) -> None:
    problems = Problems()
    assert list(declared_dimensions({"a": size, "b": 1}, "", "k", problems)) == ["b"]
    assert len(problems.as_tuple()) == 1


def test_lists_of_members_keep_order_and_lose_what_is_no_name() -> None:
    problems = Problems()
    names = names_of(["z", "a", "..", "z", "", "b/c", 5, "é x", "."], "k", problems)
    assert names == ("z", "a", "é x")
    assert len(problems.as_tuple()) == 6


def test_the_number_of_problems_is_bounded() -> None:
    problems = Problems()
    assert names_of([""] * 1000, "k", problems) == ()
    assert len(problems.as_tuple()) == PROBLEMS_MAX + 1
    assert problems.as_tuple()[-1] == f"and {1000 - PROBLEMS_MAX} more problems"


def test_an_unlimited_dimension_that_is_shorter_than_the_shape_counts() -> None:
    found, problems = referred(["/time", "/lat"], (6, 3))
    assert found == (GROUPS[""]["time"], GROUPS[""]["lat"])
    assert problems == (
        "k: dimension '/time' has length 4, and the shape has 6; the rest is ignored",
    )
    assert referred(["/outer/time"], (6,), is_whole=False)[0] == (GROUPS[""]["time"],)


def test_an_array_that_is_shorter_than_its_unlimited_dimension_keeps_its_length() -> None:
    found, problems = referred(["/time"], (3,))
    assert found == (Dimension("time", 3, unlimited=True),)
    assert problems == (
        "k: dimension '/time' has length 4, and the shape has 3; the rest is ignored",
    )
