"""Removing through ``datasets/``: what goes from the store, and what only from sight."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nczfs.errors import (
    DirectoryNotEmpty,
    IsADirectory,
    NoSuchPath,
    NotADirectory,
    NotPermitted,
    ReadOnlyMount,
    StaleHandle,
    StructureChanged,
)
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.datasets import removing
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import exists, find, listing, read
from tests.support.writing import empty, mkdir, rm_r, rmdir, unlink, write

_stores = itertools.count()

N = "datasets/d/n.zarr"
Mount = Callable[..., TreeFileSystem]


@pytest.fixture
def url() -> str:
    return f"memory://removing{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    with open_zmap(Prefixed(store, parse_prefix("d/n.zarr")), "w", consolidated=True) as root:
        root.create_dimension("x", 4)
        root.attrs["title"] = "t"
        for name in ("v", "w"):
            attributes = {"units": "K", "long_name": name}
            values = np.arange(4, dtype="f4")
            root.create_variable(name, ("x",), "<f4", values, chunks=(1,), attributes=attributes)
        root.create_group("g").create_variable("a", ("x",), "<i4")
    return store


@pytest.fixture
def mount(url: str, store: ZMap, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    made: list[TreeFileSystem] = []

    def mount(
        at: str = "",
        *,
        read_only: bool = False,
        allow_delete: bool = True,
        views: frozenset[str] | None = None,
    ) -> TreeFileSystem:
        options = VfsOptions(read_only=read_only, allow_delete=allow_delete, views=views)
        made.append(mount_tree(f"{url}{at}", options=options))
        return made[-1]

    # Whatever stores removed attributes, it is not the clock.
    monkeypatch.setattr(removing, "ATTRIBUTES_WAIT_S", 3600.0)
    yield mount
    for fs in made:
        fs.close()


@pytest.fixture
def fs(mount: Mount) -> TreeFileSystem:
    return mount()


def keys_of(store: ZMap, below: str = "") -> list[str]:
    return sorted(stat.key for stat in store.list(ROOT) if stat.key.startswith(below))


def attributes_of(store: ZMap, path: str) -> list[str]:
    """As a client reads them that shares nothing with the mount."""
    with open_zmap(Prefixed(store, parse_prefix("d/n.zarr"))) as root:
        return [a.name for a in root[path].stored.attributes]


PLACES = {
    "attribute": (unlink, f"{N}/v/attributes/units"),
    "view": (unlink, f"{N}/v/values.raw"),
    "chunk": (unlink, f"{N}/v/chunks/0"),
    "chunks": (rmdir, f"{N}/v/chunks"),
    "attributes": (rmdir, f"{N}/v/attributes"),
    "variable": (rmdir, f"{N}/v"),
}


@pytest.mark.parametrize(("remove", "path"), PLACES.values(), ids=PLACES)
def test_nothing_goes_without_the_option(
    mount: Mount, store: ZMap, remove: Callable[[TreeFileSystem, str], None], path: str
) -> None:
    """SEMANTICS W11."""
    before = keys_of(store)
    fs = mount(allow_delete=False)
    with pytest.raises(NotPermitted, match="allow_delete"):
        remove(fs, path)
    assert exists(fs, path)
    with pytest.raises(ReadOnlyMount):
        remove(mount(read_only=True), path)
    assert keys_of(store) == before


@pytest.mark.parametrize("allow_delete", [False, True])
@pytest.mark.parametrize("path", [f"{N}/g", N, "datasets/d", f"{N}/left", "datasets/papers"])
def test_what_holds_something_is_not_empty_whatever_is_allowed(
    mount: Mount, store: ZMap, path: str, allow_delete: bool
) -> None:
    """SEMANTICS W11, W16, W39."""
    for key in ("d/n.zarr/left/notes/one.txt", "papers/new/one.txt"):
        store.write(parse_key(key), b"")
    before = keys_of(store)
    fs = mount(allow_delete=allow_delete)
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, path)
    with pytest.raises(ReadOnlyMount):
        rmdir(mount(read_only=True), path)
    assert keys_of(store) == before


def test_the_wreck_of_a_variable_goes_from_the_inside(mount: Mount, store: ZMap) -> None:
    """SEMANTICS W26."""
    for name in ("t", "t/chunks"):
        put_group(store, f"d/z.zarr/{name}", {})
    put_group(store, "d/z.zarr", {"a": 1})
    fs = mount(allow_delete=False)
    with pytest.raises(DirectoryNotEmpty, match="holds groups or variables"):
        rmdir(fs, "datasets/d/z.zarr/t")
    rmdir(fs, "datasets/d/z.zarr/t/chunks")
    rmdir(fs, "datasets/d/z.zarr/t")
    assert keys_of(store, "d/z.zarr") == ["d/z.zarr/.zattrs", "d/z.zarr/.zgroup"]


def test_a_copy_that_is_refused_goes_no_deeper(mount: Mount, store: ZMap) -> None:
    """SEMANTICS W101."""
    fs = mount(allow_delete=False)
    mkdir(fs, f"{N}/new")
    with pytest.raises(NotPermitted, match="--views copy"):
        mkdir(fs, f"{N}/new/chunks")
    mkdir(fs, f"{N}/new/sub")
    for path, name in ((f"{N}/new/sub", "values.raw"), (N, "n.nc"), (f"{N}/new", "README")):
        with pytest.raises(NotPermitted):
            write(fs, f"{path}/{name}", b"x")
    with pytest.raises(NotPermitted, match="--views copy"):
        mkdir(fs, f"{N}/new/sub/deeper")
    mkdir(fs, f"{N}/beside")  # the group was there before
    mkdir(fs, f"{N}/new/beside")  # no view is called so
    fs.refresh(f"{N}/new/sub")
    mkdir(fs, f"{N}/new/sub/deeper")
    rmdir(fs, f"{N}/new/sub/deeper")
    rmdir(fs, f"{N}/new/sub")


@pytest.mark.parametrize("name", ["a.cdl", ".a.cdl.x1Y2z3", "values.npy", ".values.txt.aBcDeF"])
def test_each_name_of_a_view_tells_a_copy(mount: Mount, name: str) -> None:
    """SEMANTICS W101."""
    fs = mount(allow_delete=False)
    mkdir(fs, "datasets/d/copy.zarr")
    with pytest.raises(NotPermitted):
        write(fs, f"datasets/d/copy.zarr/{name}", b"x")
    with pytest.raises(NotPermitted, match="--views copy"):
        mkdir(fs, "datasets/d/copy.zarr/t")
    rmdir(fs, "datasets/d/copy.zarr")
    mkdir(fs, "datasets/d/copy.zarr")
    mkdir(fs, "datasets/d/copy.zarr/t")


def test_a_view_a_chunk_and_the_directory_of_chunks_are_only_hidden(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W14."""
    before = keys_of(store)
    shown = listing(fs, f"{N}/v")
    for number in (1, 0, 3):
        unlink(fs, f"{N}/v/chunks/{number}")
    assert list(listing(fs, f"{N}/v/chunks")) == ["2"]
    assert not exists(fs, f"{N}/v/chunks/1")
    with pytest.raises(NoSuchPath):
        unlink(fs, f"{N}/v/chunks/1")
    unlink(fs, f"{N}/v/values.npy")
    assert not exists(fs, f"{N}/v/values.npy")
    assert listing(fs, f"{N}/v").keys() == shown.keys() - {"values.npy"}
    rmdir(fs, f"{N}/v/chunks")
    assert not exists(fs, f"{N}/v/chunks")
    unlink(fs, f"{N}/info.json")
    assert not exists(fs, f"{N}/info.json")
    assert keys_of(store) == before
    assert read(fs, f"{N}/v/values.raw") == np.arange(4, dtype="f4").tobytes()
    assert exists(fs, f"{N}/w/values.npy")
    fs.refresh(f"/{N}")
    assert listing(fs, f"{N}/v").keys() == shown.keys()
    assert len(listing(fs, f"{N}/v/chunks")) == 4


@pytest.mark.parametrize("views", [None, frozenset({"copy"})])
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("info.json", b'"title": "t"', b'"title": "u"'),
        ("v/values.raw", np.float32(2).tobytes(), np.float32(7).tobytes()),
    ],
)
def test_a_removed_file_that_is_made_again_is_written(
    mount: Mount, name: str, old: bytes, new: bytes, views: frozenset[str] | None
) -> None:
    """SEMANTICS W14."""
    fs = mount(views=views)
    before = read(fs, f"{N}/{name}")
    unlink(fs, f"{N}/{name}")
    write(fs, f"{N}/{name}", before.replace(old, new))
    assert new in read(fs, f"{N}/{name}")
    above, _, base = f"{N}/{name}".rpartition("/")
    assert base in listing(fs, above)
    fs.close()
    assert new in read(mount(), f"{N}/{name}")


def test_a_removed_chunk_that_is_made_again_is_written(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W14."""
    new = np.array([9], dtype="f4").tobytes()
    for number in range(4):
        unlink(fs, f"{N}/v/chunks/{number}")
    write(fs, f"{N}/v/chunks/2", new)
    assert list(listing(fs, f"{N}/v/chunks")) == ["2"]
    assert read(fs, f"{N}/v/chunks/2") == new
    fs.sync()
    assert store.read(parse_key("d/n.zarr/v/2")) is not None
    assert read(fs, f"{N}/v/values.raw") == np.array([0, 1, 9, 3], dtype="f4").tobytes()


def test_a_removed_file_that_cannot_be_written_is_not_made_again(fs: TreeFileSystem) -> None:
    """SEMANTICS W14."""
    for name in ("v/v.nc", "v/chunks/1"):
        unlink(fs, f"{N}/{name}")
    for name in ("v/v.nc", "v/chunks/4", "v/other"):
        with pytest.raises(NotPermitted):
            write(fs, f"{N}/{name}", b"x")
        assert not exists(fs, f"{N}/{name}")
    assert not exists(fs, f"{N}/v/chunks/1")


def test_what_is_hidden_is_shown_by_the_next_mount(mount: Mount) -> None:
    """SEMANTICS W14."""
    unlink(mount(), f"{N}/v/values.npy")
    assert exists(mount(), f"{N}/v/values.npy")


def test_a_change_through_objects_shows_it_again(fs: TreeFileSystem) -> None:
    """SEMANTICS W14."""
    unlink(fs, f"{N}/v/values.npy")
    unlink(fs, "objects/d/n.zarr/v/3")
    assert exists(fs, f"{N}/v/values.npy")


def test_an_attribute_is_gone_at_once_and_stored_at_fsync(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W15."""
    unlink(fs, f"{N}/v/attributes/units")
    assert not exists(fs, f"{N}/v/attributes/units")
    assert list(listing(fs, f"{N}/v/attributes")) == ["long_name"]
    assert attributes_of(store, "v") == ["units", "long_name"]
    handle = fs.opendir(find(fs, f"{N}/v/attributes").ino)
    fs.fsyncdir(handle)
    fs.releasedir(handle)
    assert attributes_of(store, "v") == ["long_name"]


@pytest.mark.parametrize("ending", ["sync", "close", "directory"])
def test_an_attribute_is_stored_by_sync_and_at_unmounting(
    mount: Mount, store: ZMap, ending: str
) -> None:
    """SEMANTICS W15."""
    fs = mount()
    unlink(fs, f"{N}/v/attributes/units")
    unlink(fs, f"{N}/attributes/title")
    if ending == "directory":
        fs.fsyncdir(fs.opendir(find(fs, N).ino))
    else:
        getattr(fs, ending)()
    assert attributes_of(store, "v") == ["long_name"]
    assert attributes_of(store, "") == []


def test_an_attribute_is_stored_after_a_while(
    mount: Mount, store: ZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W15."""
    timers: list[tuple[float, Callable[[], None]]] = []

    class Timer:
        daemon = False

        def __init__(self, delay_s: float, action: Callable[[], None]) -> None:
            timers.append((delay_s, action))

        def start(self) -> None:
            assert self.daemon

        def cancel(self) -> None:
            pass

    monkeypatch.setattr(threading, "Timer", Timer)
    fs = mount()
    unlink(fs, f"{N}/v/attributes/units")
    unlink(fs, f"{N}/v/attributes/long_name")
    ((_, action),) = timers
    action()
    assert attributes_of(store, "v") == []
    unlink(fs, f"{N}/w/attributes/units")
    assert len(timers) == 2


def test_a_variable_goes_with_its_keys_and_nothing_else(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W16."""
    others = [key for key in keys_of(store) if not key.startswith("d/n.zarr/v/")]
    listing(fs, "objects/d/n.zarr")
    read(fs, f"{N}/n.cdl")
    rm_r(fs, f"{N}/v")
    assert keys_of(store) == others
    assert not exists(fs, f"{N}/v")
    assert not exists(fs, "objects/d/n.zarr/v")
    assert b"v(x)" not in read(fs, f"{N}/n.cdl")
    assert b"x = 4" in read(fs, f"{N}/n.cdl")
    with open_zmap(Prefixed(store, parse_prefix("d/n.zarr"))) as root:
        assert sorted(root.variables) == ["w"]
        assert root.problems == ()


def test_attributes_of_a_variable_that_goes_are_not_stored_first(
    fs: TreeFileSystem, store: ZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W15."""
    written: list[str] = []
    write = type(store).write

    def spy(self: ZMap, key: str, *args: object, **kwargs: object) -> object:
        written.append(key)
        return write(self, key, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store), "write", spy)
    rm_r(fs, f"{N}/v")
    assert set(written) == {"d/n.zarr/.zattrs", "d/n.zarr/.zmetadata"}


def test_a_node_of_which_something_is_shown_stays(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W16."""
    before = keys_of(store)
    for path in (f"{N}/v", f"{N}/g", N, "datasets/d", f"{N}/v/attributes"):
        with pytest.raises(DirectoryNotEmpty):
            rmdir(fs, path)
    with pytest.raises(IsADirectory):
        unlink(fs, f"{N}/v")
    with pytest.raises(NotADirectory):
        rmdir(fs, f"{N}/v/values.raw")
    for name in (f"{N}/nosuch", f"{N}/v/nosuch"):
        with pytest.raises(NoSuchPath):
            unlink(fs, name)
        with pytest.raises(NoSuchPath):
            rmdir(fs, name)
    assert keys_of(store) == before


def test_a_group_goes_after_its_members(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W16."""
    unlink(fs, f"{N}/g/info.json")
    unlink(fs, f"{N}/g/g.cdl")
    rmdir(fs, f"{N}/g/attributes")
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, f"{N}/g")
    rm_r(fs, f"{N}/g/a")
    rmdir(fs, f"{N}/g")
    assert keys_of(store, "d/n.zarr/g") == []


@pytest.mark.parametrize("allow_delete", [False, True])
@pytest.mark.parametrize("path", [f"{N}/hollow", "datasets/d/o.zarr", "datasets/d/z.zarr/sub"])
def test_a_group_that_holds_nothing_goes_without_the_permission(
    mount: Mount, store: ZMap, path: str, allow_delete: bool
) -> None:
    """SEMANTICS W26."""
    put_group(store, "d/z.zarr", {"a": 1})
    put_group(store, "d/z.zarr/sub", {})
    prefix = path.removeprefix("datasets/")
    others = [key for key in keys_of(store) if not key.startswith(prefix)]
    fs = mount(allow_delete=allow_delete)
    if not exists(fs, path):
        mkdir(fs, path)
    assert "info.json" in listing(fs, path)
    assert keys_of(store, prefix)
    rmdir(fs, path)
    assert not exists(fs, path)
    assert keys_of(store) == others


HOLDINGS: dict[str, Callable[[TreeFileSystem, ZMap], object]] = {
    "a group": lambda fs, _: mkdir(fs, f"{N}/hollow/sub"),
    "an attribute": lambda fs, _: write(fs, f"{N}/hollow/attributes/title", b"t"),
    "a dimension": lambda fs, _: write(
        fs, f"{N}/hollow/info.json", b'{"groups": [], "dimensions": [{"name": "y", "size": 2}]}'
    ),
    "a file": lambda _, store: store.write(parse_key("d/n.zarr/hollow/notes.txt"), b""),
    "an array that nobody lists": lambda _, store: put_array(
        store, "d/n.zarr/hollow/v", np.zeros(2), (2,)
    ),
    "an attribute of another client": lambda _, store: store.write(
        parse_key("d/n.zarr/hollow/.zattrs"), b'{"title": "t"}'
    ),
}


@pytest.mark.parametrize("name", HOLDINGS)
def test_a_group_that_holds_anything_stays(mount: Mount, store: ZMap, name: str) -> None:
    """SEMANTICS W26."""
    fs = mount(allow_delete=False)
    mkdir(fs, f"{N}/hollow")
    HOLDINGS[name](fs, store)
    before = keys_of(store)
    with pytest.raises((NotPermitted, DirectoryNotEmpty), match=r"allow_delete|holds groups"):
        rmdir(fs, f"{N}/hollow")
    assert keys_of(store) == before


@pytest.mark.parametrize("path", [f"{N}/v", f"{N}/g", N])
def test_a_file_that_cannot_be_made_is_named_once_by_the_problems(mount: Mount, path: str) -> None:
    """SEMANTICS W11."""
    fs = mount(allow_delete=False)
    before = json.loads(read(fs, f"{path}/info.json"))["problems"]
    for name in ("new.txt", "other.raw"):
        with pytest.raises(NotPermitted, match="--views copy"):
            write(fs, f"{path}/{name}", b"x")
    problem, *others = json.loads(read(fs, f"{path}/info.json"))["problems"]
    assert others == before
    assert problem.startswith("new.txt: ")
    assert all(word in problem for word in ("--views copy", "objects/", "`nczfs cp`"))


def test_a_dataset_goes_whole_and_the_directory_above_it_by_itself(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W40, W41."""
    empty(fs, N)
    listing(fs, "datasets")
    rmdir(fs, N)
    assert keys_of(store) == []
    assert not exists(fs, N)
    assert list(listing(fs, "datasets")) == ["d"]
    assert listing(fs, "datasets/d") == {}
    rmdir(fs, "datasets/d")
    assert not exists(fs, "datasets/d")


def test_a_new_node_in_the_place_of_a_removed_one_is_shown_whole(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS W14."""
    rm_r(fs, f"{N}/g")
    fs.mkdir(find(fs, N).ino, b"g", 0o755)
    assert set(listing(fs, f"{N}/g")) == {"attributes", "info.json", "zom.json"}
    rm_r(fs, N)
    fs.mkdir(find(fs, "datasets/d").ino, b"n.zarr", 0o755)
    assert set(listing(fs, N)) == {"attributes", "info.json", "zom.json"}


def test_the_dataset_that_is_mounted_stays(mount: Mount, store: ZMap) -> None:
    """SEMANTICS W40."""
    fs = mount("/d/n.zarr")
    with pytest.raises(NotPermitted):
        rm_r(fs, "datasets/n.zarr")
    assert ".zgroup" in keys_of(Prefixed(store, parse_prefix("d/n.zarr")))


def test_what_is_no_dataset_stays(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W39."""
    store.write(parse_key("papers/one.pdf"), b"%PDF")
    store.write(parse_key("d/n.zarr/notes/one.txt"), b"")
    for path in ("datasets/papers", f"{N}/notes"):
        with pytest.raises(DirectoryNotEmpty):
            rmdir(fs, path)
    assert {"papers/one.pdf", "d/n.zarr/notes/one.txt"} <= set(keys_of(store))


def test_what_an_ended_removal_left_can_be_removed(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W18."""
    store.write(parse_key("d/n.zarr/left/0"), b"")
    rmdir(fs, f"{N}/left")
    assert keys_of(store, "d/n.zarr/left") == []


def test_a_broken_variable_can_be_removed(
    fs: TreeFileSystem, store: ZMap, expected_warnings: object
) -> None:
    """SEMANTICS W16."""
    expected_warnings.add("v/.zarray")  # type: ignore[attr-defined]
    store.write(parse_key("d/n.zarr/v/.zarray"), b"{")
    fs.refresh("/datasets")
    assert list(listing(fs, f"{N}/v")) == ["info.json"]
    rm_r(fs, f"{N}/v")
    assert keys_of(store, "d/n.zarr/v/") == []


def test_open_files_of_what_was_removed_are_stale(
    fs: TreeFileSystem, store: ZMap, expected_warnings: object
) -> None:
    """SEMANTICS W17."""
    expected_warnings.add("not stored at its last close")  # type: ignore[attr-defined]
    raw = find(fs, f"{N}/v/values.raw").ino
    reader = fs.open(raw, os.O_RDONLY).handle
    writer = fs.open(raw, os.O_RDWR).handle
    idle = fs.open(raw, os.O_RDWR).handle
    chunk = fs.open(find(fs, f"{N}/v/chunks/1").ino, os.O_RDONLY).handle
    units = fs.open(find(fs, f"{N}/v/attributes/units").ino, os.O_RDWR).handle
    fs.read(reader, 0, 16)
    fs.write(writer, 1, b"\1")
    fs.write(units, 0, b"m")
    rm_r(fs, f"{N}/v")
    for handle in (reader, writer, chunk):
        with pytest.raises(StructureChanged):
            fs.read(handle, 0, 4)
        assert fs.read_if_cached(handle, 0, 4) is None
    with pytest.raises(StructureChanged):
        fs.write(writer, 0, b"\1")
    for handle in (writer, units):
        with pytest.raises((StructureChanged, StaleHandle)):
            fs.flush(handle)
    fs.flush(idle)
    for handle in (reader, writer, idle, chunk, units):
        fs.release(handle)
    assert keys_of(store, "d/n.zarr/v/") == []


def test_an_open_attribute_does_not_bring_itself_back(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W17."""
    units = fs.open(find(fs, f"{N}/v/attributes/units").ino, os.O_RDWR).handle
    unlink(fs, f"{N}/v/attributes/units")
    fs.write(units, 0, b"m")
    with pytest.raises(StaleHandle):
        fs.flush(units)
    fs.release(units)
    fs.sync()
    assert attributes_of(store, "v") == ["long_name"]


def test_a_plain_group_goes_too(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W16."""
    put_group(store, "z.zarr", {"a": 1})
    put_group(store, "z.zarr/sub", {})
    rm_r(fs, "datasets/z.zarr/sub")
    files = {"attributes", "info.json", "z.cdl", "z.nc", "z.classic.nc", "z.ncs", "zom.json"}
    assert listing(fs, "datasets/z.zarr").keys() == files
    rm_r(fs, "datasets/z.zarr")
    assert keys_of(store, "z.zarr") == []
