"""Which inode a netCDF file has when its group changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nczfs
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.trees import find, listing


def test_a_listing_does_not_give_the_inode_of_a_file_to_another_version(tmp_path: Path) -> None:
    """SEMANTICS D18."""
    url = str(tmp_path / "d.zarr")
    with nczfs.open(url, "w") as root:
        root.create_dimension("x", 4)
        root.create_variable("v", ("x",), data=np.arange(4.0))
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    before = fs.getattr(find(fs, "datasets/d.zarr/d.classic.nc").ino)
    listing(fs, "datasets/d.zarr")
    with nczfs.open(url, "r+") as root:
        root.create_variable("w", ("x",), data=np.arange(4.0))
    fs.refresh("")
    assert fs.getattr(before.ino).size == before.size
    after = find(fs, "datasets/d.zarr/d.classic.nc")
    assert after.ino != before.ino
    assert after.size > before.size
    fs.close()
