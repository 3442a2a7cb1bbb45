"""netCDF files that replace a group of a bucket, or a dataset that is mounted itself."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import nczfs
from tests.fuse.test_netcdf_importing import run
from tests.fuse.test_netcdf_importing_s3 import keys_in
from tests.fuse.test_netcdf_replacing import EXPECTED, write_field
from tests.fuse.test_netcdf_replacing_stores import (
    ONE,
    OPTIONS,
    TWO,
    contents,
    files,
    make_dataset,
)
from tests.support.looking import mounting_of, store_served
from tests.support.mounts import served
from tests.support.netcdf import stored
from tests.support.servers import Faults, S3Server
from tests.support.settled import settled
from tests.support.waiting import until
from tests.support.zarrs3 import of_zarr_python

__all__ = ["files"]


@pytest.mark.parametrize(
    ("inside", "is_mounted_itself"),
    [("", False), ("", True), pytest.param("below", False, marks=pytest.mark.long)],
)
def test_a_group_of_a_bucket_is_replaced(
    tmp_path: Path,
    files: tuple[Path, Path],
    swift: S3Server,
    inside: str,
    *,
    is_mounted_itself: bool,
) -> None:
    """SEMANTICS W61, W63."""
    bucket = swift.new_bucket()
    make_dataset(swift.url(bucket, "foo.zarr"))
    make_dataset(swift.url(bucket, "beside.zarr"))
    short = tmp_path / "short.nc"
    short.write_bytes(files[1].read_bytes()[:-1000])
    url = swift.url(bucket, "foo.zarr" if is_mounted_itself else "")
    with settled(url, tmp_path / "spool", *OPTIONS, expect=EXPECTED) as mount:
        group = mount.path / "datasets/foo.zarr" / inside
        file = group / f"{inside or 'foo'}.nc"
        before = keys_in(swift, bucket)
        assert run("cp", short, file).returncode == 1
        assert keys_in(swift, bucket) == before
        assert run("cp", files[1], file).returncode == 0
        with stored(file) as found:
            assert set(found.variables) == TWO[2]
        assert not [key for key in keys_in(swift, bucket) if "replacing" in key]
    assert contents(swift.url(bucket, "foo.zarr"), inside) == TWO
    assert contents(swift.url(bucket, "beside.zarr")) == ONE
    with nczfs.open(swift.url(bucket, "foo.zarr")) as root:
        assert root.problems == ()
    if inside:
        assert contents(swift.url(bucket, "foo.zarr")) == ONE


def test_zarr_python_never_reads_a_mixture(
    tmp_path: Path, files: tuple[Path, Path], swift: S3Server
) -> None:
    """SEMANTICS W75."""
    bucket = swift.new_bucket()
    make_dataset(swift.url(bucket, "foo.zarr"))
    store = of_zarr_python(swift, bucket)
    seen: list[object] = [None]
    ended = threading.Event()

    def documents() -> list[bytes | None]:
        prototype = default_buffer_prototype()
        names = (".zgroup", ".zattrs", "v/.zarray")
        found = [sync(store.get(f"foo.zarr/{name}", prototype)) for name in names]
        return [None if each is None else each.to_bytes() for each in found]

    def read() -> object:
        """What is read, if the documents are the same before and afterwards."""
        before = documents()
        if None in before:
            return "absent"
        try:
            group = zarr.open_group(
                store, path="foo.zarr", mode="r", zarr_format=2, use_consolidated=False
            )
            values = set(np.unique(np.asarray(group["v"])).tolist())
            found: object = int(str(group.attrs["which"])), values
        except (KeyError, FileNotFoundError) as error:
            found = error
        return found if documents() == before else "replaced meanwhile"

    def look() -> None:
        while not ended.is_set():
            seen.append(read())

    def is_read(which: int) -> bool:
        return seen[-1] == (which, {which})

    reader = threading.Thread(target=look)
    with settled(swift.url(bucket), tmp_path / "spool", *OPTIONS, expect=EXPECTED) as mount:
        reader.start()
        try:
            for which in (2, 1, 2):
                file = files[which - 1]
                assert run("cp", file, mount.path / "datasets/foo.zarr/foo.nc").returncode == 0
                until(partial(is_read, which))
        finally:
            ended.set()
            reader.join()
    rest = [each for each in seen[1:] if each not in ((1, {1}), (2, {2}))]
    assert {*map(str, rest)} <= {"absent", "replaced meanwhile"}


def record_in(server: S3Server, bucket: str) -> object:
    """What the store says of a replacement."""
    client = server.client()
    try:
        body = client.get_object(Bucket=bucket, Key="foo.zarr/.nczfs_replacing")["Body"].read()
    except client.exceptions.NoSuchKey:
        return None
    finally:
        client.close()
    return json.loads(body)["complete"]


@pytest.mark.parametrize("is_complete", [False, True])
def test_the_next_mount_completes_what_a_killed_one_has_left(
    tmp_path: Path, swift_with_faults: Faults, *, is_complete: bool
) -> None:
    """SEMANTICS W76."""
    swift = swift_with_faults.server
    bucket = swift.new_bucket()
    make_dataset(swift.url(bucket, "foo.zarr"))
    large = write_field(tmp_path / "2.nc", 2, rows=240)
    spool = ("--spool-dir", str(tmp_path / "spool"))
    mounting = mounting_of(swift.url(bucket), *OPTIONS, *spool)
    with served(mounting, expect=".", exit_codes=None) as mount:
        file = mount.path / "datasets/foo.zarr/foo.nc"
        place = r"/foo\.zarr/v/" if is_complete else "new/v/"
        swift_with_faults.set(f"status:503 PUT path={place} skip=1")
        copying = threading.Thread(target=run, args=("cp", large, file))
        copying.start()
        try:
            if is_complete:
                until(lambda: record_in(swift, bucket) == "")
            else:
                until(lambda: any("new/v/" in key for key in keys_in(swift, bucket)))
        finally:
            mount.process.send_signal(signal.SIGKILL)
            copying.join()
            mount.process.wait()
            swift_with_faults.wait_for_ended()
            swift_with_faults.set()
    assert any("replacing" in key for key in keys_in(swift, bucket))
    if not is_complete:
        assert contents(swift.url(bucket, "foo.zarr")) == ONE
    with store_served(swift.url(bucket), "--metadata-ttl", "1", *spool, expect=".") as mount:
        group = mount.path / "datasets/foo.zarr"
        with suppress(OSError):
            os.listdir(group)
        until(lambda: not [key for key in keys_in(swift, bucket) if "replacing" in key])
        until(lambda: (group / "foo.nc").exists())
        with stored(group / "foo.nc") as found:
            assert int(found.which) == (2 if is_complete else 1)
    assert contents(swift.url(bucket, "foo.zarr")) == (TWO if is_complete else ONE)


def test_a_mount_goes_on_when_the_store_takes_the_new_content_again(
    tmp_path: Path, files: tuple[Path, Path], swift_with_faults: Faults
) -> None:
    """SEMANTICS W76."""
    server = swift_with_faults.server
    bucket = server.new_bucket()
    make_dataset(server.url(bucket, "foo.zarr"))
    options = (*OPTIONS, "--metadata-ttl", "1")
    with settled(server.url(bucket), tmp_path / "spool", *options, expect=".") as mount:
        group = mount.path / "datasets/foo.zarr"
        swift_with_faults.set(r"status:403 PUT path=/foo\.zarr/v/")
        try:
            done = run("cp", files[1], group / "foo.nc")
            assert (done.returncode, "Input/output error" in done.stderr) == (1, True)
            assert record_in(server, bucket) == ""
        finally:
            swift_with_faults.set()
        until(lambda: (group / "foo.nc").exists())
        until(lambda: not [key for key in keys_in(server, bucket) if "replacing" in key])
        with stored(group / "foo.nc") as found:
            assert set(found.variables) == TWO[2]
    assert contents(server.url(bucket, "foo.zarr")) == TWO
