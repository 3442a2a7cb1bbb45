"""What differs between two hierarchies, and whether they mean the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from nczfs.errors import BadMetadata, UsageError
from nczfs.zom import (
    ArrayV2,
    ArrayV3,
    Change,
    Difference,
    GroupV2,
    GroupV3,
    NamedConfig,
    Node,
    applied,
    diff,
    like,
    to_v3,
)
from tests.support.zom import nodes

A = ArrayV2((4,), (2,), "<i4", attributes={"units": "m"}, others={"_more": 1})
FLOATS = ArrayV3(
    (4,),
    "float32",
    NamedConfig("regular", {"chunk_shape": [2]}),
    NamedConfig("default", {"separator": "/"}),
    "NaN",
    (NamedConfig("bytes", {"endian": "little"}),),
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes(), nodes())
def test_the_difference_applied_to_one_gives_the_other(a: Node, b: Node) -> None:
    found = diff(a, b)
    assert applied(a, found) == b
    assert bool(found) is (a != b)
    assert like(a, a)
    assert not diff(a, a)


def test_groups_are_compared_member_by_member() -> None:
    a = GroupV2({"x": A, "g": GroupV2({"y": A})}, {"t": 1, "l": [1, [2, 3]]})
    b = GroupV2(
        {"x": replace(A, attributes={"units": "km", "a/b": 1}), "g": A, "z": A},
        {"t": True, "l": [1, [2, 4]]},
    )
    found = diff(a, b)
    assert found.pointers() == {
        "changed": [
            "/attributes/t",
            "/attributes/l/1/1",
            "/members/g",
            "/members/x/attributes/units",
        ],
        "removed": [],
        "added": ["/members/x/attributes/a~1b", "/members/z"],
    }
    assert found.changed[1] == Change("/attributes/l/1/1", 3, 4)
    assert applied(a, found) == b
    assert {step["op"] for step in found.patch()} == {"replace", "add"}
    assert diff(b, a).patch()[-1] == {"op": "remove", "path": "/members/z"}


def test_a_list_of_another_length_is_one_change() -> None:
    wider = replace(A, shape=(4, 5), chunks=(2, 5))
    assert diff(A, wider).pointers()["changed"] == ["/shape", "/chunks"]


def test_members_that_are_unknown_differ_from_none() -> None:
    assert diff(GroupV3(None), GroupV3({})).pointers()["changed"] == ["/members"]
    assert applied(GroupV3(None), diff(GroupV3(None), GroupV3({}))) == GroupV3({})


def test_only_the_named_fields_count() -> None:
    other = replace(A, shape=(6,), others={})
    assert like(A, other, include=["dtype", "attributes"])
    assert not like(A, other, exclude=["_more"])
    assert like(A, other, exclude=["_more", "shape"])
    a, b = GroupV2({"x": A}), GroupV2({})
    assert not like(a, b, include=["attributes"])
    assert like(a, b, exclude=["members"])


@pytest.mark.parametrize("names", [{"include": ["chunk"]}, {"exclude": ["_less"]}])
def test_a_name_of_no_field_is_refused(names: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="no member of a node is called"):
        like(A, A, **names)


def test_fill_values_are_alike_by_value_and_differ_by_spelling() -> None:
    other = replace(FLOATS, fill_value="0x7fc00000")
    assert like(GroupV3({"a": FLOATS}), GroupV3({"a": other}))
    assert diff(FLOATS, other).changed == (Change("/fill_value", "NaN", "0x7fc00000"),)
    assert not like(FLOATS, replace(FLOATS, fill_value="0x7fc00001"))
    assert like(replace(FLOATS, fill_value=0), replace(FLOATS, fill_value=0.0))


@pytest.mark.parametrize(
    "unfit",
    [
        Difference(removed=(Change("/attributes/none"),)),
        Difference(changed=(Change("/members/x/order", "C", "F"),)),
        Difference(changed=(Change("/shape/7", 1, 2),)),
    ],
)
def test_a_difference_that_does_not_fit_is_refused(unfit: Difference) -> None:
    with pytest.raises(BadMetadata) as refused:
        applied(A, unfit)
    assert refused.value.pointer == (*unfit.removed, *unfit.changed)[0].pointer


def test_members_without_a_place_in_v3_are_not_dropped() -> None:
    with pytest.raises(BadMetadata) as refused:
        to_v3(GroupV2({"x": A}))
    assert refused.value.pointer == "/members/x/_more"
    assert to_v3(FLOATS) is FLOATS
    empty = to_v3(GroupV2({"g": GroupV2(None, {"a": 1}), "x": replace(A, others={})}, {"t": 2}))
    assert isinstance(empty, GroupV3)
    assert empty.members is not None
    assert empty.members["g"] == GroupV3(None, {"a": 1})
    assert empty.attributes == {"t": 2}
