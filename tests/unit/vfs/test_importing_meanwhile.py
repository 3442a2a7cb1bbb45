"""A held file that gets the name of its group's file while its last descriptor is closed.

The kernel says that some time after close(2).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.errors import BadArgument
from nczfs.vfs.base import HandleNo
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.heldfiles import HeldFiles
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.copies import new_url
from tests.support.trees import exists, find, read
from tests.support.writing import mkdir, split

GROUP = "datasets/d.zarr"
CDL = b"netcdf d { dimensions: x = 2; variables: int v(x); data: v = 1, 2; }"


@pytest.fixture
def fs(tmp_path: Path) -> Iterator[TreeFileSystem]:
    tree = mount_tree(new_url(), options=VfsOptions(read_only=False, spool_dir=tmp_path / "spool"))
    mkdir(tree, GROUP)
    yield tree
    tree.close()


def held(fs: TreeFileSystem, text: bytes) -> HandleNo:
    """A file with a name of its own, after close(2), of which the kernel has not told all yet."""
    opened, _ = fs.create(*split(fs, f"{GROUP}/new"), os.O_WRONLY | os.O_CREAT, 0o644)
    fs.write(opened.handle, 0, text)
    fs.flush(opened.handle)
    return opened.handle


def give_name(fs: TreeFileSystem) -> None:
    here = find(fs, GROUP).ino
    fs.rename(here, b"new", here, b"d.cdl", replace=True)


def test_a_file_that_is_closed_while_it_begins_to_be_imported_is_imported(
    fs: TreeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W78."""
    handle, place, closed = held(fs, CDL), HeldFile.place, list[HandleNo]()

    def closed_before(file: HeldFile) -> bool:
        if not closed:
            closed.append(handle)
            fs.release(handle)  # as another thread does
        return place(file)

    monkeypatch.setattr(HeldFile, "place", closed_before)
    give_name(fs)
    assert closed
    assert read(fs, f"{GROUP}/v/values.txt").split() == [b"1", b"2"]


def test_a_file_that_is_closed_while_it_is_refused_says_why(
    fs: TreeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W78."""
    handle, move, moves = held(fs, b"no CDL"), HeldFiles.move, list[str]()

    def closed_before(files: HeldFiles, *arguments: object) -> None:
        moves.append(str(arguments[1]))
        if len(moves) == 2:
            fs.release(handle)  # as another thread does
        move(files, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(HeldFiles, "move", closed_before)
    with pytest.raises(BadArgument, match=r"d\.cdl"):
        give_name(fs)
    assert moves == ["new", "d.cdl"]
    assert not exists(fs, f"{GROUP}/v")
