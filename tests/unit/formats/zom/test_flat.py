"""The flat form of hierarchies, and consolidated metadata made of them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from nczfs.errors import BadMetadata
from nczfs.formats.zom.documents import documents_of, node_of
from nczfs.formats.zom.flat import flat_json, from_flat, read_flat, to_flat
from nczfs.formats.zom.nodes import ArrayV2, GroupV2, GroupV3, Node, walk, with_members
from tests.support.zom import nodes

ARRAY = ArrayV2((4,), (2,), "<i4")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
def test_a_hierarchy_is_the_same_after_its_flat_form(node: Node) -> None:
    assert from_flat(to_flat(node)) == node
    assert read_flat(flat_json(to_flat(node))) == node
    for path, each in walk(node):
        # What the documents of a node cannot say are its members.
        alone = each if isinstance(each, ArrayV2) else to_flat(each)[""]
        assert node_of(dict(documents_of(each)), path[1:]) == alone


def test_groups_that_are_missing_are_made() -> None:
    assert from_flat({"/a/b": ARRAY}) == GroupV2({"a": GroupV2({"b": ARRAY})})
    assert from_flat({"/a": GroupV3(attributes={"t": 1})}) == GroupV3(
        {"a": GroupV3({}, attributes={"t": 1})}
    )


def test_a_single_array_is_its_own_root() -> None:
    assert to_flat(ARRAY) == {"": ARRAY}
    assert from_flat({"": ARRAY}) == ARRAY


@pytest.mark.parametrize(
    ("flat", "pointer"),
    [
        ({}, ""),
        ({"a": ARRAY}, "/a"),
        ({"/a/": ARRAY}, "/~1a~1"),
        ({"/a": ARRAY, "/a/b": ARRAY}, "/~1a~1b"),
        ({"": ARRAY, "/b": ARRAY}, "/~1b"),
        ({"/a": ARRAY, "/b": GroupV3()}, "/~1b"),
        ({"/../a": ARRAY}, "/~1..~1a"),
    ],
)
def test_paths_that_make_no_tree_are_refused(flat: dict[str, Node], pointer: str) -> None:
    with pytest.raises(BadMetadata) as refused:
        from_flat(flat)
    assert refused.value.pointer == pointer


def test_a_group_of_the_flat_form_has_no_members() -> None:
    with pytest.raises(BadMetadata) as refused:
        read_flat({"/a": {"zarr_format": 2, "members": {}}})
    assert refused.value.pointer == "/~1a/members"


def test_a_member_of_a_document_called_members_gets_a_free_name_and_its_own_again() -> None:
    text = b'{"zarr_format": 2, "members": 1, "_members": 2}'
    node = node_of({".zgroup": text}, "")
    assert node is not None
    assert node.others == {"_members": 2, "__members": 1}
    assert isinstance(node, GroupV2)
    assert node_of(dict(documents_of(with_members(node, {}))), "") == node
    assert b'"members": 1' in dict(documents_of(node))[".zgroup"]
