"""Datasets that are closed because too many are open: what of them is not stored yet stays."""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import StoreError, Unavailable
from nczfs.library import known
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import ROOT_INODE, InodeNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.trees import find, read, tree_over
from tests.support.writing import close, open_file, write

NAMES = ("a.zarr", "b.zarr", "c.zarr")
DOWN = Fault(0, Unavailable, operations=frozenset({"write"}), repeats=10**9)
ATTRIBUTE = "datasets/a.zarr/attributes/turn"
RAW = "datasets/a.zarr/r/values.raw"


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    expected_warnings.add("not stored at its last close")


@pytest.fixture
def memory() -> MemoryZMap:
    memory = MemoryZMap()
    for name in NAMES:
        with open_zmap(Prefixed(memory, parse_prefix(name)), "w") as root:
            root.attrs["turn"] = 0
            root.create_dimension("t", None)
            root.create_variable("r", ("t",), "<i4", chunks=(4,), fillvalue=-1)[:2] = [1, 2]
            root.create_variable("v", (3,), "<i4", [4, 5, 6], chunks=(2,))
    return memory


@pytest.fixture
def faulty(memory: MemoryZMap) -> Faulty:
    return Faulty(memory)


@pytest.fixture
def fs(faulty: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TreeFileSystem]:
    monkeypatch.setattr(known, "DATASETS_KEPT", 1)
    options = VfsOptions(
        engine=EngineOptions(cache_bytes_max=0), read_only=False, spool_dir=tmp_path / "spool"
    )
    mounted = tree_over(faulty, options)
    yield mounted
    mounted.close()


def let_go(fs: TreeFileSystem) -> None:
    """Read other datasets, which take the place of the first one; the kernel forgets all names.

    The errors that are remembered remember no frames either, which would hold its files.
    """
    for error in gc.get_objects():
        if isinstance(error, BaseException):
            traceback.clear_frames(error.__traceback__)
    for name in NAMES[1:] * 2:
        read(fs, f"datasets/{name}/r/values.raw")
        fs.forget(
            [(InodeNo(ino), 1 << 30) for ino in list(fs.inodes._by_number) if ino != ROOT_INODE]
        )
        gc.collect()


def test_changes_that_wait_are_shown_and_stored(
    fs: TreeFileSystem, faulty: Faulty, memory: MemoryZMap
) -> None:
    """SEMANTICS W2, W34, W37."""
    faulty.arm(DOWN)
    with pytest.raises(StoreError):
        write(fs, ATTRIBUTE, b"7\n")
    handle = open_file(fs, RAW, os.O_WRONLY | os.O_APPEND)
    fs.write(handle, find(fs, RAW).size, np.array([3], "<i4").tobytes())
    with pytest.raises(StoreError):
        fs.flush(handle)
    fs.release(handle)
    let_go(fs)
    assert read(fs, ATTRIBUTE).strip() == b"7"
    assert np.frombuffer(read(fs, RAW), "<i4").tolist() == [1, 2, 3]
    read(fs, "datasets/b.zarr/r/values.raw")
    gc.collect()
    faulty.arm()
    fs.sync()
    with open_zmap(Prefixed(memory, parse_prefix(NAMES[0]))) as root:
        assert root.attrs["turn"] == 7
        assert root.variables["r"][...].tolist() == [1, 2, 3]


def test_values_that_wait_are_shown_and_stored(
    fs: TreeFileSystem, faulty: Faulty, memory: MemoryZMap
) -> None:
    """SEMANTICS W1, W2: those of a variable that does not grow wait with no change of metadata."""
    path = "datasets/a.zarr/v/values.raw"
    faulty.arm(DOWN)
    with pytest.raises(StoreError):
        write(fs, path, np.array([7], "<i4").tobytes(), 4, 0)
    let_go(fs)
    assert np.frombuffer(read(fs, path), "<i4").tolist() == [4, 7, 6]
    write_again = open_file(fs, path, os.O_WRONLY)
    fs.write(write_again, 8, np.array([8], "<i4").tobytes())
    faulty.arm()
    close(fs, write_again)
    with open_zmap(Prefixed(memory, parse_prefix(NAMES[0]))) as root:
        assert root.variables["v"][...].tolist() == [4, 7, 8]


def test_an_open_file_of_such_a_dataset_goes_on(
    fs: TreeFileSystem, faulty: Faulty, memory: MemoryZMap
) -> None:
    """SEMANTICS W2, W34."""
    handle = open_file(fs, RAW, os.O_RDWR | os.O_APPEND)
    for number in (3, 4, 5):
        fs.write(handle, find(fs, RAW).size, np.array([number], "<i4").tobytes())
        for name in NAMES[1:]:
            read(fs, f"datasets/{name}/r/values.raw")
            gc.collect()
    close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix(NAMES[0]))) as root:
        assert root.variables["r"][...].tolist() == [1, 2, 3, 4, 5]
