"""What an interrupted ``mkdir`` has left of a group, over a store in memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import DirectoryNotEmpty, NameTaken, PathExists
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Faulty
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from nczfs.zom import GroupV2, dumps
from tests.support.contents import objects_of
from tests.support.trees import exists, listing
from tests.support.writing import mkdir, rm_r, rmdir, write

_stores = itertools.count()

NONE: Mapping[str, int] = {}

LISTING = ("nczarr-L1", "nczarr-L2l", "nczarr-L3")
GROUP = "datasets/n.zarr/v"
MORE = b'{"zarr_format": 2, "more": 1}'


def states(
    metadata_format: str, path: str = "v", attributes: Mapping[str, int] = NONE
) -> list[dict[str, bytes]]:
    """All documents of a dataset before and after each write of a new group, in order.

    Parameters
    ----------
    path : of the group; the one above it is there before.
    """
    memory = MemoryZMap()
    above = path.rpartition("/")[0]
    with open_zmap(memory, "w", format=metadata_format) as root:
        if above:
            root.create_group(above)
    found: list[dict[str, bytes]] = []

    def note(operation: str, _key: str) -> None:
        if operation == "write":
            found.append(objects_of(memory))

    with open_zmap(Faulty(memory, before_call=note), "r+") as root:
        root.create_group(path, attributes)
    return [*found, objects_of(memory)]


def stored(state: Mapping[str, bytes]) -> tuple[str, ZMap]:
    """A store with a dataset, and its URL."""
    url = f"memory://left{next(_stores)}"
    zmap = Prefixed(open_store(url), parse_prefix("n.zarr"))
    for key, data in state.items():
        zmap.write(parse_key(key), data)
    return url, zmap


def mounted(url: str, *, allow_delete: bool = False) -> TreeFileSystem:
    return mount_tree(url, options=VfsOptions(read_only=False, allow_delete=allow_delete))


@pytest.mark.parametrize("metadata_format", [*LISTING, "zarr2"])
def test_the_same_mkdir_completes_what_is_not_shown(metadata_format: str) -> None:
    """SEMANTICS W105."""
    several = states(metadata_format)
    assert len(several) == {"zarr2": 3, "nczarr-L1": 6}.get(metadata_format, 4)
    for state in several:
        url, zmap = stored(state)
        fs = mounted(url)
        try:
            is_group = metadata_format == "zarr2" and "v/.zgroup" in state
            is_group = is_group or state == several[-1]
            assert exists(fs, GROUP) == is_group
            assert ("v" in listing(fs, "datasets/n.zarr")) == is_group
            if is_group:
                with pytest.raises(PathExists):
                    mkdir(fs, GROUP)
            else:
                mkdir(fs, GROUP)
                made, whole = objects_of(zmap).items(), several[-1].items()
                assert made <= whole
                assert {data for _, data in whole - made} <= {b"{}"}
        finally:
            fs.close()
        with open_zmap(zmap) as root:
            assert [*root.groups] == ["v"]


@pytest.mark.parametrize(
    "more", ["v/x/.zgroup", "v/0", "v/a.txt", "v/.zattrs", "v/.zgroup", "v/zarr.json", "v/.zarray"]
)
def test_a_directory_with_anything_else_is_shown(more: str) -> None:
    state = states("nczarr-L3")[-2] | {more: MORE}
    fs = mounted(stored(state)[0])
    try:
        assert exists(fs, GROUP)
        assert "v" in listing(fs, "datasets/n.zarr")
        with pytest.raises(PathExists):
            mkdir(fs, GROUP)
    finally:
        fs.close()


@pytest.mark.parametrize("allow_delete", [False, True])
@pytest.mark.parametrize("metadata_format", LISTING)
@pytest.mark.parametrize("path", ["v", "g/v"])
def test_what_holds_only_that_can_be_removed(
    metadata_format: str, path: str, allow_delete: bool
) -> None:
    """SEMANTICS W26."""
    *unfinished, whole = states(metadata_format, path)
    above = f"datasets/n.zarr/{path.rpartition('/')[0]}".rstrip("/")
    for state in (*unfinished, whole):
        url, zmap = stored(state)
        fs = mounted(url, allow_delete=allow_delete)
        try:
            if state is whole:
                with pytest.raises(DirectoryNotEmpty):
                    rmdir(fs, above)
                assert objects_of(zmap) == state
            else:
                rmdir(fs, above)
                assert not exists(fs, above)
                assert not any(
                    key.startswith(f"{path.rpartition('/')[0]}") for key in objects_of(zmap)
                )
        finally:
            fs.close()


@pytest.mark.parametrize(
    "more",
    ["g/v/0", "g/v/x/.zgroup", "g/v/.zattrs", "g/v/.zgroup", "g/v/.zarray", "g/v/zarr.json", "g/a"],
)
def test_a_group_in_which_there_is_more_stays(more: str) -> None:
    state = states("nczarr-L3", "g/v")[-2] | {more: MORE}
    url, zmap = stored(state)
    fs = mounted(url, allow_delete=True)
    try:
        with pytest.raises(DirectoryNotEmpty):
            rmdir(fs, "datasets/n.zarr/g")
        assert objects_of(zmap) == state
    finally:
        fs.close()


@pytest.mark.parametrize("metadata_format", LISTING)
def test_it_is_removed_by_its_path(metadata_format: str) -> None:
    """As `nczfs rm` does."""
    before, *unfinished, _ = states(metadata_format)
    for state in unfinished:
        _, zmap = stored(state)
        with open_zmap(zmap, "r+") as root:
            root.editor.remove("v")
        assert objects_of(zmap) == before


@pytest.mark.parametrize("metadata_format", LISTING)
def test_a_group_that_another_client_has_finished_meanwhile_exists(metadata_format: str) -> None:
    *_, listed_last, whole = states(metadata_format)
    _, zmap = stored(listed_last)
    with open_zmap(zmap, "r+", options=EngineOptions(metadata_ttl_s=3600.0)) as root:
        assert not root.groups
        for key, data in whole.items():
            if data != listed_last.get(key):
                zmap.write(parse_key(key), data)
        with pytest.raises(NameTaken):
            root.create_group("v")
        assert root._dataset.names("") == ["v"]
    assert objects_of(zmap) == whole


@pytest.mark.parametrize("metadata_format", LISTING)
def test_a_group_in_it_is_found(metadata_format: str) -> None:
    for state in states(metadata_format)[:-1]:
        _, zmap = stored(state)
        with open_zmap(zmap, "r+") as root:
            root.create_group("v/w")
        with open_zmap(zmap) as root:
            assert [*root.groups] == ["v"]
            assert [*root.groups["v"].groups] == ["w"]


@pytest.mark.parametrize("metadata_format", [*LISTING, "zarr2"])
def test_the_library_completes_a_group_with_attributes(metadata_format: str) -> None:
    """SEMANTICS W105."""
    *unfinished, whole = states(metadata_format, attributes={"a": 1})
    assert len(unfinished) > 1
    for state in unfinished:
        _, zmap = stored(state)
        with open_zmap(zmap, "r+") as root:
            root.create_group("v", {"a": 1})
        assert objects_of(zmap) == whole


def test_a_zom_json_completes_a_group_with_attributes() -> None:
    """SEMANTICS D40, W105."""
    *unfinished, whole = states("zarr2", attributes={"a": 1})
    text = dumps(GroupV2({"v": GroupV2({}, {"a": 1})})).encode()
    for state in unfinished:
        url, zmap = stored(state)
        fs = mounted(url)
        try:
            write(fs, "datasets/n.zarr/zom.json", text)
            assert listing(fs, GROUP).keys() >= {"attributes"}
        finally:
            fs.close()
        assert objects_of(zmap) == whole


def test_attributes_that_no_group_has_are_shown_and_can_be_removed() -> None:
    """SEMANTICS W105: they may be another program's."""
    _, state, _ = states("zarr2", attributes={"a": 1})
    url, zmap = stored(state)
    fs = mounted(url, allow_delete=True)
    try:
        assert exists(fs, f"{GROUP}/attributes/a")
        with pytest.raises(PathExists):
            mkdir(fs, GROUP)
        rm_r(fs, GROUP)
        assert not exists(fs, GROUP)
        mkdir(fs, GROUP)
    finally:
        fs.close()
    assert "v/.zgroup" in objects_of(zmap)
