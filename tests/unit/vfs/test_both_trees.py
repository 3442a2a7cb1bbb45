"""A dataset that is written in ``datasets/`` while its objects are changed in ``objects/``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore, current_thread
from typing import Any, Self

import numpy as np
import pytest

from nczfs.engine.chunks.place import Gate
from nczfs.engine.metadata.edits import Edits
from nczfs.engine.options import EngineOptions
from nczfs.errors import NczfsError, StaleHandle, StructureChanged
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects import renaming
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import ROOT, Key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import tree_over
from tests.support.writing import close, open_file, rename, unlink, write

RAW = "datasets/d.zarr/v/values.raw"
LENGTH, FILL = 8, -1
OPTIONS = EngineOptions(cache_bytes_max=0, flush_age_s=None)
BLOCKED_S = 0.2


@pytest.fixture
def store() -> GatedZMap:
    store = GatedZMap()
    make(store, "i4")
    return store


@pytest.fixture
def mounted(store: GatedZMap, tmp_path: Path) -> Iterator[Callable[[], TreeFileSystem]]:
    options = VfsOptions(
        engine=OPTIONS, read_only=False, allow_delete=True, spool_dir=tmp_path / "spool"
    )
    with ExitStack() as ends:

        def mount() -> TreeFileSystem:
            tree = tree_over(store, options)
            ends.callback(tree.close)
            return tree

        yield mount


@pytest.fixture
def fs(mounted: Callable[[], TreeFileSystem]) -> TreeFileSystem:
    return mounted()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    expected_warnings.add("but kept in")
    expected_warnings.add("; saved in")
    expected_warnings.add("not stored")


def client(store: MemoryZMap, mode: str = "r", name: str = "d.zarr") -> Any:
    return open_zmap(Prefixed(store, parse_prefix(name)), mode, options=OPTIONS)


def make(store: MemoryZMap, dtype: str) -> None:
    with client(store, "w") as root:
        root.create_dimension("x", LENGTH)
        root.create_variable("v", ("x",), dtype, chunks=(4,), fillvalue=FILL, codecs=[])


def put(fs: TreeFileSystem, handle: HandleNo, start: int, *values: int) -> None:
    fs.write(handle, 4 * start, np.array(values, "<i4").tobytes())


def fsync(fs: TreeFileSystem, handle: HandleNo) -> None:
    fs.fsync(handle, data_only=False)


def stored(store: MemoryZMap, name: str, variable: str = "v") -> list[int]:
    with client(store, name=name) as root:
        return list(map(int, root[variable][...]))


def open_written(fs: TreeFileSystem) -> HandleNo:
    """Open the values, of which one was written and stored through this handle."""
    handle = open_file(fs, RAW)
    put(fs, handle, 1, 11)
    fsync(fs, handle)
    return handle


def check_kept(fs: TreeFileSystem, handle: HandleNo, tmp_path: Path) -> None:
    """One chunk that could not be stored is in the spool. Closes the file."""
    assert len(list(tmp_path.rglob("*.unsaved"))) == 1
    with suppress(StructureChanged):
        close(fs, handle)


def keys(store: MemoryZMap) -> list[str]:
    return [str(stat.key) for stat in store.list(ROOT)]


def test_renaming_its_directory_stores_what_was_written_to_a_dataset(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O27."""
    handle = open_file(fs, RAW)
    put(fs, handle, 1, 11)
    rename(fs, "objects/d.zarr", "objects/e.zarr")
    assert stored(store, "e.zarr")[1] == 11
    close(fs, handle)


def test_what_is_written_after_its_directory_was_renamed_is_refused_and_kept(
    fs: TreeFileSystem, store: GatedZMap, tmp_path: Path
) -> None:
    """SEMANTICS O27, W22: also when the store was asked less than a second ago."""
    handle = open_written(fs)
    rename(fs, "objects/d.zarr", "objects/e.zarr")
    put(fs, handle, 2, 12)
    with pytest.raises(StructureChanged):
        fsync(fs, handle)
    assert stored(store, "e.zarr")[1:3] == [11, FILL]
    assert [key for key in keys(store) if key.startswith("d.zarr/")] == []
    check_kept(fs, handle, tmp_path)


@pytest.mark.parametrize("near", [True, False], ids=["near", "far"])
def test_nothing_of_a_dataset_is_stored_while_its_directory_is_renamed(
    store: GatedZMap,
    mounted: Callable[[], TreeFileSystem],
    threads: ThreadPoolExecutor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    near: bool,
) -> None:
    """SEMANTICS O27: what was copied before is deleted, and newer values would go with it."""
    monkeypatch.setattr(GatedZMap, "features", replace(store.features, near=near))
    fs = mounted()
    handle = open_written(fs)
    with store.stopping("delete", "d.zarr/.zgroup") as gate:
        renaming = threads.submit(rename, fs, "objects/d.zarr", "objects/e.zarr")
        assert gate.reached.wait(WAIT_S)
        put(fs, handle, 2, 12)
        syncing = threads.submit(fsync, fs, handle)
        with suppress(StillWaiting, StructureChanged):  # its metadata may be gone already
            syncing.result(BLOCKED_S)
        gate.open()
        renaming.result(WAIT_S)
        with pytest.raises(StructureChanged):
            syncing.result(WAIT_S)
    assert stored(store, "e.zarr")[1:3] == [11, FILL]
    check_kept(fs, handle, tmp_path)


class _Closed(list[str]):
    """The places for which a gate is closed."""

    any = Event()

    def __iadd__(self, others: Iterable[str]) -> Self:  # type: ignore[misc, override]
        self.extend(others)
        self.any.set()
        return self


@pytest.fixture
def far_fs(
    store: GatedZMap, at_the_gate: Semaphore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TreeFileSystem]:
    """A mount of a far store with two threads that store chunks."""
    monkeypatch.setattr(GatedZMap, "features", replace(store.features, near=False))
    engine = replace(OPTIONS, store_threads=2)
    options = VfsOptions(
        engine=engine, read_only=False, allow_delete=True, spool_dir=tmp_path / "spool"
    )
    tree = tree_over(store, options)
    yield tree
    tree.close()


@pytest.fixture
def at_the_gate(monkeypatch: pytest.MonkeyPatch) -> Semaphore:
    """Released by each thread for chunks that is about to wait, perhaps, for a rename."""
    come, inside, make = Semaphore(0), Gate.inside, Gate.__init__

    def made(self: Gate) -> None:
        make(self)
        self._closed = _Closed()

    def noted(self: Gate, place: Callable[[], str]) -> Any:
        if current_thread().name.startswith("nczfs-write"):
            come.release()
        return inside(self, place)

    _Closed.any.clear()
    monkeypatch.setattr(Gate, "__init__", made)
    monkeypatch.setattr(Gate, "inside", noted)
    return come


def test_a_rename_ends_while_all_threads_that_store_chunks_wait_for_it(
    far_fs: TreeFileSystem,
    store: GatedZMap,
    threads: ThreadPoolExecutor,
    at_the_gate: Semaphore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS A1, O27."""
    closed, may_go_on, below = Event(), Event(), renaming._below

    def stopped(*arguments: Any) -> Any:
        closed.set()
        assert may_go_on.wait(WAIT_S)
        return below(*arguments)

    handle = open_written(far_fs)
    monkeypatch.setattr(renaming, "_below", stopped)
    moving = threads.submit(rename, far_fs, "objects/d.zarr", "objects/e.zarr")
    assert closed.wait(WAIT_S)
    put(far_fs, handle, 2, 12, 13, 14, 15)
    syncing = threads.submit(fsync, far_fs, handle)
    for _ in range(2):
        assert at_the_gate.acquire(timeout=WAIT_S)
    may_go_on.set()
    moving.result(WAIT_S)
    with pytest.raises(StructureChanged):
        syncing.result(WAIT_S)
    assert stored(store, "e.zarr")[1:3] == [11, FILL]
    with suppress(StructureChanged):
        close(far_fs, handle)


def test_documents_are_stored_while_all_threads_that_store_chunks_wait_for_a_rename(
    store: GatedZMap,
    far_fs: TreeFileSystem,
    threads: ThreadPoolExecutor,
    at_the_gate: Semaphore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS A1, W15: the chunks wait for the rename, and the rename for the documents."""
    begun, may_go_on, store_all = Event(), Event(), Edits._store_all
    settled, may_close, closed = Event(), Event(), Gate.closed

    def stopped(*arguments: Any) -> Any:
        begun.set()
        assert may_go_on.wait(WAIT_S)
        return store_all(*arguments)

    def closed_later(*arguments: Any) -> Any:
        settled.set()
        assert may_close.wait(WAIT_S)
        return closed(*arguments)

    with client(store, "r+") as root:
        for name in ("g", "h"):
            root.create_group(name).attrs["a"] = 1
    handle = open_written(far_fs)
    monkeypatch.setattr(Gate, "closed", closed_later)
    moving = threads.submit(rename, far_fs, "objects/d.zarr", "objects/e.zarr")
    assert settled.wait(WAIT_S)
    for name in ("g", "h"):
        unlink(far_fs, f"datasets/d.zarr/{name}/attributes/a")
    monkeypatch.setattr(Edits, "_store_all", stopped)
    storing = threads.submit(far_fs.sync)
    assert begun.wait(WAIT_S)
    may_close.set()
    assert _Closed.any.wait(WAIT_S)
    put(far_fs, handle, 2, 12, 13, 14, 15)
    syncing = threads.submit(fsync, far_fs, handle)
    for _ in range(2):
        assert at_the_gate.acquire(timeout=WAIT_S)
    may_go_on.set()
    storing.result(WAIT_S)
    moving.result(WAIT_S)
    with pytest.raises(StructureChanged):
        syncing.result(WAIT_S)
    with client(store, name="e.zarr") as root:
        assert [list(root[name].attrs) for name in ("g", "h")] == [[], []]
    with suppress(StructureChanged):
        close(far_fs, handle)


def test_a_variable_that_was_made_anew_through_objects_gets_no_values_of_the_old_one(
    fs: TreeFileSystem, store: GatedZMap, tmp_path: Path
) -> None:
    """SEMANTICS W22: also when the store was asked less than a second ago."""
    handle = open_written(fs)
    other = MemoryZMap()
    make(other, "f4")
    for key in keys(store):
        if key.startswith("d.zarr/v/"):
            unlink(fs, f"objects/{key}")
    for stat in other.list(parse_prefix("d.zarr/v")):
        write(fs, f"objects/{stat.key}", bytes(other.read(stat.key).data))
    put(fs, handle, 2, 12)
    with pytest.raises(StructureChanged):
        fsync(fs, handle)
    with client(store) as root:
        assert root["v"].dtype == np.dtype("f4")
        assert root["v"][...].tolist() == [FILL] * LENGTH
    check_kept(fs, handle, tmp_path)


def replace_variable(store: MemoryZMap) -> None:
    """What other clients do that rename a variable, and make another one of its name."""
    other = MemoryZMap()
    make(other, "f4")
    for stat in list(store.list(parse_prefix("d.zarr/v"))):
        store.write(Key(stat.key.replace("/v/", "/w/")), store.read(stat.key).data)
        MemoryZMap.delete(store, stat.key)
    for stat in other.list(parse_prefix("d.zarr/v")):
        MemoryZMap.write(store, stat.key, other.read(stat.key).data)


def check_replaced(store: MemoryZMap) -> None:
    """The new variable has no value of the old one, whose stored values are under its new name."""
    with client(store) as root:
        assert root["v"].dtype == np.dtype("f4")
        assert root["v"][...].tolist() == [FILL] * LENGTH
        assert root["w"][...].tolist() == [FILL, 11] + [FILL] * (LENGTH - 2)


def test_what_is_written_within_a_second_after_another_client_renamed_a_variable_is_refused(
    fs: TreeFileSystem, store: GatedZMap, tmp_path: Path
) -> None:
    """SEMANTICS W89. The store is near."""
    handle = open_written(fs)
    replace_variable(store)
    put(fs, handle, 2, 12)
    with pytest.raises(StructureChanged):
        fsync(fs, handle)
    check_replaced(store)
    check_kept(fs, handle, tmp_path)


def test_a_chunk_that_was_stored_while_another_client_renamed_its_variable_is_no_chunk_of_the_next(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """SEMANTICS W89. The store is near."""
    handle = open_written(fs)
    put(fs, handle, 4, 12)
    with store.stopping("write", "d.zarr/v/1") as gate:
        syncing = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        replace_variable(store)
        gate.open()
        with pytest.raises(StructureChanged):
            syncing.result(WAIT_S)
    check_replaced(store)
    check_kept(fs, handle, tmp_path)


@pytest.mark.parametrize("step", ["d.zarr/v/.zarray", "d.zarr/v/0", "d.zarr/v/.nczfs_renaming"])
def test_a_chunk_that_is_written_in_objects_while_its_variable_is_renamed_is_not_lost(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, step: str
) -> None:
    """SEMANTICS O6, W32: closing it answers 0 only if it is in the store under the new name."""
    with client(store, "r+") as root:
        root["v"][:4] = range(4)
    handle = open_file(fs, "objects/d.zarr/v/0", os.O_RDWR)
    with store.stopping("delete", step) as gate:
        renaming = threads.submit(rename, fs, "datasets/d.zarr/v", "datasets/d.zarr/w")
        assert gate.reached.wait(WAIT_S)
        fs.write(handle, 0, np.array([99], "<i4").tobytes())
        closing = threads.submit(fs.flush, handle)
        with suppress(StillWaiting, NczfsError):
            closing.result(BLOCKED_S)
        gate.open()
        renaming.result(WAIT_S)
    try:
        closing.result(WAIT_S)
    except StaleHandle:
        expected = [0, 1, 2, 3]
    else:
        expected = [99, 1, 2, 3]
    assert stored(store, "d.zarr", "w")[:4] == expected
    assert Key("d.zarr/v/0") not in keys(store)
    fs.release(handle)
