"""The text of a hierarchy for a mount."""

from __future__ import annotations

from nczfs.library.opening import open_zmap
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zom import ArrayV2, GroupV2, Problem, loads, walk
from nczfs.zom.creation import create_in
from nczfs.zom.shown import shown_hierarchy

X = ArrayV2((4,), (2,), "<i4", attributes={"units": "m"})
TREE = GroupV2({"g": GroupV2({"x": X}), "x": X}, {"t": 1})


def test_a_group_is_shown_up_to_a_number_of_nodes() -> None:
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    with open_zmap(zmap) as dataset:
        assert loads(shown_hierarchy(dataset.engine_dataset, "").text) == TREE
        few = shown_hierarchy(dataset.engine_dataset, "", nodes_max=3)
    assert loads(few.text) == GroupV2({"g": GroupV2(None), "x": X}, {"t": 1})
    assert [problem.path for problem in few.problems] == ["/g"]


def test_ten_thousand_nodes_are_shown_and_one_more_is_not() -> None:
    """SEMANTICS D32."""
    zmap = MemoryZMap()
    create_in(zmap, GroupV2({"g": GroupV2({"x": X})}))
    document = bytes(zmap.read(Key("g/x/.zarray")).data)
    for number in range(9997):
        zmap.write(Key(f"g/{number}/.zarray"), document)
    with open_zmap(zmap) as dataset:
        shown = shown_hierarchy(dataset.engine_dataset, "")
    node = loads(shown.text)
    assert len([*walk(node)]) == 10_000
    assert not shown.problems
    zmap.write(Key("g/more/.zarray"), document)
    with open_zmap(zmap) as dataset:
        more = shown_hierarchy(dataset.engine_dataset, "")
    assert loads(more.text) == GroupV2({"g": GroupV2(None)})
    assert more.problems == (Problem("/g", "the members are left out: over 10000 nodes"),)


def test_a_group_is_shown_up_to_a_number_of_bytes() -> None:
    zmap = MemoryZMap()
    large = ArrayV2((4,), (2,), "<i4", attributes={"a": "x" * 5000})
    create_in(zmap, GroupV2({"g": GroupV2({"y": X, "z": large, "zz": GroupV2({"x": X})}), "x": X}))
    with open_zmap(zmap) as dataset:
        few = shown_hierarchy(dataset.engine_dataset, "", bytes_max=3000)
    assert loads(few.text) == GroupV2({"g": GroupV2(None), "x": X})
    assert [problem.path for problem in few.problems] == ["/g"]
