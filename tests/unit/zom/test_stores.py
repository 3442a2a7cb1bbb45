"""Hierarchies out of stores, and into them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings

import nczfs
from nczfs.errors import (
    BadKey,
    BadMetadata,
    NameTaken,
    NoContent,
    NoSuchNode,
    NoSuchObject,
    NotADataset,
    StoreError,
)
from nczfs.formats.zom.nodes import group_of
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import Features, ZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zom import (
    ArrayV2,
    ArrayV3,
    GroupV2,
    GroupV3,
    Node,
    Problem,
    StoredHierarchy,
    create,
    from_store,
    to_v3,
    walk,
)
from nczfs.zom import stored as stored_module
from nczfs.zom.creation import create_in
from nczfs.zom.stored import read_stored
from tests.conftest import ExpectedWarnings
from tests.support.contents import objects_of
from tests.support.servers import S3Server
from tests.support.zom import nodes

X = ArrayV2((4,), (2,), "<i4", 0, attributes={"units": "m"})
TREE = GroupV2({"g": GroupV2({"h": GroupV2({"x": X})}), "x": X, "empty": GroupV2({})}, {"t": 1})


def stored(zmap: ZMap, **options: Any) -> StoredHierarchy:
    with open_zmap(zmap) as dataset:
        return read_stored(dataset.engine_dataset, **options)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
def test_what_was_made_is_what_a_store_holds(node: Node) -> None:
    if isinstance(node, ArrayV2 | ArrayV3):  # alone it is no dataset if its type is unknown
        node = group_of(node.zarr_format, {"a": node})
    zmap = MemoryZMap()
    create_in(zmap, node)
    assert stored(zmap) == StoredHierarchy(node)
    before = objects_of(zmap)
    assert create_in(zmap, node) == 0
    assert objects_of(zmap) == before


@pytest.mark.parametrize("name", ["a.zarr", "a.zip"])
@pytest.mark.parametrize("tree", [TREE, to_v3(TREE)], ids=["v2", "v3"])
def test_zarr_python_finds_what_was_made(tmp_path: Path, name: str, tree: Node) -> None:
    url = str(tmp_path / name)
    create(url, tree)
    assert from_store(url).node == tree
    group: Any = zarr.open_group(url, mode="r") if name == "a.zarr" else None
    if group is not None:
        assert dict(group.attrs) == {"t": 1}
        assert np.array_equal(group["g/h/x"][:], [0, 0, 0, 0])


@pytest.mark.parametrize(
    ("name", "fault"), [("n" * 300, "a name of 300 bytes"), ("\udcff", "not UTF-8")]
)
def test_a_hierarchy_with_a_name_that_the_store_cannot_have_is_refused_whole(
    name: str, fault: str, tmp_path: Path, swift: S3Server
) -> None:
    is_text = fault == "not UTF-8"
    url = swift.url(swift.new_bucket(), "h") if is_text else str(tmp_path / "a.zarr")
    tree = GroupV2({"g": GroupV2({}), "z": GroupV2({name: X})})
    with pytest.raises(BadKey, match=fault):
        create(url, tree)
    with pytest.raises((NoContent, NotADataset)):
        from_store(url)
    assert not (tmp_path / "a.zarr").exists()
    create(url, TREE)
    with pytest.raises(BadKey, match=fault):
        create(url, tree, overwrite=True)
    assert from_store(url).node == TREE


@pytest.mark.parametrize("kind", ["directory", "zip", "swift"])
def test_a_hierarchy_with_a_path_that_no_key_can_have_is_refused_whole(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    tree = GroupV2({})
    for _ in range(6):
        tree = GroupV2({"a": X, "n" * 200: tree})
    if kind == "swift":
        server: S3Server = request.getfixturevalue(kind)
        url = server.url(server.new_bucket(), "h")
    else:
        url = str(tmp_path / f"a.{'zip' if kind == 'zip' else 'zarr'}")
    with pytest.raises(BadKey, match="more than 1024 bytes"):
        create(url, tree)
    with pytest.raises((NoContent, NoSuchObject, NotADataset)):
        from_store(url)
    assert not list(tmp_path.iterdir())


def test_another_hierarchy_is_replaced_only_when_asked(tmp_path: Path) -> None:
    url = str(tmp_path / "a.zarr")
    create(url, TREE)
    with nczfs.open(url, "r+") as root:
        root.variables["x"][...] = 7
    other = GroupV2({"y": X})
    with pytest.raises(NameTaken, match="differs at /attributes/t") as refused:
        create(url, other)
    assert "/members/g, " in str(refused.value)
    assert from_store(url).node == TREE
    assert create(url, TREE) == 0
    with nczfs.open(url) as root:
        assert root.variables["x"][0] == 7
    create(url, other, overwrite=True)
    assert from_store(url).node == other
    assert sorted(p.name for p in tmp_path.joinpath("a.zarr").rglob("*") if p.is_file()) == [
        ".zarray",
        ".zattrs",
        ".zgroup",
    ]


def test_files_of_others_and_wrong_hierarchies_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/notes.txt").write_text("mine")
    with pytest.raises(NotADataset, match="nothing was deleted or written"):
        create(str(tmp_path / "a"), TREE, overwrite=True)
    with pytest.raises(BadMetadata, match=r"^/members/x/order: "):
        create(str(tmp_path / "b"), GroupV2({"x": ArrayV2((1,), (1,), "|u1", 0, "Z")}))
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "notes.txt"]


@pytest.mark.parametrize("tree", [TREE, to_v3(TREE)], ids=["v2", "v3"])
def test_a_failure_at_any_write_leaves_a_valid_part(tree: Node) -> None:
    for call in range(100):
        inner = MemoryZMap()
        zmap = Faulty(inner, Fault(call, operations=frozenset({"write", "flush"})))
        try:
            create_in(zmap, tree)
        except StoreError:
            try:
                part = stored(inner)
            except NotADataset:
                assert all(not key.endswith((".zarray", "zarr.json")) for key in objects_of(inner))
                continue
            assert not part.problems
            wanted = dict(walk(tree))
            for path, node in walk(part.node):
                assert node.attributes == wanted[path].attributes
            create_in(inner, tree, overwrite=True)
            assert stored(inner).node == tree
        else:
            assert call > 5
            return
    raise AssertionError("it never succeeded")


def test_a_depth_ends_in_groups_with_unknown_members() -> None:
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    assert stored(zmap, depth=0).node == GroupV2(None, {"t": 1})
    assert stored(zmap, depth=1).node == GroupV2(
        {"empty": GroupV2(None), "g": GroupV2(None), "x": X}, {"t": 1}
    )
    assert stored(zmap, depth=3).node == stored(zmap, depth=9).node
    assert stored(zmap, path="g/h").node == GroupV2({"x": X})
    assert stored(zmap, path="x").node == X
    with pytest.raises(NoSuchNode):
        stored(zmap, path="none")


def test_too_many_members_are_unknown_and_that_is_a_problem() -> None:
    zmap = MemoryZMap()
    create_in(zmap, TREE)
    found = stored(zmap, nodes_max=4)
    assert found.node == GroupV2({"empty": GroupV2({}), "g": GroupV2(None), "x": X}, {"t": 1})
    assert found.problems == (Problem("/g", "the members are left out: over 4 nodes"),)


def test_a_broken_member_is_named_and_hides_no_sibling() -> None:
    zmap = MemoryZMap()
    create_in(zmap, to_v3(TREE))
    zmap.write(Key("g/h/x/zarr.json"), b"{")
    zmap.write(Key("new/zarr.json"), b'{"zarr_format": 3, "node_type": "array"}')
    found = stored(zmap)
    assert [problem.path for problem in found.problems] == ["/new", "/g/h/x"]
    assert isinstance(found.node, GroupV3)
    assert sorted(found.node.members or {}) == ["empty", "g", "x"]


def test_what_netcdf_c_writes_beyond_json_is_read() -> None:
    zmap = MemoryZMap()
    create_in(zmap, GroupV2({"x": X}))
    zmap.write(Key("x/.zattrs"), b'{"a": NaN, "b": 1.50, "c": +5}')
    node = stored(zmap).node
    assert isinstance(node, GroupV2)
    assert (node.members or {})["x"].attributes == {"a": "NaN", "b": 1.5, "c": "+5"}


@pytest.mark.parametrize("version", [2, 3])
def test_consolidated_metadata_are_enough_if_asked_for(version: int) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=f"zarr{version}", consolidated=True) as root:
        root.create_group("g").create_variable("x", (), dtype="i4")
    whole = stored(zmap)
    assert stored(zmap, is_consolidated=True) == whole
    for key in [key for key in objects_of(zmap) if key.startswith("g/")]:
        zmap.delete(Key(key))
    assert stored(zmap, is_consolidated=True) == whole
    assert stored(zmap).node != whole.node


@pytest.mark.parametrize("version", [2, 3])
def test_consolidated_metadata_that_are_refused_hide_no_document(
    version: int, expected_warnings: ExpectedWarnings
) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=f"zarr{version}") as root:
        root.create_group("g").create_variable("x", (), dtype="i4")
    whole = stored(zmap)
    if version == 2:
        zmap.write(Key(".zmetadata"), b'{"zarr_consolidated_format": 9}')
    else:
        document = json.loads(bytes(zmap.read(Key("zarr.json")).data))
        document["consolidated_metadata"] = {"kind": "elsewhere"}
        zmap.write(Key("zarr.json"), json.dumps(document).encode())
    expected_warnings.add("the single documents are read instead")
    assert stored(zmap, is_consolidated=True) == whole


def test_a_member_called_members_has_its_name_again_in_the_store() -> None:
    zmap = MemoryZMap()
    document = {"zarr_format": 3, "node_type": "group", "members": {"must_understand": False}}
    zmap.write(Key("zarr.json"), json.dumps(document).encode())
    node = stored(zmap).node
    assert node.others == {"_members": {"must_understand": False}}
    other = MemoryZMap()
    create_in(other, node)
    assert json.loads(objects_of(other)["zarr.json"]) == document | {"attributes": {}}


class Far(Faulty):
    """A store where a request is a round trip."""

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)


@pytest.mark.parametrize("nodes_max", [1, 4096])
@pytest.mark.parametrize("tree", [TREE, to_v3(TREE)], ids=["v2", "v3"])
def test_each_document_is_requested_once_and_each_group_listed_once(
    tree: Node, nodes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_module, "FETCHED_MAX", nodes_max)
    inner = MemoryZMap()
    create_in(inner, tree)
    inner.write(Key("x/0"), b"a chunk")
    asked: list[tuple[str, str]] = []
    zmap = Far(inner, before_call=lambda operation, key: asked.append((operation, key)))
    with open_zmap(zmap) as dataset:
        asked.clear()
        assert read_stored(dataset.engine_dataset).node == tree
    below_root = [key for operation, key in asked if operation == "read" and "/" in key]
    groups = [key for operation, key in asked if operation == "search"]
    documents = {key for key in objects_of(inner) if "/" in key} - {"x/0"}
    assert documents <= set(below_root)
    assert len(below_root) == len(set(below_root))
    assert sorted(groups) in (["", "empty", "g", "g/h"], ["empty", "g", "g/h"])
    if tree.zarr_format == 3:
        assert set(below_root) == documents
