"""Files that were refused by an empty group, and programs that try again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nczfs.errors import BadArgument, StaleHandle
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.trees import exists, find
from tests.support.writing import mkdir, open_file, split

GROUP = "datasets/d.zarr"


def test_who_opens_a_file_that_was_refused_meanwhile_looks_it_up_again(tmp_path: Path) -> None:
    """SEMANTICS W78."""
    fs = mount_tree(
        "memory://refused", options=VfsOptions(read_only=False, spool_dir=tmp_path / "spool")
    )
    mkdir(fs, GROUP)
    opened, _ = fs.create(*split(fs, f"{GROUP}/d.nc"), os.O_WRONLY | os.O_CREAT, 0o644)
    fs.write(opened.handle, 0, b"no netCDF file")
    with pytest.raises(BadArgument):
        fs.flush(opened.handle)
    known = find(fs, f"{GROUP}/d.nc").ino
    fs.remember(known)
    fs.release(opened.handle)
    for flags in (os.O_WRONLY | os.O_TRUNC, os.O_WRONLY, os.O_RDONLY):
        with pytest.raises(StaleHandle):
            fs.open(known, flags)
    assert not exists(fs, f"{GROUP}/d.nc")
    again = open_file(fs, f"{GROUP}/d.nc", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    fs.release(again)
    fs.close()
    assert not list((tmp_path / "spool").glob("*"))
