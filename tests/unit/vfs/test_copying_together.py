"""Directories that are made in a copy at the moment when a group becomes a variable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import NoSuchPath, NotPermitted
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.inodes import FIRST_OF_LAST_DIRECTORIES
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import find, listing, tree_over
from tests.support.writing import mkdir, open_file

DOCUMENT = {"shape": [6], "dtype": "<i4", "chunk_shape": [6]}


@pytest.fixture
def memory() -> GatedZMap:
    memory = GatedZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w") as root:
        root.create_dimension("x", 6)
        root.create_variable("v", ("x",), "<i4", chunks=(6,))[:] = 1
    return memory


@pytest.fixture
def fs(memory: GatedZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    options = VfsOptions(
        engine=EngineOptions(flush_age_s=None),
        read_only=False,
        spool_dir=tmp_path / "spool",
        views=frozenset({"copy"}),
        allow_delete=True,
    )
    mounted = tree_over(memory, options, "memory://store")
    yield mounted
    mounted.close()


def written(fs: TreeFileSystem) -> HandleNo:
    """A complete info.json in the new directory u, not closed yet."""
    mkdir(fs, "datasets/d.zarr/u")
    handle = open_file(fs, "datasets/d.zarr/u/info.json", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, json.dumps(DOCUMENT).encode())
    return handle


def test_no_other_dataset_waits_for_a_variable_that_is_being_made(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    handle = written(fs)
    with ThreadPoolExecutor(2) as threads, memory.stopping("write", "d.zarr/u/.zarray") as gate:
        made = threads.submit(fs.flush, handle)
        assert gate.reached.wait(WAIT_S)
        threads.submit(mkdir, fs, "datasets/e.zarr").result(WAIT_S)
        assert not made.done()
        gate.open()
        made.result(WAIT_S)
    fs.release(handle)


def test_a_directory_in_one_that_is_renamed_meanwhile_becomes_no_dataset(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    handle = written(fs)
    root, place = (find(fs, path).ino for path in ("datasets/d.zarr", "datasets/d.zarr/u"))
    with ThreadPoolExecutor(3) as threads, memory.stopping("write", "d.zarr/u/.zarray") as gate:
        made = threads.submit(fs.flush, handle)
        assert gate.reached.wait(WAIT_S)
        below = threads.submit(fs.mkdir, place, b"mask", 0o755)
        renamed = threads.submit(fs.rename, root, b"u", root, b"w", replace=False)
        gate.open()
        made.result(WAIT_S)
        renamed.result(WAIT_S)
        # Before the rename it is refused, since nothing can be declared; after that u is gone.
        assert isinstance(below.exception(WAIT_S), NoSuchPath | NotPermitted)
    fs.release(handle)
    assert set(listing(fs, "datasets/d.zarr")) >= {"v", "w"}
    assert "u" not in listing(fs, "datasets/d.zarr")


def test_directories_are_numbered_last_where_copies_are_made_alone(
    fs: TreeFileSystem, memory: GatedZMap, tmp_path: Path
) -> None:
    """`cp -r` copies in this order; programs whose numbers have 32 bits want small ones."""
    assert find(fs, "datasets/d.zarr").ino >= FIRST_OF_LAST_DIRECTORIES
    assert find(fs, "datasets/d.zarr/v/info.json").ino < FIRST_OF_LAST_DIRECTORIES
    other = tree_over(memory, VfsOptions(spool_dir=tmp_path / "other"), "memory://store")
    assert find(other, "datasets/d.zarr/v").ino < 1 << 32
    other.close()
