"""netCDF files that programs put into a group of a mounted bucket of a real server."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from tests.fuse.test_netcdf_importing import REFUSED, members, run
from tests.support.looking import failing_with
from tests.support.netcdf import stored
from tests.support.refusing import small_disk
from tests.support.servers import Faults, S3Server
from tests.support.settled import settled
from tests.support.waiting import until

VALUES = np.arange(40 * 1024, dtype="i4").reshape(40, 1024)
SPOOL_MIB = 2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "new.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as dataset:
        dataset.createDimension("y", None)
        dataset.createDimension("x", 1024)
        dataset.createVariable("v", "i4", ("y", "x"))[:] = VALUES
    return path


def keys_in(server: S3Server, bucket: str) -> set[str]:
    client = server.client()
    found = client.list_objects_v2(Bucket=bucket)
    client.close()
    return {each["Key"] for each in found.get("Contents", [])}


def test_a_file_becomes_a_group_of_a_bucket_whole_or_not_at_all(
    tmp_path: Path, file: Path, swift: S3Server
) -> None:
    """SEMANTICS W50, W49."""
    bucket = swift.new_bucket()
    with settled(swift.url(bucket), tmp_path / "spool", expect=REFUSED) as mount:
        group = mount.path / "datasets/foo.zarr"
        group.mkdir()
        empty = keys_in(swift, bucket)
        short = tmp_path / "short.nc"
        short.write_bytes(file.read_bytes()[:-2000])
        assert run("cp", short, group / "foo.nc").returncode == 1
        until(lambda: not members(group))
        assert keys_in(swift, bucket) == empty
        assert run("cp", file, group / "foo.nc").returncode == 0
        with stored(group / "foo.nc") as shown:
            np.testing.assert_array_equal(shown["v"][:], VALUES)
        whole = keys_in(swift, bucket)
        assert not [key for key in whole if "nczfs_" in key]
        with failing_with(errno.EPERM):
            os.open(group / "foo.nc", os.O_WRONLY | os.O_TRUNC)
        assert run("cp", file, group / "foo.nc").returncode == 1
        assert keys_in(swift, bucket) == whole


def test_a_file_comes_whole_or_not_at_all_by_a_small_spool_and_a_store_that_refuses(
    tmp_path: Path, file: Path, swift_with_faults: Faults
) -> None:
    """SEMANTICS W50, W61, W62."""
    server = swift_with_faults.server
    bucket = server.new_bucket()
    spool = tmp_path / "disk/spool"
    vast = tmp_path / "vast.nc"
    with netCDF4.Dataset(vast, "w", format="NETCDF3_CLASSIC") as dataset:
        dataset.createDimension("x", SPOOL_MIB << 20)
        dataset.createVariable("v", "i1", ("x",))[:] = 1
    changed = tmp_path / "changed.nc"
    changed.write_bytes(file.read_bytes())
    with netCDF4.Dataset(changed, "r+") as dataset:
        dataset["v"][:] += 1
    options = ("-o", "allow_replace,import_chunks=y=4")
    with (
        small_disk(tmp_path / "disk", SPOOL_MIB),
        settled(server.url(bucket), spool, *options, expect=".") as mount,
    ):
        group = mount.path / "datasets/foo.zarr"
        group.mkdir()
        empty = keys_in(server, bucket)
        assert "No space left" in run("cp", vast, group / "foo.nc").stderr
        swift_with_faults.set("status:403 PUT path=/v/ skip=4 first=1")
        assert run("cp", file, group / "foo.nc").returncode == 1
        assert len(swift_with_faults.log()) == 1
        until(lambda: not members(group))
        assert keys_in(server, bucket) == empty
        assert run("cp", file, group / "foo.nc").returncode == 0
        whole = keys_in(server, bucket)
        swift_with_faults.set("status:403 PUT path=/v/ skip=4 first=1")
        assert run("cp", changed, group / "foo.nc").returncode == 1
        assert len(swift_with_faults.log()) == 1
        assert keys_in(server, bucket) == whole
        with stored(group / "foo.nc") as shown:
            np.testing.assert_array_equal(shown["v"][:], VALUES)
