"""Values that the store does not take: kept, shown, spooled, and put back."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.cli.main import main
from nczfs.errors import AccessDenied, StoreError, StructureChanged, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.trees import read
from tests.support.writing import close, open_file, rename

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
V = "datasets/a.zarr/v/values.raw"
_stores = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory://unsaved{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    put_group(store, "a.zarr")
    put_array(store, "a.zarr/v", FIELD, (2, 4), dimensions=("y", "x"))
    return store


@pytest.fixture
def faulty(store: ZMap) -> Faulty:
    return Faulty(store)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def fs(faulty: Faulty, url: str, spool: Path) -> Iterator[TreeFileSystem]:
    def opened(*_: object) -> ZMap:
        return faulty

    with mock.patch("nczfs.vfs.tree.open_store", opened):
        tree = mount_tree(url, options=VfsOptions(read_only=False, spool_dir=spool))
    yield tree
    tree.close()


def stored(store: ZMap) -> Values:
    with open_zmap(Prefixed(store, parse_prefix("a.zarr"))) as root:
        return np.array(root.variables["v"][...])


def entries(spool: Path) -> list[Path]:
    return sorted(spool.glob("*/*.unsaved"))


def refuse(faulty: Faulty, error: type[StoreError]) -> None:
    faulty.arm(Fault(0, error, operations=frozenset({"write"}), repeats=1000))


@pytest.mark.parametrize(("error", "spooled"), [(AccessDenied, 1), (Unavailable, 0)])
def test_what_could_not_be_stored_is_kept_and_shown_until_it_is(
    fs: TreeFileSystem,
    store: ZMap,
    faulty: Faulty,
    spool: Path,
    error: type[StoreError],
    spooled: int,
) -> None:
    """SEMANTICS W85, W20."""
    handle = open_file(fs, V)
    fs.write(handle, 4, np.float32(-1).tobytes())
    refuse(faulty, error)
    for _ in range(2):
        with pytest.raises(error):
            fs.fsync(handle, data_only=False)
    wanted = FIELD.copy()
    wanted[0, 1] = -1
    assert read(fs, V) == wanted.tobytes()
    assert stored(store)[0, 1] == 1
    assert len(entries(spool)) == spooled
    assert json.loads(read(fs, ".nczfs/status.json"))["unsaved_chunks"] == 1
    faulty.arm()
    fs.fsync(handle, data_only=False)
    np.testing.assert_array_equal(stored(store), wanted)
    assert entries(spool) == []
    status = json.loads(read(fs, ".nczfs/status.json"))
    assert (status["unsaved_chunks"], status["dirty_bytes"], status["spool_used_bytes"]) == (
        0,
        0,
        0,
    )
    close(fs, handle)


def status(fs: TreeFileSystem) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(fs, ".nczfs/status.json"))
    return found


def test_the_last_error_of_an_attribute_is_known_until_it_is_stored(
    fs: TreeFileSystem, faulty: Faulty
) -> None:
    handle = open_file(fs, "datasets/a.zarr/v/attributes/units", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"K")
    refuse(faulty, Unavailable)
    with pytest.raises(Unavailable) as raised:
        fs.flush(handle)
    found = status(fs)
    assert (found["unsaved_metadata"], found["last_error"]) == (1, str(raised.value))
    faulty.arm()
    fs.flush(handle)
    found = status(fs)
    assert (found["unsaved_metadata"], found["last_error"]) == (0, None)
    fs.release(handle)


def test_the_last_error_of_an_attribute_that_was_discarded_is_not_shown(
    fs: TreeFileSystem, faulty: Faulty
) -> None:
    """SEMANTICS W27."""
    handle = open_file(fs, "datasets/a.zarr/v/attributes/units", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"K")
    refuse(faulty, AccessDenied)
    with pytest.raises(AccessDenied):
        close(fs, handle)
    found = status(fs)
    assert (found["unsaved_metadata"], found["last_error"]) == (0, None)


@pytest.mark.parametrize("error", [AccessDenied, Unavailable])
def test_the_last_error_of_an_object_is_known_until_it_is_stored(
    fs: TreeFileSystem, faulty: Faulty, error: type[StoreError]
) -> None:
    handle = open_file(fs, "objects/file", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"K")
    refuse(faulty, error)
    with pytest.raises(error) as raised:
        fs.fsync(handle, data_only=False)
    found = status(fs)
    assert (found["unsaved_files"], found["last_error"]) == (1, str(raised.value))
    assert found["next_attempt_s"] is None
    faulty.arm()
    fs.fsync(handle, data_only=False)
    assert (status(fs)["unsaved_files"], status(fs)["last_error"]) == (0, None)
    close(fs, handle)


def test_the_last_error_of_several_objects_is_the_newest(
    fs: TreeFileSystem, faulty: Faulty
) -> None:
    handles = [open_file(fs, f"objects/{name}", os.O_WRONLY | os.O_CREAT) for name in "ab"]
    for handle in handles:
        fs.write(handle, 0, b"new")
    for number in (0, 1, 0):
        faulty.arm(Fault(0, operations=frozenset({"write"})))
        with pytest.raises(Unavailable) as raised:
            fs.fsync(handles[number], data_only=False)
        assert status(fs)["last_error"] == str(raised.value)
    for handle in handles:
        close(fs, handle)


def test_what_is_left_at_the_end_is_put_into_what_others_stored_since_by_force_alone(
    fs: TreeFileSystem,
    store: ZMap,
    faulty: Faulty,
    spool: Path,
    expected_warnings: ExpectedWarnings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """SEMANTICS W20."""
    expected_warnings.add("1 chunk is not stored, but kept in")
    expected_warnings.add("not stored at its last close")
    handle = open_file(fs, V)
    fs.write(handle, 4, np.float32(-1).tobytes())
    refuse(faulty, Unavailable)
    with pytest.raises(Unavailable):
        close(fs, handle)
    fs.close()
    assert len(entries(spool)) == 1
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "r+") as root:
        root.variables["v"][0, 0] = 77
    assert main(["recover", "--list", "--spool-dir", str(spool)]) == 0
    assert "a.zarr/v[0:1, 1:2]: unsaved" in capsys.readouterr().out
    assert stored(store)[0, 1] == 1
    assert main(["recover", "--spool-dir", str(spool)]) == 1
    assert "1 elements differ, the first at [0, 1]" in capsys.readouterr().out
    assert stored(store)[0, 1] == 1
    assert main(["recover", "--force", "--spool-dir", str(spool)]) == 0
    assert "a.zarr/v[0:1, 1:2]: stored" in capsys.readouterr().out
    wanted = FIELD.copy()
    wanted[0, :2] = 77, -1
    np.testing.assert_array_equal(stored(store), wanted)
    assert os.listdir(spool) == []


def test_a_rename_that_failed_is_ended_by_recover(
    fs: TreeFileSystem, store: ZMap, faulty: Faulty, spool: Path
) -> None:
    """SEMANTICS O11."""
    faulty.arm(Fault(1, operations=frozenset({"write_parts", "copy"}), repeats=1000))
    with pytest.raises(Unavailable):
        rename(fs, "objects/a.zarr", "objects/b.zarr")
    fs.close()
    assert main(["recover", "--spool-dir", str(spool)]) == 0
    keys = [stat.key for stat in store.list(parse_prefix(""))]
    assert [key for key in keys if key.startswith("a.zarr")] == []
    with open_zmap(Prefixed(store, parse_prefix("b.zarr"))) as root:
        np.testing.assert_array_equal(root.variables["v"][...], FIELD)


def made_smaller(store: ZMap) -> None:
    put_array(store, "a.zarr/v", FIELD, (2, 2), dimensions=("y", "x"))


def made_of_another_type(store: ZMap) -> None:
    put_array(store, "a.zarr/v", FIELD.view("<i4"), (2, 4), dimensions=("y", "x"))


def compressed(store: ZMap) -> None:
    key = parse_key("a.zarr/v/.zarray")
    document = json.loads(bytes(store.read(key).data))
    document["compressor"] = {"id": "zlib", "level": 1}
    store.write(key, json.dumps(document).encode())


def removed(store: ZMap) -> None:
    store.delete_many([stat.key for stat in store.list(parse_prefix("a.zarr/v"))])


@pytest.mark.parametrize("size", [4, 32], ids=["an element", "a whole row of two chunks"])
@pytest.mark.parametrize("change", [made_smaller, made_of_another_type, compressed, removed])
def test_what_is_written_to_a_variable_that_was_made_anew_does_not_reach_the_new_one(
    fs: TreeFileSystem,
    store: ZMap,
    spool: Path,
    expected_warnings: ExpectedWarnings,
    tmp_path: Path,
    change: Callable[[ZMap], None],
    size: int,
) -> None:
    """SEMANTICS W20, W22, W90."""
    expected_warnings.add("another client has removed or replaced it")
    handle = open_file(fs, V)
    fs.read(handle, 0, 96)
    change(store)
    before = {stat.key: bytes(store.read(stat.key).data) for stat in store.list(parse_prefix(""))}
    fs.write(handle, 4, bytes(size))
    for _ in range(2):
        with pytest.raises(StructureChanged):
            fs.fsync(handle, data_only=False)
    with pytest.raises(StructureChanged):
        fs.write(handle, 4, bytes(size))
    with pytest.raises(StructureChanged):
        fs.flush(handle)
    fs.release(handle)
    after = {stat.key: bytes(store.read(stat.key).data) for stat in store.list(parse_prefix(""))}
    assert after == before
    fs.close()
    exported = tmp_path / "exported"
    exported.mkdir()
    assert main(["recover", "--spool-dir", str(spool), "--export", str(exported)]) == 0
    written = [np.load(path) for path in exported.iterdir()]
    assert sum(int(chunk["written"].sum()) for chunk in written) == size // 4
    assert all((chunk["value"][chunk["written"]] == 0).all() for chunk in written)


def test_a_variable_that_was_made_anew_can_be_opened_and_written(
    fs: TreeFileSystem, store: ZMap, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W90."""
    expected_warnings.add("another client has removed or replaced it")
    handle = open_file(fs, V)
    made_smaller(store)
    fs.write(handle, 4, bytes(4))
    with pytest.raises(StructureChanged):
        fs.flush(handle)
    fs.release(handle)
    handle = open_file(fs, V)
    fs.write(handle, 4, np.float32(-1).tobytes())
    close(fs, handle)
    assert stored(store)[0, :3].tolist() == [0, -1, 2]


def test_a_chunk_whose_answer_was_lost_is_stored_again(
    fs: TreeFileSystem, faulty: Faulty, store: ZMap, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W70. Nothing in the store says whether the other client had read the first one."""
    expected_warnings.add("tried again")
    handle = open_file(fs, V)
    faulty.arm(Fault(0, Unavailable, after=True, operations=frozenset({"write"}), repeats=10**9))
    fs.write(handle, 0, (FIELD + 100).tobytes())
    with pytest.raises(StoreError):
        fs.fsync(handle, data_only=False)
    assert stored(store)[0, 0] == 100
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "r+") as root:
        root.variables["v"][0, 0] = 7
    faulty.arm()
    fs.fsync(handle, data_only=False)
    np.testing.assert_array_equal(stored(store), FIELD + 100)
    close(fs, handle)
