"""netCDF files that replace a group of an archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.fuse.test_netcdf_importing import run
from tests.fuse.test_netcdf_replacing import EXPECTED, write_field
from tests.support.netcdf import stored
from tests.support.settled import settled

OPTIONS = ("-o", "allow_replace")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_field(tmp_path / "1.nc", 1), write_field(tmp_path / "2.nc", 2, rows=80)


def make_dataset(url: str) -> None:
    """A dataset with a group; all its values are 1."""
    with nczfs.open(url, "w", consolidated=True) as root:
        for group in (root, root.create_group("below")):
            group.attrs["which"] = 1
            group.create_dimension("y", 300)
            group.create_variable("v", ("y",), data=np.ones(300, "i4"), chunks=(100,))
            group.create_variable("only_in_1", ("y",), data=np.ones(300))


def contents(url: str, path: str = "") -> tuple[int, set[int], set[str]]:
    """What is stored at and in a group, read by the library."""
    with nczfs.open(url) as root:
        group = root[path] if path else root
        assert isinstance(group, nczfs.Group)
        which = int(np.asarray(group.attrs["which"]).item())
        return which, set(np.unique(np.asarray(group["v"])).tolist()), set(group.variables)


ONE = (1, {1}, {"v", "only_in_1"})
TWO = (2, {2}, {"v", "only_in_2"})


@pytest.mark.parametrize("inside", ["", "below"])
def test_an_archive_or_a_group_in_it_is_replaced_in_one_step(
    tmp_path: Path, files: tuple[Path, Path], inside: str
) -> None:
    """SEMANTICS W74."""
    archive = tmp_path / "foo.zip"
    make_dataset(str(archive))
    short = tmp_path / "short.nc"
    short.write_bytes(files[1].read_bytes()[:-1000])
    with settled(archive, tmp_path / "spool", *OPTIONS, expect=EXPECTED) as mount:
        group = mount.path / "datasets/foo.zip" / inside
        file = group / f"{inside or 'foo'}.nc"
        before = archive.read_bytes()
        assert run("cp", short, file).returncode == 1
        assert archive.read_bytes() == before
        assert run("cp", files[1], file).returncode == 0
        with stored(file) as found:
            assert set(found.variables) == TWO[2]
        with zipfile.ZipFile(archive) as members:
            assert members.testzip() is None
            assert not [name for name in members.namelist() if "nczfs-" in name]
    assert contents(str(archive), inside) == TWO
    if inside:
        assert contents(str(archive)) == ONE
