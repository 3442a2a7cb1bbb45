"""Files with values: what holds for those of a variable and for netCDF files alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.errors import NotPermitted, StaleHandle
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.trees import find
from tests.support.writing import close, open_file

D = "datasets/d.zarr"
OF_VALUES = ["v/values.raw", "v/values.npy", "v/chunks/0", "d.nc", "d.classic.nc", "v/v.nc"]
VALUES = np.arange(1, 7, dtype="<f4")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = str(tmp_path / "d.zarr")
    with nczfs.open(url, "w") as root:
        root.create_dimension("t", len(VALUES))
        root.create_variable("v", ("t",), "<f4", data=VALUES, chunks=(len(VALUES),))
    return url


@pytest.fixture
def fs(tmp_path: Path, url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(str(tmp_path), options=VfsOptions(read_only=False))
    yield tree
    tree.close()


@pytest.mark.parametrize("file", OF_VALUES)
def test_fsync_of_a_file_that_is_only_read_stores_what_others_have_written(
    fs: TreeFileSystem, url: str, file: str
) -> None:
    """SEMANTICS W1."""
    writer = open_file(fs, f"{D}/v/values.raw")
    reader = open_file(fs, f"{D}/{file}", os.O_RDONLY)
    fs.write(writer, 0, (-VALUES).tobytes()[:4])
    fs.fsync(reader, data_only=True)
    with nczfs.open(url) as root:
        assert root.variables["v"][...].tolist() == [-1, 2, 3, 4, 5, 6]
    for handle in (writer, reader):
        fs.release(handle)


@pytest.mark.parametrize("file", [*OF_VALUES, "v/values.txt", "v/info.json", "d.cdl"])
def test_modes_and_owners_cannot_be_changed_and_setting_times_succeeds(
    fs: TreeFileSystem, file: str
) -> None:
    """SEMANTICS W11: as `touch` and `tar` set them; the times are not kept."""
    ino = find(fs, f"{D}/{file}").ino
    for change in (
        AttributeChanges(mode=0o600),
        AttributeChanges(uid=1),
        AttributeChanges(gid=1),
    ):
        with pytest.raises(NotPermitted, match="modes and owners"):
            fs.setattr(ino, change, None)
    fs.setattr(ino, AttributeChanges(atime_ns=1, mtime_ns=1), None)


@pytest.mark.parametrize("file", ["v/values.raw", "d.nc", "d.classic.nc", "v/v.nc"])
def test_the_time_of_a_file_is_that_of_the_newest_document_that_it_is_made_of(
    tmp_path: Path, url: str, file: str
) -> None:
    time_ns = 1_000_000_000_000_000_000
    for number, path in enumerate(sorted(Path(url).rglob(".z*"))):
        os.utime(path, ns=(0, time_ns + number))
    fs = mount_tree(str(tmp_path))
    assert 0 <= find(fs, f"{D}/{file}").mtime_ns - time_ns < 10
    fs.close()


@pytest.mark.parametrize("file", ["values.raw", "values.npy", "values.txt", "chunks/0.0"])
@pytest.mark.parametrize("dimension", ["t", "x"])
def test_nothing_gets_to_another_element_when_a_client_changes_the_shape(
    tmp_path: Path, file: str, dimension: str
) -> None:
    """SEMANTICS D8: neither the first dimension nor a chunk moves what is there."""
    path, values = f"{D}/v/{file}", np.arange(6, dtype="<i4").reshape(2, 3)
    with nczfs.open(str(tmp_path / "d.zarr"), "w", format="zarr2") as root:
        root.create_dimension("t", 2)
        root.create_dimension("x", 3)
        root.create_variable("v", ("t", "x"), "<i4", data=values, chunks=(2, 3))
    fs = mount_tree(str(tmp_path), options=VfsOptions(read_only=False))
    handle = open_file(fs, path)
    shown = bytes(fs.read(handle, 0, 1 << 10))
    start = len(shown) - len(shown) // 2 if file == "values.txt" else len(shown) - 3 * 4
    with nczfs.open(str(tmp_path / "d.zarr"), "r+") as root:
        root.resize_dimension(dimension, 4)
    fs.refresh(f"{D}/v")
    find(fs, path)
    if dimension == "x" and file != "chunks/0.0":
        with pytest.raises(StaleHandle):
            fs.write(handle, start, shown[: len(shown) - start])
        with pytest.raises(StaleHandle):
            fs.read(handle, 0, 1)
    else:
        fs.write(handle, start, shown[start:])
        assert bytes(fs.read(handle, start, len(shown) - start)) == shown[start:]
    close(fs, handle)
    fs.close()
    with nczfs.open(str(tmp_path / "d.zarr")) as root:
        assert np.array_equal(root.variables["v"][:2, :3], values)
