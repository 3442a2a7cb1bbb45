"""Changes of a node: what each makes of it, also twice, and of what others made of it meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nczfs.engine.metadata.changes import (
    AddDimension,
    AddMember,
    DeleteAttribute,
    NodeChange,
    Resize,
    ResizeDimension,
    SetAttribute,
)
from nczfs.engine.metadata.newnodes import Create
from nczfs.errors import NameTaken, NoSuchNode, StructureChanged
from nczfs.formats.base import Node
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecChain,
    Dimension,
    GroupHeader,
    Variable,
)

T, X = Dimension("t", 3, unlimited=True), Dimension("x", 2)
ARRAY = ArrayDescription((3, 2), (1, 2), DataType("<f4", np.dtype("<f4")), np.nan, CodecChain(2))


def text(name: str, value: str) -> Attribute:
    return Attribute(name, NcType.CHAR, value)


ONE, TWO = text("one", "1"), text("two", "2")
VARIABLE = Variable("g/v", "g/v", "nczarr-L3", ARRAY, (T, X), (ONE, TWO))
GROUP = GroupHeader("g", "nczarr-L3", (T, X), (ONE, TWO), ("v",), ())


def attributes(node: Node) -> list[tuple[str, object]]:
    return [(attribute.name, attribute.value) for attribute in node.attributes]


@pytest.mark.parametrize("node", [VARIABLE, GROUP])
def test_an_attribute_keeps_its_place_and_a_new_one_goes_last(node: Node) -> None:
    changed = SetAttribute(text("three", "3")).apply(SetAttribute(text("one", "I")).apply(node))
    assert attributes(changed) == [("one", "I"), ("two", "2"), ("three", "3")]


@pytest.mark.parametrize("node", [VARIABLE, GROUP])
def test_a_deleted_attribute_is_gone_and_one_that_is_not_there_may_be_deleted(node: Node) -> None:
    assert attributes(DeleteAttribute("one").apply(node)) == [("two", "2")]
    assert DeleteAttribute("none").apply(node) == node


def test_members_are_listed_once_and_in_the_order_of_their_making() -> None:
    changed = AddMember("w", is_group=False).apply(GROUP)
    changed = AddMember("h", is_group=True).apply(AddMember("a", is_group=False).apply(changed))
    assert isinstance(changed, GroupHeader)
    assert (changed.arrays, changed.groups) == (("v", "w", "a"), ("h",))


def test_a_group_that_lists_nothing_goes_on_listing_nothing() -> None:
    unlisted = replace(GROUP, arrays=None, groups=None)
    assert AddMember("w", is_group=False).apply(unlisted) == unlisted


def test_a_dimension_is_declared_behind_the_others() -> None:
    changed = AddDimension(Dimension("y", 5, group="g")).apply(GROUP)
    assert isinstance(changed, GroupHeader)
    assert [dimension.name for dimension in changed.dimensions] == ["t", "x", "y"]


def test_a_dimension_that_somebody_else_made_with_another_length_is_not_ours() -> None:
    assert AddDimension(X).apply(GROUP) == GROUP
    assert AddDimension(replace(T, size=0)).apply(GROUP) == GROUP, "they may both append"
    with pytest.raises(NameTaken, match="/g: dimension 'x', of length 2"):
        AddDimension(replace(X, size=3)).apply(GROUP)
    with pytest.raises(NameTaken):
        AddDimension(replace(T, size=5, unlimited=False)).apply(GROUP)


def lengths(node: Node) -> tuple[int, ...]:
    found = node.dimensions
    if isinstance(node, Variable):
        assert node.array.shape == tuple(dimension.size for dimension in found)
    return tuple(dimension.size for dimension in found)


@pytest.mark.parametrize(
    ("size", "grows", "wanted"), [(5, True, 5), (5, False, 5), (1, True, 3), (1, False, 1)]
)
def test_a_dimension_that_grows_never_takes_from_what_others_appended(
    size: int, grows: bool, wanted: int
) -> None:
    assert lengths(ResizeDimension("t", size, grows).apply(GROUP)) == (wanted, 2)
    assert lengths(Resize(0, size, grows).apply(VARIABLE)) == (wanted, 2)


@pytest.mark.parametrize(
    ("steps", "stored", "wanted"),
    [
        ([(5, True), (4, True)], 3, 5),
        ([(5, True), (9, True)], 3, 9),
        ([(5, True), (9, True)], 20, 20),
        ([(5, True), (4, False)], 3, 4),
        ([(2, False), (5, True)], 10, 5),
        ([(5, False), (2, True)], 10, 5),
        ([(2, False), (1, False)], 10, 1),
    ],
)
def test_of_several_lengths_one_change_is_left_that_does_what_all_did(
    steps: list[tuple[int, bool]], stored: int, wanted: int
) -> None:
    for make in (lambda s, g: Resize(0, s, g), lambda s, g: ResizeDimension("t", s, g)):
        change: NodeChange = make(*steps[0])
        for step in steps[1:]:
            change = make(*step).after(change)
        node: Node = replace(GROUP, dimensions=(replace(T, size=stored), X))
        if isinstance(change, Resize):
            array = replace(ARRAY, shape=(stored, 2))
            node = replace(VARIABLE, array=array, dimensions=(replace(T, size=stored), X))
        assert lengths(change.apply(node)) == (wanted, 2)


CHANGES: list[tuple[NodeChange, Node]] = [
    (SetAttribute(text("one", "I")), VARIABLE),
    (SetAttribute(text("new", "n")), GROUP),
    (DeleteAttribute("one"), VARIABLE),
    (AddMember("w", is_group=False), GROUP),
    (AddMember("h", is_group=True), GROUP),
    (AddDimension(Dimension("y", 5, group="g")), GROUP),
    (ResizeDimension("t", 9, grows=True), GROUP),
    (ResizeDimension("t", 1, grows=False), GROUP),
    (Resize(0, 9, grows=True), VARIABLE),
    (Resize(0, 1, grows=False), VARIABLE),
]


@pytest.mark.parametrize(("change", "node"), CHANGES, ids=lambda x: type(x).__name__)
def test_a_change_applied_twice_is_applied_once(change: NodeChange, node: Node) -> None:
    once = change.apply(node)
    assert once != node
    assert change.apply(once) == once


@pytest.mark.parametrize(("change", "node"), CHANGES, ids=lambda x: type(x).__name__)
def test_a_change_of_a_node_that_is_gone_says_so(change: NodeChange, node: Node) -> None:
    with pytest.raises(NoSuchNode, match="another client has removed"):
        change.apply(None)


@pytest.mark.parametrize(("change", "node"), CHANGES, ids=lambda x: type(x).__name__)
def test_a_change_of_a_node_that_became_something_else_says_so(
    change: NodeChange, node: Node
) -> None:
    other = GROUP if isinstance(node, Variable) else VARIABLE
    if isinstance(change, SetAttribute | DeleteAttribute):
        assert change.apply(other) != other, "groups and variables both have attributes"
    else:
        with pytest.raises(StructureChanged):
            change.apply(other)


OTHERS = (
    GROUP,
    replace(VARIABLE, array=replace(ARRAY, dtype=DataType("<i4", np.dtype("<i4")))),
    replace(VARIABLE, array=replace(ARRAY, chunk_shape=(3, 2))),
)


@pytest.mark.parametrize(
    "change", [SetAttribute(ONE, array=ARRAY), DeleteAttribute("one", array=ARRAY)]
)
def test_an_attribute_changes_only_in_the_variable_that_was_meant(change: NodeChange) -> None:
    longer = replace(VARIABLE, array=replace(ARRAY, shape=(9, 2), fill_value=1.0))
    assert change.apply(longer) == replace(longer, attributes=change.apply(VARIABLE).attributes)
    for other in OTHERS:
        with pytest.raises(StructureChanged, match=r"/g.*: another client has put something else"):
            change.apply(other)


def test_a_node_is_made_once() -> None:
    assert Create(VARIABLE).apply(None) is VARIABLE
    # A fill value of NaN equals nothing, not even itself.
    again = replace(VARIABLE, array=replace(ARRAY, fill_value=float("nan")))
    assert Create(VARIABLE).apply(again) is VARIABLE
    with pytest.raises(NameTaken, match="/g/v: another client has created it meanwhile"):
        Create(VARIABLE).apply(replace(VARIABLE, attributes=()))
