"""A format that no code outside of `formats` knows, through all that is done with datasets."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nczfs.cli.main import main
from nczfs.engine.dataset import Engine
from nczfs.errors import AccessDenied, ForeignObjects, StoreError
from nczfs.formats.registry import FORMATS
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_url, open_zmap
from nczfs.library.variable import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools.verify.findings import FindingKind
from nczfs.tools.verify.subject import subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import Features, ZMap
from nczfs.zmap.keys import ROOT, parse_key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.toyformat import TOY
from tests.support.trees import listing, read
from tests.support.writing import mkdir, rename, unlink, write

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
REMOVALS = frozenset({"write", "delete", "delete_many"})
_stores = itertools.count()


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    with FORMATS.with_family(TOY):
        yield


def fill(store: ZMap, **options: Any) -> None:
    with open_zmap(store, "w", format="toy", **options) as root:
        root.attrs["title"] = "t"
        root.create_dimension("y", None)
        root.create_dimension("x", 6)
        root.create_variable("v", ("y", "x"), "<f4", FIELD, chunks=(2, 4))
        group = root.create_group("g")
        group.create_variable("s", (), "<i4", np.int32(7))


class FarStore(MemoryZMap):
    """A store whose requests are round trips; it notes which objects are read."""

    def __init__(self) -> None:
        super().__init__("memory://far")
        self.asked: list[str] = []

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def read(self, key: Any, *args: Any, **how: Any) -> Any:
        self.asked.append(key)
        return super().read(key, *args, **how)


def variable(root: OpenDataset, path: str) -> Variable:
    found = root[path]
    assert isinstance(found, Variable)
    return found


def keys(store: ZMap) -> list[str]:
    return sorted(stat.key for stat in store.list(ROOT))


def findings(store: ZMap) -> list[tuple[FindingKind, str]]:
    engine = Engine()
    try:
        found = Verification(subject_of(store, engine)).run()
        return sorted(((each.kind, each.key or each.path) for each in found), key=repr)
    finally:
        engine.close()


CHUNKS = [f"v/at/{i}/{j}" for i in range(2) for j in range(2)]


def test_a_dataset_of_it_is_made_and_read_without_a_consolidated_copy() -> None:
    store = MemoryZMap()
    fill(store, consolidated=True)
    documents = [key for key in keys(store) if "/at" not in key]
    assert documents == ["g/meta.json", "g/s/meta.json", "meta.json", "v/meta.json"]
    assert [key for key in keys(store) if "/at" in key] == ["g/s/at", *CHUNKS]
    with open_zmap(store) as root:
        assert root.header.format == "toy"
        np.testing.assert_array_equal(variable(root, "v")[...], FIELD)
        assert variable(root, "g/s")[...] == 7
        assert root.attrs["title"] == "t"
        assert [codec.name for codec in variable(root, "v").description.array.codecs.codecs] == [
            "crc32"
        ]


def test_it_is_changed_in_place() -> None:
    store = MemoryZMap()
    fill(store)
    with open_zmap(store, "r+") as root:
        root["v"].attrs["units"] = "K"
        del root.attrs["title"]
        variable(root, "v")[4:6] = 1
        root.resize_dimension("x", 4)
    with open_zmap(store) as root:
        assert root["v"].attrs["units"] == "K"
        assert list(root.attrs) == []
        wanted = np.vstack([FIELD, np.ones((2, 6), "<f4")])[:, :4]
        np.testing.assert_array_equal(variable(root, "v")[...], wanted)
    assert [key for key in keys(store) if key.startswith("v/at")] == [
        "v/at/0/0",
        "v/at/1/0",
        "v/at/2/0",
    ]
    assert findings(store) == []


def test_two_clients_append_to_it_at_a_time() -> None:
    store = MemoryZMap()
    fill(store)
    opened = [open_zmap(store, "r+") for _ in range(2)]
    for number, root in enumerate(opened):
        append(root, np.full((1, 6), 50 + number, "<f4"))
    for root in opened:
        root.sync()
    for root in opened:
        root.close()
    with open_zmap(store) as root:
        assert sorted(variable(root, "v")[4:, 0].tolist()) == [50, 51]
    assert b"nczfs_appends" not in bytes(store.read(parse_key("v/meta.json")).data)


def append(root: OpenDataset, values: Any) -> None:
    dataset, described = root.engine_dataset, variable(root, "v").description
    array = dataset.array(described)

    def grow(length: int) -> None:
        root.editor.grow(dataset.latest(described), (length, described.array.shape[1]))

    dataset.append(array.stored, values, grow)


def test_removing_takes_what_belongs_to_it_and_nothing_else() -> None:
    store = MemoryZMap()
    fill(store)
    store.write(parse_key("g/at/2024"), b"a file of the user, named like a chunk")
    with open_zmap(store, "r+") as root:
        del root["v"]
        with pytest.raises(ForeignObjects, match="at/2024"):
            del root["g"]
        store.delete(parse_key("g/at/2024"))
        del root["g"]
    assert keys(store) == ["meta.json"]


@pytest.mark.parametrize("name", ["v", "g"])
@pytest.mark.parametrize("failing", range(6))
def test_a_removal_that_was_interrupted_is_ended_by_another_one(name: str, failing: int) -> None:
    store = MemoryZMap()
    fill(store)
    faulty = Faulty(store)
    with open_zmap(faulty, "r+") as root:
        root.groups["g"].create_variable("w", ("y", "x"), "<f4", FIELD, chunks=(2, 4))
        root.sync()
        faulty.arm(Fault(failing, operations=REMOVALS, repeats=1000))
        with suppress(StoreError):
            del root[name]
        faulty.arm()
    with open_zmap(store, "r+") as root, suppress(KeyError):
        del root[name]
    assert not [key for key in keys(store) if key.startswith(name)]


def test_it_is_made_anew_over_an_old_one() -> None:
    store = MemoryZMap()
    fill(store)
    with open_zmap(store, "w", format="toy") as root:
        root.create_group("h")
    assert keys(store) == ["h/meta.json", "meta.json"]


@pytest.mark.parametrize("name", ["v", "g"])
def test_nodes_are_renamed(name: str) -> None:
    store = MemoryZMap()
    fill(store)
    with open_zmap(store, "r+") as root:
        root.editor.rename(name, "new")
        if name == "v":
            np.testing.assert_array_equal(variable(root, "new")[...], FIELD)
        else:
            assert variable(root, "new/s")[...] == 7
    assert not [key for key in keys(store) if key.startswith(f"{name}/") or "nczfs" in key]
    assert findings(store) == []


def test_verify_says_what_is_wrong_with_it() -> None:
    store = MemoryZMap()
    fill(store)
    store.write(parse_key("v/at/7/0"), b"")
    store.write(parse_key("v/at/0/1"), b"damaged!")
    store.write(parse_key("v/0.0"), b"")
    store.write(parse_key("g/README"), b"")
    store.write(parse_key("g/s/meta.json"), b"{")
    assert findings(store) == [
        (FindingKind.BEYOND, "v/at/7/0"),
        (FindingKind.CHUNK, "v/at/0/1"),
        (FindingKind.STRAY, "g/README"),
        (FindingKind.STRAY, "v/0.0"),
        (FindingKind.UNREADABLE, "g/s/meta.json"),
    ]


@pytest.mark.parametrize("make", [MemoryZMap, FarStore])
def test_it_can_win_over_another_format_at_the_same_root(make: Callable[[], ZMap]) -> None:
    store = make()
    with open_zmap(store, "w", format="zarr2", consolidated=True) as root:
        root.attrs["title"] = "old"
    document = {"is": "group", "attributes": [["title", "char", "new"]]}
    store.write(parse_key("meta.json"), json.dumps(document).encode())
    with open_zmap(store) as root:
        assert (root.header.format, root.attrs["title"]) == ("toy", "new")


def test_a_dataset_of_another_format_is_read_from_its_copy_all_the_same() -> None:
    store = FarStore()
    with open_zmap(store, "w", format="zarr2", consolidated=True) as root:
        root.create_group("h")
    store.asked.clear()
    with open_zmap(store) as root:
        assert list(root.groups) == ["h"]
    assert sorted(store.asked) == [".zmetadata", "meta.json", "zarr.json"]


# In a mount


@pytest.fixture
def url() -> str:
    return f"memory://another{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    fill(Prefixed(store, parse_prefix("a")))
    return store


@pytest.fixture
def faulty(store: ZMap) -> Faulty:
    return Faulty(store)


@pytest.fixture
def fs(faulty: Faulty, url: str, tmp_path: Path) -> Iterator[TreeFileSystem]:
    def opened(*_: object) -> ZMap:
        return faulty

    with mock.patch("nczfs.vfs.tree.open_store", opened):
        options = VfsOptions(read_only=False, allow_delete=True, spool_dir=tmp_path / "spool")
        tree = mount_tree(url, options=options)
    yield tree
    tree.close()


def test_a_mount_shows_and_changes_it(fs: TreeFileSystem, store: ZMap) -> None:
    assert {"v", "g", "attributes", "info.json"} <= set(listing(fs, "datasets/a"))
    assert read(fs, "datasets/a/v/values.raw") == FIELD.tobytes()
    assert "chunks" in listing(fs, "datasets/a/v")
    write(fs, "datasets/a/v/attributes/units", b"K")
    write(fs, "datasets/a/v/values.raw", np.float32(-1).tobytes(), 4, 0)
    write(fs, "datasets/a/v/values.raw", FIELD[0].tobytes(), FIELD.nbytes, 0)
    mkdir(fs, "datasets/a/new")
    rename(fs, "datasets/a/g", "datasets/a/h")
    unlink(fs, "datasets/a/attributes/title")
    fs.close()
    with open_zmap(Prefixed(store, parse_prefix("a"))) as root:
        assert (root["v"].attrs["units"], list(root.attrs)) == ("K", [])
        assert variable(root, "v")[0].tolist() == [0, -1, 2, 3, 4, 5]
        assert variable(root, "v")[4].tolist() == FIELD[0].tolist()
        assert sorted(root.groups) == ["h", "new"]


def test_what_changes_in_objects_is_shown_in_datasets(fs: TreeFileSystem) -> None:
    key = "a/v/meta.json"
    assert json.loads(read(fs, "datasets/a/v/info.json"))["shape"] == [4, 6]
    document = json.loads(read(fs, f"objects/{key}")) | {"shape": [2, 6]}
    write(fs, f"objects/{key}", json.dumps(document).encode())
    assert json.loads(read(fs, "datasets/a/v/info.json"))["shape"] == [2, 6]
    chunk = read(fs, "objects/a/v/at/0/1")
    before = read(fs, "datasets/a/v/values.raw")
    write(fs, "objects/a/v/at/0/0", chunk)
    after = np.frombuffer(read(fs, "datasets/a/v/values.raw"), "<f4").reshape(2, 6)
    assert after.tobytes() != before
    np.testing.assert_array_equal(after[:, :2], after[:, 4:])


def test_what_is_not_stored_is_put_back_by_recover(
    fs: TreeFileSystem,
    store: ZMap,
    faulty: Faulty,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("not stored at its last close")
    expected_warnings.add("not stored, but kept in")
    faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"}), repeats=1000))
    with pytest.raises(AccessDenied):
        write(fs, "datasets/a/v/values.raw", np.float32(-1).tobytes(), 4, 0)
    fs.close()
    assert main(["recover", "--spool-dir", str(tmp_path / "spool")]) == 0
    with open_zmap(Prefixed(store, parse_prefix("a"))) as root:
        assert variable(root, "v")[0].tolist() == [0, -1, 2, 3, 4, 5]


@pytest.mark.parametrize(("source", "target"), [("nczarr", "toy"), ("toy", "zarr"), ("toy", "toy")])
def test_commands_copy_and_remove_it(tmp_path: Path, source: str, target: str) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    with open_url(one, "w", format=source) as root:
        root.create_dimension("y", None)
        root.create_dimension("x", 6)
        root.create_variable("v", ("y", "x"), "<f4", FIELD, chunks=(2, 4), attributes={"n": 1})
    assert main(["cp", one, other, "--format", target]) == 0
    assert main(["diff", one, other]) == 0
    assert main(["verify", other]) == 0
    assert main(["rm", "-r", "--force", other]) == 0
    assert not Path(other).exists() or os.listdir(other) == []
