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
from tests.support.servers import S3Server
from tests.support.settled import settled
from tests.support.waiting import until

VALUES = np.arange(40 * 1024, dtype="i4").reshape(40, 1024)


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
