"""Directories that are made in a copy at the moment when a group becomes a variable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import BadArgument, NoSuchPath, NotPermitted
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import HandleNo
from nczfs.vfs.datasets.arrivals import Arrivals
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.inodes import FIRST_OF_LAST_DIRECTORIES
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import exists, find, listing, read, tree_over
from tests.support.writing import close, mkdir, open_file, rename, write

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


VALUES = np.arange(6, dtype="<i4")
U = "datasets/d.zarr/u"


def values_in(memory: GatedZMap) -> list[int]:
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        found: list[int] = np.asarray(root["u"]).tolist()
    return found


def test_values_get_their_name_while_their_group_becomes_a_variable(
    fs: TreeFileSystem, memory: GatedZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = written(fs)
    write(fs, f"{U}/.values.raw.A1b2C3", VALUES.tobytes(), flags=os.O_CREAT | os.O_WRONLY)
    move = Arrivals.move

    def move_later(*arguments: Any) -> None:
        """The group was looked up, and has become a variable before its values are renamed."""
        monkeypatch.undo()
        close(fs, handle)
        move(*arguments)

    monkeypatch.setattr(Arrivals, "move", move_later)
    rename(fs, f"{U}/.values.raw.A1b2C3", f"{U}/values.raw")
    fs.sync()
    assert values_in(memory) == VALUES.tolist()
    assert read(fs, f"{U}/values.raw") == VALUES.tobytes()


def test_values_that_do_not_fit_keep_their_name_until_then(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    close(fs, written(fs))
    write(fs, f"{U}/.values.raw.A1b2C3", b"four", flags=os.O_CREAT | os.O_WRONLY)
    with pytest.raises(BadArgument, match="4 bytes were written, and it has 24"):
        rename(fs, f"{U}/.values.raw.A1b2C3", f"{U}/values.raw")
    assert read(fs, f"{U}/.values.raw.A1b2C3") == b"four"
    assert not exists(fs, f"{U}/values.raw")


@pytest.mark.parametrize("is_told", [True, False])
def test_values_are_written_whether_their_last_close_is_known_or_not(
    fs: TreeFileSystem, memory: GatedZMap, *, is_told: bool
) -> None:
    """The kernel tells of it after close has returned, and maybe after the next call."""
    handle = written(fs)
    values = open_file(fs, f"{U}/values.raw", os.O_CREAT | os.O_WRONLY)
    fs.write(values, 0, VALUES.tobytes())
    fs.flush(values)
    if is_told:
        fs.release(values)
    close(fs, handle)
    if not is_told:
        fs.release(values)
    fs.sync()
    assert values_in(memory) == VALUES.tolist()
    assert read(fs, f"{U}/values.raw") == VALUES.tobytes()


def test_values_that_are_still_written_to_come_with_their_close(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    handle = written(fs)
    values = open_file(fs, f"{U}/values.raw", os.O_CREAT | os.O_WRONLY)
    fs.write(values, 0, VALUES.tobytes()[:8])
    fs.flush(values)  # of a descriptor that was copied
    close(fs, handle)
    fs.write(values, 8, VALUES.tobytes()[8:])
    close(fs, values)
    fs.sync()
    assert values_in(memory) == VALUES.tolist()
