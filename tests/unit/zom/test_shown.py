"""The text of a hierarchy for a mount, and what another text declares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nczfs.errors import BadMetadata
from nczfs.library.opening import open_zmap
from nczfs.zmap.memory import MemoryZMap
from nczfs.zom import ArrayV2, GroupV2, Node, dumps, loads
from nczfs.zom.creation import create_in
from nczfs.zom.shown import declared_change, shown_hierarchy

X = ArrayV2((4,), (2,), "<i4", attributes={"units": "m"})
TREE = GroupV2({"g": GroupV2({"x": X}), "x": X}, {"t": 1})


def refused(node: Node) -> list[str]:
    return [change.pointer for change in declared_change(dumps(node).encode(), TREE).refused]


def test_a_group_is_shown_up_to_a_number_of_nodes() -> None:
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    with open_zmap(zmap) as dataset:
        assert loads(shown_hierarchy(dataset.engine_dataset, "").text) == TREE
        few = shown_hierarchy(dataset.engine_dataset, "", nodes_max=3)
    assert loads(few.text) == GroupV2({"g": GroupV2(None), "x": X}, {"t": 1})
    assert [problem.path for problem in few.problems] == ["/g"]


def test_attributes_may_change_and_members_may_come() -> None:
    members: dict[str, ArrayV2 | GroupV2] = {
        "g": GroupV2({"x": replace(X, attributes={"a/b": 1}), "new": X}),
        "x": X,
        "h": TREE,
    }
    node = GroupV2(members, {"t": 2, "u": {"v": 1}})
    assert refused(node) == []
    assert declared_change(dumps(node).encode(), TREE).difference
    assert declared_change(dumps(node).encode(), None).difference is None


@pytest.mark.parametrize(
    ("node", "pointers"),
    [
        (GroupV2({"x": X}), ["/members/g"]),
        (GroupV2({"g": GroupV2({}), "x": X}), ["/members/g/members/x"]),
        (GroupV2({"g": X, "x": replace(X, shape=(9,))}), ["/members/g", "/members/x/shape/0"]),
        (replace(TREE, others={"_more": 1}), ["/_more"]),
        (GroupV2(None), ["/members"]),
        (X, [""]),
    ],
)
def test_anything_else_is_refused_by_its_place(node: Node, pointers: list[str]) -> None:
    assert refused(node) == pointers


def test_a_text_that_is_no_hierarchy_is_refused_at_its_place() -> None:
    with pytest.raises(BadMetadata) as error:
        declared_change(b'{"zarr_format": 2, "members": {"x": 1}}', TREE)
    assert error.value.pointer == "/members/x"
