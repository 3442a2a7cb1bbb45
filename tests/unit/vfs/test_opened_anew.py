"""Files with values that are opened by inodes which were looked up before the store changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.errors import CodecError, NotPermitted, StaleHandle
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.trees import find, read, read_inode
from tests.support.writing import close, open_file, write

D = "datasets/d.zarr"
NETCDF = ["d.nc", "d.classic.nc"]
VALUES = np.arange(6, dtype="<f4")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = str(tmp_path / "d.zarr")
    with nczfs.open(url, "w") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t",), "<f4", data=VALUES, chunks=(2,), fillvalue=-1)
    return url


@pytest.fixture
def fs(tmp_path: Path, url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(str(tmp_path), options=VfsOptions(read_only=False))
    yield tree
    tree.close()


def test_values_and_records_that_another_program_stored_are_there_at_once(
    fs: TreeFileSystem, url: str
) -> None:
    """SEMANTICS D9."""
    ino = find(fs, f"{D}/v/values.raw").ino
    assert read_inode(fs, ino, 0, 100) == VALUES.tobytes()
    with nczfs.open(url, "r+") as root:
        root.variables["v"][:] = -VALUES
    assert read_inode(fs, ino, 0, 100) == (-VALUES).tobytes()
    with nczfs.open(url, "r+") as root:
        root.variables["v"][6:] = [7, 8]
    assert read_inode(fs, ino, 24, 100) == np.array([7, 8], "<f4").tobytes()


def test_a_variable_that_another_program_made_anew_is_looked_up_again(
    fs: TreeFileSystem, url: str
) -> None:
    """SEMANTICS D9."""
    path = f"{D}/v/values.raw"
    ino = find(fs, path).ino
    with nczfs.open(url, "w") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t",), "<f8", data=[1.5])
    with pytest.raises(StaleHandle):
        fs.open(ino, os.O_RDONLY)
    assert read(fs, path) == np.array([1.5]).tobytes()


def _title(url: str) -> None:
    with nczfs.open(url, "r+") as root:
        root.attrs["title"] = "another one"


def _records(url: str) -> None:
    with nczfs.open(url, "r+") as root:
        root.variables["v"][6:] = np.frombuffer(b"another one!", "<f4")


def _broken(url: str) -> None:
    Path(url, "v/.zarray").write_text('{"shape": "another one"}')


@pytest.mark.parametrize("change", [_title, _records, _broken])
@pytest.mark.parametrize("name", NETCDF)
def test_a_netcdf_file_whose_group_another_program_changed_is_looked_up_again(
    fs: TreeFileSystem, url: str, name: str, change: Callable[[str], None]
) -> None:
    """SEMANTICS D18: a variable that cannot be read any more is named in it."""
    before = fs.getattr(find(fs, f"{D}/{name}").ino)
    change(url)
    with pytest.raises(StaleHandle):
        fs.open(before.ino, os.O_RDONLY)
    assert find(fs, f"{D}/{name}").ino != before.ino
    if change is not _records or "classic" not in name:
        assert b"another one" in read(fs, f"{D}/{name}")


@pytest.mark.parametrize("name", NETCDF)
def test_a_netcdf_file_keeps_its_size(fs: TreeFileSystem, url: str, name: str) -> None:
    """SEMANTICS W49: nothing of it is taken before that is said."""
    shown = fs.getattr(find(fs, f"{D}/{name}").ino)
    before = read_inode(fs, shown.ino, 0, 1 << 20)
    with pytest.raises(NotPermitted):
        fs.open(shown.ino, os.O_WRONLY | os.O_TRUNC)
    for size in (0, shown.size - 1, shown.size + 1):
        with pytest.raises(NotPermitted):
            fs.setattr(shown.ino, AttributeChanges(size=size), None)
    fs.setattr(shown.ino, AttributeChanges(size=shown.size), None)
    assert read_inode(fs, shown.ino, 0, 1 << 20) == before
    with nczfs.open(url) as root:
        assert root.variables["v"][:].tolist() == VALUES.tolist()


@pytest.mark.parametrize("name", NETCDF)
def test_values_written_to_a_netcdf_file_are_stored_at_the_close_and_shown_everywhere(
    fs: TreeFileSystem, url: str, name: str
) -> None:
    """SEMANTICS W48."""
    path = f"{D}/{name}"
    dtype = ">f4" if "classic" in name else "<f4"
    wanted = [0, 1, 2, -7, 4, 5]  # a part of a chunk
    old, new = (np.array(each, dtype).tobytes() for each in (VALUES, wanted))
    shown = find(fs, path)
    place = read_inode(fs, shown.ino, 0, 1 << 20).index(old)
    handle = open_file(fs, path)
    fs.write(handle, place, new)
    assert read(fs, f"{D}/v/values.raw") == np.array(wanted, "<f4").tobytes()
    assert read_inode(fs, shown.ino, place, len(new)) == new
    close(fs, handle)
    with nczfs.open(url) as root:
        assert root.variables["v"][:].tolist() == wanted
    assert find(fs, path).mtime_ns > shown.mtime_ns


def test_a_text_shows_at_once_what_was_written_here(fs: TreeFileSystem) -> None:
    """SEMANTICS W23."""
    inode = find(fs, f"{D}/d.cdl").ino
    assert b"units" not in read_inode(fs, inode, 0, 1 << 20)
    write(fs, f"{D}/v/attributes/units", b"K")
    assert b'v:units = "K"' in read(fs, f"{D}/d.cdl")
    assert json.loads(read(fs, f"{D}/v/info.json"))["attributes"]["units"] == "K"


@pytest.mark.parametrize("name", ["v/values.raw", *NETCDF])
def test_a_file_whose_codec_is_unknown_is_not_opened_for_writing(
    fs: TreeFileSystem, url: str, name: str
) -> None:
    """Else its bytes would be refused when they are stored, after the program has ended."""
    document = Path(url, "v/.zarray")
    text = json.loads(document.read_text())
    document.write_text(json.dumps(text | {"compressor": {"id": "unknown", "level": 1}}))
    with pytest.raises(CodecError, match="unknown"):
        open_file(fs, f"{D}/{name}")
