"""What a hierarchy that is declared makes of a group."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nczfs.engine.structure.editor import Editor
from nczfs.errors import AccessDenied, NotWritable
from nczfs.formats.zom.nodes import Group
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory.store import DirectoryZMap
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zom import ArrayV2, GroupV2, GroupV3, Node, from_flat, to_flat, to_v3
from nczfs.zom.creation import create_in
from nczfs.zom.declaring import NAMED_MAX, declare, declared
from nczfs.zom.stored import read_stored
from tests.support.contents import objects_of
from tests.support.gated import WAIT_S, GatedZMap

X = ArrayV2((4,), (2,), "<i4", attributes={"units": "m"})
TREE = GroupV2({"g": GroupV2({"x": X}), "x": X}, {"t": 1, "old": 1})
MORE = GroupV2(
    {
        "g": GroupV2({"x": replace(X, attributes={"a/b": 1}), "new": X}),
        "x": X,
        "h": GroupV2({"y": X, "unknown": GroupV2(None)}),
    },
    {"t": [2], "u": {"v": 1}},
)


def made(zmap: ZMap, node: Node, path: str = "") -> Node:
    """What a store holds after a hierarchy was declared in a group of its dataset."""
    with open_zmap(zmap, "r+") as opened:
        dataset = opened.engine_dataset
        declare(dataset, path, node, Editor(dataset, None))
    return stored(zmap)


def stored(zmap: ZMap) -> Node:
    with open_zmap(zmap) as opened:
        found = read_stored(opened.engine_dataset)
    assert not found.problems
    return found.node


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def of(node: Group, version: int) -> Node:
    return node if version == 2 else to_v3(node)


def known(node: Node) -> Node:
    """A hierarchy in which no members are unknown, as they are in the flat form."""
    return from_flat(to_flat(node))


def test_members_whose_names_the_store_cannot_have_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    create_in(DirectoryZMap(tmp_path), TREE)
    before = objects_of(DirectoryZMap(tmp_path))
    more = replace(TREE, members={**(TREE.members or {}), "new": X, "n" * 300: X})
    with pytest.raises(NotWritable, match="a name of 300 bytes"):
        made(DirectoryZMap(tmp_path), more)
    assert objects_of(DirectoryZMap(tmp_path)) == before


def test_attributes_change_and_members_come(version: int) -> None:
    """SEMANTICS D33."""
    zmap = MemoryZMap()
    create_in(zmap, of(TREE, version))
    assert made(zmap, of(MORE, version)) == known(of(MORE, version))


def test_unknown_members_stay() -> None:
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    assert made(zmap, GroupV2(None, {"t": 2})) == replace(TREE, attributes={"t": 2})
    with pytest.raises(NotWritable, match="'/members/g/members'"):  # too many to be compared
        declared(GroupV2({"g": GroupV2(None)}), GroupV2({"g": GroupV2({})}))


@pytest.mark.parametrize("form", ["nczarr-L2l", "zarr2", "zarr3"])
def test_a_new_dataset_gets_the_version_of_what_is_declared(form: str, version: int) -> None:
    """SEMANTICS D33."""
    zmap = MemoryZMap()
    open_zmap(zmap, "w", format=form).close()
    assert made(zmap, of(MORE, version)) == known(of(MORE, version))
    assert made(zmap, of(MORE, version)) == known(of(MORE, version))


def test_what_else_a_document_holds_stays_as_it_is_spelled(version: int) -> None:
    zmap = MemoryZMap()
    create_in(zmap, of(GroupV2({}, {"a": 1}), version))
    key = parse_key(".zattrs" if version == 2 else "zarr.json")
    zmap.write(key, bytes(zmap.read(key).data).replace(b'"a": 1', b'"a": 1.50, "c": 1e2'))
    made(zmap, of(GroupV2({}, {"a": 1.5, "c": 5}), version))
    assert b'"a": 1.50' in zmap.read(key).data
    assert b'"c": 5' in zmap.read(key).data


def test_consolidated_metadata_are_kept_true(version: int) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=f"zarr{version}", consolidated=True) as root:
        root.attrs["t"] = 1
        root.create_group("g")
    made(zmap, of(GroupV2({"g": GroupV2({}, {"b": 1}), "h": GroupV2({})}, {"t": 1}), version))
    with open_zmap(zmap) as opened:
        found = read_stored(opened.engine_dataset, is_consolidated=True).node
    assert found == of(GroupV2({"g": GroupV2({}, {"b": 1}), "h": GroupV2({})}, {"t": 1}), version)


def test_what_is_declared_after_an_update_of_the_copy_is_in_it() -> None:
    zmap = GatedZMap()
    with open_zmap(zmap, "w", format="zarr2", consolidated=True) as root:
        root.create_group("g")
    wanted = GroupV2({"g": GroupV2({}, {"b": 1})})
    with open_zmap(zmap, "r+") as root, ThreadPoolExecutor() as pool:
        dataset = root.engine_dataset
        with zmap.stopping("write", "g/.zattrs") as gate:
            declaring = pool.submit(declare, dataset, "", wanted, Editor(dataset, None))
            assert gate.reached.wait(WAIT_S)
            dataset.copy.update()  # as another thread does that has stored something else
            gate.open()
            declaring.result(WAIT_S)
    with open_zmap(zmap) as opened:
        assert read_stored(opened.engine_dataset, is_consolidated=True).node == wanted


@pytest.mark.parametrize(
    ("node", "pointers"),
    [
        (GroupV2({"x": X}), ["/members/g"]),
        (GroupV2({"g": GroupV2({}), "x": X}), ["/members/g/members/x"]),
        (GroupV2({"g": X, "x": replace(X, shape=(9,))}), ["/members/g", "/members/x/shape/0"]),
        (replace(TREE, others={"_more": 1}), ["/_more"]),
        (GroupV2({f"y{i}": X for i in range(5)}), ["/members/g", "/members/x"]),
    ],
)
def test_anything_else_is_refused_by_its_place(node: Group, pointers: list[str]) -> None:
    """SEMANTICS D34."""
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    before = objects_of(zmap)
    with pytest.raises(NotWritable) as error:
        made(zmap, node)
    places = ", ".join(map(repr, pointers))
    assert str(error.value).startswith(f"{places}: only attributes can change")
    assert objects_of(zmap) == before


def test_a_refusal_names_some_places_and_counts_the_others() -> None:
    present = GroupV2({f"y{i:02}": X for i in range(NAMED_MAX + 3)})
    with pytest.raises(NotWritable, match="'/members/y09' and 3 more:"):
        declared(present, GroupV2({}))
    with pytest.raises(NotWritable, match=f"'/members/y{NAMED_MAX - 1:02}': only"):
        declared(GroupV2(dict([*(present.members or {}).items()][:NAMED_MAX])), GroupV2({}))


def refusal(zmap: ZMap, node: Node, path: str = "") -> str:
    before = objects_of(zmap)
    with pytest.raises(NotWritable) as error:
        made(zmap, node, path)
    assert objects_of(zmap) == before
    return str(error.value)


def test_what_does_not_fit_the_dataset_is_refused() -> None:
    """SEMANTICS D34."""
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    assert refusal(zmap, GroupV3({})) == "is Zarr v3, and the dataset Zarr v2"
    assert refusal(zmap, GroupV3({}), "g") == "is Zarr v3, and the dataset Zarr v2"
    assert refusal(zmap, X) == "describes an array, and here is a group"
    assert "is an array" in refusal(zmap, GroupV2({}), "x")
    node = replace(TREE, attributes={**TREE.attributes, "_nczarr_group": {}})
    assert "_nczarr_group" in refusal(zmap, node)


def test_lists_of_members_are_left_to_other_ways() -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format="nczarr-L2l") as root:
        root.attrs["t"] = 1
    assert "NCZarr" in refusal(zmap, GroupV2({}, {"t": 2}))


@pytest.mark.parametrize("after", [False, True])
def test_whichever_write_fails_declaring_it_once_more_adds_the_rest(
    version: int, *, after: bool
) -> None:
    for call in itertools.count():
        memory = MemoryZMap()
        create_in(memory, of(TREE, version))
        store = Faulty(memory)
        writes = Fault(call, AccessDenied, after=after, operations=frozenset({"write"}))
        with open_zmap(store, "r+") as opened:
            dataset = opened.engine_dataset
            store.arm(writes)
            with suppress(AccessDenied):
                declare(dataset, "", of(MORE, version), Editor(dataset, None))
            fired = store.fired
            store.arm()
            declare(dataset, "", of(MORE, version), Editor(dataset, None))
        assert stored(memory) == known(of(MORE, version))
        if not fired:
            break
    assert call >= 5
