"""A rename of a group that comes between two steps of what others do with the files in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.engine.chunks.storedarray import StoredArrays
from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.edits import Edits
from nczfs.engine.opennode import NodePlaces, OpenNode
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.ownership import RENAMING
from nczfs.engine.structure.renaming import _Renaming
from nczfs.errors import NczfsError, NoSuchPath
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.vfs.base import HandleNo
from nczfs.vfs.datasets import attributes
from nczfs.vfs.datasets.growing import Growing
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.inodes import InodeTable
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.views import catalog
from nczfs.zmap import keys
from nczfs.zmap.keys import Prefix
from nczfs.zmap.registry import open_store
from tests.support.between import take_once
from tests.support.copies import new_url
from tests.support.trees import exists, find, read
from tests.support.writing import close, mkdir, open_file

ROOT = "datasets/d.zarr"
VALUES = np.arange(4, dtype="<i4")


@pytest.fixture(params=["nczarr-L3", "zarr2"])
def url(request: pytest.FixtureRequest) -> str:
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w", format=request.param) as root:
        root.create_dimension("t", None)
        group = root.create_group("g")
        attributes = {"units": "K", "kept": "x"}
        group.create_variable("v", ("t",), "<i4", VALUES, chunks=(2,), attributes=attributes)
    return url


@pytest.fixture
def fs(url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False, allow_delete=True))
    yield tree
    tree.close()


def rename(fs: TreeFileSystem, old: str = "g", new: str = "new") -> None:
    here = find(fs, ROOT).ino
    fs.rename(here, os.fsencode(old), here, os.fsencode(new), replace=False)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """`take_once` of this test."""
    return partial(take_once, monkeypatch)


def attributes_of(url: str, path: str) -> dict[str, object]:
    with nczfs.open(f"{url}/d.zarr") as root:
        return dict(root[path].attrs)


def values_of(url: str, path: str) -> list[int]:
    with nczfs.open(f"{url}/d.zarr") as root:
        found: list[int] = np.asarray(root[path][...]).tolist()  # type: ignore[index]
        return found


def test_an_attribute_that_is_removed_does_not_come_back(
    fs: TreeFileSystem, url: str, once: Callable[..., list[str]]
) -> None:
    """SEMANTICS W32."""
    directory = find(fs, f"{ROOT}/g/v/attributes").ino
    taken = once(Editor, "delete_attribute", lambda: rename(fs))
    fs.unlink(directory, b"units")
    assert taken
    assert not exists(fs, f"{ROOT}/new/v/attributes/units")
    fs.sync()
    assert attributes_of(url, "new/v") == {"kept": "x"}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("owner", "step"), [(attributes, "settings"), (Edits, "check"), (Dataset, "store")]
)
def test_an_attribute_that_is_renamed_is_there_under_its_new_name(
    fs: TreeFileSystem,
    url: str,
    once: Callable[..., list[str]],
    owner: object,
    step: str,
    after: bool,
) -> None:
    """SEMANTICS W32."""
    directory = find(fs, f"{ROOT}/g/v/attributes").ino
    taken = once(owner, step, lambda: rename(fs), after=after)
    fs.rename(directory, b"units", directory, b"unit", replace=False)
    assert taken
    fs.sync()
    assert attributes_of(url, "new/v") == {"kept": "x", "unit": "K"}


def test_a_directory_of_attributes_is_that_of_its_node_wherever_that_is(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W32."""
    directory, taken = find(fs, f"{ROOT}/g/v/attributes").ino, list[str]()
    path: Any = OpenNode.path

    def path_before(node: OpenNode) -> str:
        found: str = path.fget(node)
        taken.append(found)
        if len(taken) == 1:
            rename(fs)
        return found

    monkeypatch.setattr(OpenNode, "path", property(path_before))
    fs.rename(directory, b"units", directory, b"unit", replace=False)
    assert taken[0] == "g/v"
    fs.sync()
    assert attributes_of(url, "new/v") == {"kept": "x", "unit": "K"}


def test_nobody_else_gets_the_error_of_an_attribute_that_was_set_at_the_old_place(
    fs: TreeFileSystem, url: str, once: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W32."""
    store, errors = Dataset.store, list[NczfsError]()

    def store_all_before(dataset: Dataset, *asked: Any) -> None:
        try:
            store(dataset)  # as another thread does
        except NczfsError as error:
            errors.append(error)
        store(dataset, *asked)

    handle = open_file(fs, f"{ROOT}/g/v/attributes/units", os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"m\n")
    taken = once(Edits, "check", lambda: rename(fs), after=True)
    monkeypatch.setattr(Dataset, "store", store_all_before)
    close(fs, handle)
    assert taken
    assert errors == []
    assert attributes_of(url, "new/v") == {"kept": "x", "units": "m"}


def test_attributes_set_at_both_places_are_there(url: str, once: Callable[..., list[str]]) -> None:
    """SEMANTICS W32: one just before what is open follows, and one by a thread that follows."""
    with nczfs.open(f"{url}/d.zarr", "r+") as root:
        editor, node = root.editor, root._dataset.open_node("g/v")

        def set_attribute(name: str) -> None:
            attribute = Attribute(name, NcType.INT, (1,))
            node.follow(lambda path: editor.set_attribute(path, attribute))

        other = threading.Thread(target=set_attribute, args=("second",))

        def begin() -> None:
            other.start()
            other.join(0.2)  # unless it waits

        taken = once(_Renaming, "commit", lambda: set_attribute("first"))
        taken_too = once(NodePlaces, "move", begin, after=True)
        editor.rename("g", "new")
        other.join()
        assert taken
        assert taken_too
    assert {"first", "second"} <= attributes_of(url, "new/v").keys()


@pytest.mark.parametrize("is_outer_first", [False, True])
@pytest.mark.parametrize("step", ["check", "put_marks", "copy_rest", "copy_changed"])
def test_a_group_and_what_is_in_it_are_renamed_at_the_same_time(
    fs: TreeFileSystem, url: str, once: Callable[..., list[str]], step: str, is_outer_first: bool
) -> None:
    """SEMANTICS W32."""
    group = find(fs, f"{ROOT}/g").ino
    find(fs, f"{ROOT}/g/v/values.raw")

    def rename_within() -> None:
        fs.rename(group, b"v", group, b"w", replace=False)

    def rename_around() -> None:
        rename(fs)

    both = [rename_within, rename_around]
    first, second = reversed(both) if is_outer_first else both
    with ThreadPoolExecutor() as pool:
        others: list[Future[None]] = []

        def begin() -> None:
            others.append(pool.submit(second))
            wait(others, 0.2)  # unless it waits

        taken = once(_Renaming, step, begin, after=True)
        first()
        assert taken
        others[0].result()
    assert exists(fs, f"{ROOT}/new/w/values.raw")
    assert not exists(fs, f"{ROOT}/new/v")
    assert not exists(fs, f"{ROOT}/g")
    assert attributes_of(url, "new/w") == {"kept": "x", "units": "K"}
    assert values_of(url, "new/w") == VALUES.tolist()
    stored = [stat.key for stat in open_store(url).list(keys.ROOT)]
    assert [key for key in stored if "/g/" in key or "/v/" in key or RENAMING in key] == []


@pytest.mark.parametrize(
    ("change", "owner", "step"),
    [
        *(
            (change, owner, step)
            for change in ("rename", "rmdir", "mkdir", "create")
            for owner, step in ((Editor, "rename"), (InodeTable, "renamed"))
        ),
        *((change, _Renaming, "commit") for change in ("rename", "rmdir", "mkdir")),
    ],
)
def test_a_directory_is_changed_in_while_its_own_rename_is_done_and_its_inode_has_not_moved(
    fs: TreeFileSystem,
    url: str,
    once: Callable[..., list[str]],
    change: str,
    owner: object,
    step: str,
) -> None:
    """SEMANTICS W32."""
    group = find(fs, f"{ROOT}/g").ino
    inner = mkdir(fs, f"{ROOT}/g/inner").ino

    def described() -> None:
        handle = fs.create(inner, b"inner.cdl", os.O_WRONLY, 0o644)[0].handle
        fs.write(handle, 0, b'netcdf inner {\n:title = "t" ;\n}\n')
        close(fs, handle)

    changes: dict[str, Callable[[], object]] = {
        "rename": lambda: fs.rename(group, b"v", group, b"w", replace=False),
        "rmdir": lambda: fs.rmdir(group, b"inner"),
        "mkdir": lambda: fs.mkdir(group, b"made", 0o755),
        "create": described,
    }
    with ThreadPoolExecutor() as pool:
        others: list[Future[object]] = []

        def begin() -> None:
            others.append(pool.submit(changes[change]))
            wait(others, 0.2)  # unless it waits

        taken = once(owner, step, begin, after=True)
        rename(fs)
        assert taken
        others[0].result()
    assert exists(fs, f"{ROOT}/new/w/values.raw") == (change == "rename")
    assert exists(fs, f"{ROOT}/new/inner") == (change != "rmdir")
    assert exists(fs, f"{ROOT}/new/made") == (change == "mkdir")
    if change == "create":
        assert attributes_of(url, "new/inner") == {"title": "t"}
    assert values_of(url, "new/w" if change == "rename" else "new/v") == VALUES.tolist()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
def test_a_file_that_is_opened_while_its_variable_moves_has_its_values(
    fs: TreeFileSystem, once: Callable[..., list[str]], flags: int
) -> None:
    """SEMANTICS W32."""
    ino = find(fs, f"{ROOT}/g/v/values.raw").ino
    rename(fs, "g", "first")
    taken = once(catalog, "_all_native", lambda: rename(fs, "first", "new"))
    handle = fs.open(ino, flags).handle
    assert taken
    assert bytes(fs.read(handle, 0, 16)) == VALUES.tobytes()
    close(fs, handle)


@pytest.mark.parametrize("url", ["nczarr-L3"], indirect=True)
@pytest.mark.parametrize(
    ("owner", "step"), [(Dataset, "node"), (Growing, "_latest"), (Growing, "_grow")]
)
def test_records_are_added_wherever_their_variable_is(
    fs: TreeFileSystem, url: str, once: Callable[..., list[str]], owner: object, step: str
) -> None:
    """SEMANTICS W32."""
    handle = open_file(fs, f"{ROOT}/g/v/values.raw")
    taken = once(owner, step, lambda: rename(fs))
    fs.write(handle, 16, np.arange(4, 8, dtype="<i4").tobytes())
    fs.fsync(handle, data_only=False)
    assert taken
    close(fs, handle)
    assert values_of(url, "new/v") == list(range(8))


def test_a_variable_that_is_described_while_it_moves_keeps_its_values(
    url: str, once: Callable[..., list[str]]
) -> None:
    """SEMANTICS W32."""
    with nczfs.open(f"{url}/d.zarr", "r+") as root:
        dataset = root._dataset
        variable = root.groups["g"].variables["v"].description
        reader = threading.Thread(target=lambda: dataset.array(variable))

        def move() -> None:
            mover.start()
            mover.join(0.2)  # unless it waits

        mover = threading.Thread(target=lambda: root.editor.rename("g", "new"))
        taken = once(StoredArrays, "of", move)
        reader.start()
        reader.join()
        mover.join()
        assert taken
        assert root.groups["new"].variables["v"][...].tolist() == VALUES.tolist()


@pytest.mark.parametrize("step", ["commit", "finish"])
def test_what_is_opened_by_its_old_name_while_its_old_keys_are_there_has_its_values(
    fs: TreeFileSystem, once: Callable[..., list[str]], step: str
) -> None:
    """SEMANTICS W32."""
    handles: list[HandleNo] = []

    def open_by_old_name() -> None:
        with suppress(NoSuchPath):  # where groups list their members
            handles.append(open_file(fs, f"{ROOT}/g/v/values.raw"))

    taken = once(_Renaming, step, open_by_old_name, after=step == "commit")
    rename(fs)
    assert taken
    for handle in handles:
        assert bytes(fs.read(handle, 0, 16)) == VALUES.tobytes()
        close(fs, handle)
    assert read(fs, f"{ROOT}/new/v/values.raw") == VALUES.tobytes()


@pytest.mark.parametrize("step", ["renamed", "_went"])
def test_directories_are_made_while_others_are_renamed_and_removed(
    url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """SEMANTICS W32: in another thread."""
    change, is_within = getattr(DatasetsTree, step), keys.is_within

    def change_beside_another(tree: DatasetsTree, *prefixes: Prefix) -> None:
        def made_meanwhile(key: str, prefix: str) -> bool:
            tree.times[Prefix(f"d.zarr/n{len(tree.times)}")] = 0
            return is_within(key, prefix)

        with monkeypatch.context() as patch:
            patch.setattr(keys, "is_within", made_meanwhile)
            change(tree, *prefixes)

    monkeypatch.setattr(DatasetsTree, step, change_beside_another)
    fs = mount_tree(url, options=VfsOptions(read_only=False, allow_delete=True))
    for name in ("a", "b"):
        mkdir(fs, f"{ROOT}/{name}")
    rename(fs, "a", "c")
    fs.rmdir(find(fs, ROOT).ino, b"b")
    assert exists(fs, f"{ROOT}/c")
    assert not exists(fs, f"{ROOT}/b")
    fs.close()
