"""The zom.json of groups: what it shows, and what writing one makes."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import nczfs
from nczfs.errors import BadArgument, NotPermitted, ReadOnlyMount
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from nczfs.zom import ArrayV2, GroupV2, Node, dumps, from_store, loads, to_v3
from nczfs.zom.shown import shown_hierarchy
from tests.support.trees import find, listing, read
from tests.support.writing import close, mkdir, open_file, write

_stores = itertools.count()

D = "datasets/d.zarr"
NEW = "datasets/new.zarr"
X = ArrayV2((4,), (2,), "<i4", 0, attributes={"_ARRAY_DIMENSIONS": ["x"], "units": "m"})
TREE = GroupV2({"g": GroupV2({"x": X}, {"b": 1}), "x": X, "empty": GroupV2({})}, {"t": 1})


@pytest.fixture
def url() -> str:
    return f"memory://hierarchies{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    put_group(store, "d.zarr", {"title": "t"})
    put_array(store, "d.zarr/v", np.arange(4, dtype="i4"), (2,), dimensions=("x",))
    put_group(store, "d.zarr/g", {"b": 1})
    return store


@pytest.fixture
def fs(url: str, store: ZMap) -> Iterator[TreeFileSystem]:
    fs = mount_tree(url, None, VfsOptions(read_only=False))
    yield fs
    fs.close()


def shown(fs: TreeFileSystem, group: str) -> Node:
    return loads(read(fs, f"{group}/zom.json"), strict=True)


def problems(fs: TreeFileSystem, group: str) -> list[str]:
    """Those that zom.json is the reason for."""
    found: list[str] = json.loads(read(fs, f"{group}/info.json"))["problems"]
    return [line for line in found if "zom.json" in line]


def text(node: Node) -> bytes:
    return dumps(node).encode()


def test_a_group_shows_the_hierarchy_below_it(fs: TreeFileSystem, url: str) -> None:
    """SEMANTICS D23."""
    assert shown(fs, D) == from_store(f"{url}/d.zarr").node
    assert shown(fs, f"{D}/g") == GroupV2({}, {"b": 1})
    assert find(fs, f"{D}/zom.json").size == len(read(fs, f"{D}/zom.json"))
    assert "zom.json" not in listing(fs, f"{D}/v")


def test_it_follows_what_is_written(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS D23."""
    shown(fs, D)
    write(fs, f"{D}/v/attributes/units", b"K")
    mkdir(fs, f"{D}/h")
    found = shown(fs, D)
    assert isinstance(found, GroupV2)
    assert found.members is not None
    assert found.members["v"].attributes["units"] == "K"
    assert "h" in found.members
    store.write(parse_key("d.zarr/g/.zattrs"), b'{"b": 2}')
    fs.refresh("")
    assert shown(fs, f"{D}/g") == GroupV2({}, {"b": 2})


def test_it_is_made_once_for_a_listing(fs: TreeFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(*arguments: object) -> object:
        made.append(1)
        return shown_hierarchy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("nczfs.zom.shown.shown_hierarchy", counted)
    # It is believed for a second.
    monkeypatch.setattr("nczfs.vfs.datasets.hierarchies.now", lambda: 0.0)
    listing(fs, D)
    find(fs, f"{D}/v")
    assert not made
    problems(fs, D)
    find(fs, f"{D}/zom.json")
    listing(fs, D)
    find(fs, f"{D}/zom.json")
    assert len(made) == 1


def test_a_mount_without_it_does_not_make_it(url: str, store: ZMap) -> None:
    store.write(parse_key("d.zarr/v/.zarray"), b"{}")
    fs = mount_tree(url, None, VfsOptions(views=frozenset({"info.json"})))
    assert "zom.json" not in listing(fs, D)
    assert not problems(fs, D)
    fs.close()


def test_problems_name_what_is_left_out(
    fs: TreeFileSystem, store: ZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS D32."""
    defaults = shown_hierarchy.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "nodes_max", 3)
    put_group(store, "d.zarr/g/a")
    assert shown(fs, f"{D}/g") == GroupV2({"a": GroupV2({})}, {"b": 1})
    found = shown(fs, D)
    assert isinstance(found, GroupV2)
    assert found.members is not None
    assert found.members["g"] == GroupV2(None, {"b": 1})
    assert problems(fs, D) == ["zom.json: /g: the members are left out: over 3 nodes"]


@pytest.mark.parametrize("node", [TREE, to_v3(TREE)], ids=["v2", "v3"])
def test_one_that_is_written_to_a_new_dataset_declares_it(
    fs: TreeFileSystem, url: str, node: Node
) -> None:
    """SEMANTICS D33."""
    mkdir(fs, NEW)
    assert {"info.json", "zom.json", "attributes"} == listing(fs, NEW).keys()
    write(fs, f"{NEW}/zom.json", text(node))
    assert shown(fs, NEW) == node
    assert {"g", "x", "empty", "new.cdl"} <= listing(fs, NEW).keys()
    assert from_store(f"{url}/new.zarr").node == node
    write(fs, f"{NEW}/g/x/values.raw", np.arange(4, dtype="i4").tobytes(), flags=0)
    with nczfs.open(f"{url}/new.zarr") as dataset:
        assert np.asarray(dataset["g/x"]).tolist() == [0, 1, 2, 3]


def test_attributes_and_new_members_are_written_to_an_old_one(fs: TreeFileSystem, url: str) -> None:
    """SEMANTICS D33."""
    old = shown(fs, D)
    assert isinstance(old, GroupV2)
    node = GroupV2({**(old.members or {}), "new": TREE}, {"title": "u"})
    write(fs, f"{D}/zom.json", text(node))
    assert shown(fs, D) == node
    assert read(fs, f"{D}/attributes/title") == b"u\n"
    assert from_store(f"{url}/d.zarr").node == node
    assert read(fs, f"{D}/v/values.raw") == np.arange(4, dtype="i4").tobytes()


def test_one_that_is_removed_to_be_replaced_is_written(url: str, store: ZMap) -> None:
    """SEMANTICS W14."""
    fs = mount_tree(url, None, VfsOptions(read_only=False, allow_delete=True))
    node = shown(fs, D)
    fs.unlink(find(fs, D).ino, b"zom.json")
    write(fs, f"{D}/zom.json", text(replace(node, attributes={"title": "u"})))
    assert shown(fs, D) == from_store(f"{url}/d.zarr").node
    assert read(fs, f"{D}/attributes/title") == b"u\n"
    fs.close()


def test_what_is_refused_changes_nothing_and_is_a_problem(
    fs: TreeFileSystem, store: ZMap, url: str
) -> None:
    """SEMANTICS D34."""
    before = from_store(f"{url}/d.zarr").node
    handle = open_file(fs, f"{D}/zom.json", os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(NotPermitted, match="'/members/g', '/members/v': only attributes"):
        fs.write(handle, 0, text(GroupV2({})))  # what shells report
    close(fs, handle)
    assert from_store(f"{url}/d.zarr").node == before
    assert shown(fs, D) == before
    (problem,) = problems(fs, D)
    assert "'/members/g', '/members/v': only attributes" in problem
    write(fs, f"{D}/zom.json", text(before))
    assert not problems(fs, D)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"zarr_format": 2, "members": {"x": 1}}', "/members/x: 1 is not an object"),
        (b'{"zarr_format": 2, "members": {}', "not JSON at line 1"),
        (b"[" * 100_000, "levels"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "levels"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_no_hierarchy_is_refused(fs: TreeFileSystem, data: bytes, why: str) -> None:
    """SEMANTICS D34."""
    with pytest.raises(BadArgument, match=why):
        write(fs, f"{D}/zom.json", data)
    assert why in problems(fs, D)[0]


def test_other_files_of_a_copy_keep_it_from_declaring(fs: TreeFileSystem) -> None:
    mkdir(fs, NEW)
    with pytest.raises(NotPermitted):
        write(fs, f"{NEW}/values.raw", b"")
    with pytest.raises(NotPermitted, match="one by one"):
        write(fs, f"{NEW}/zom.json", text(TREE))
    assert shown(fs, NEW) != TREE


def test_it_cannot_be_written_where_nothing_can(url: str, store: ZMap) -> None:
    fs = mount_tree(url, None, VfsOptions(read_only=True))
    with pytest.raises(ReadOnlyMount):
        write(fs, f"{D}/zom.json", b"")
    fs.close()


def test_an_nczarr_dataset_shows_it_and_is_written_in_other_ways(
    fs: TreeFileSystem, store: ZMap
) -> None:
    with open_zmap(Prefixed(store, parse_prefix("n.zarr")), "w") as root:
        root.attrs["a"] = 1
    found = shown(fs, "datasets/n.zarr")
    with pytest.raises(NotPermitted, match="NCZarr"):
        write(fs, "datasets/n.zarr/zom.json", text(TREE))
    assert shown(fs, "datasets/n.zarr") == found
