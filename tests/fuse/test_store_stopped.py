"""A server that is gone, or silent, for a while: nothing that was written is lost."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.looking import failing_with, store_served
from tests.support.mounts import nczfs
from tests.support.places import DATASET, bucket_of
from tests.support.refusing import Relay
from tests.support.servers import S3Server
from tests.support.settled import files_in, status, wait_until

VALUES = np.arange(4000.0).reshape(40, 100)
CHUNKS = (20, 100)
OLD, NEW = b"old\n", b"new" * 20_000
TOLD = r"not stored|kept|EIO|ETIMEDOUT|no answer"
NOT_THERE = (errno.EIO, errno.ETIMEDOUT)


@pytest.fixture
def relay(ceph: S3Server) -> Iterator[Relay]:
    relay = Relay(ceph)
    relay.start()
    yield relay
    relay.stop()


@pytest.mark.parametrize("is_silent", [False, True], ids=["gone", "silent"])
@pytest.mark.parametrize("outage_s", [1, pytest.param(30, marks=pytest.mark.long)])
def test_a_server_that_comes_back_gets_all_that_was_written(
    relay: Relay, tmp_path: Path, outage_s: float, *, is_silent: bool
) -> None:
    """SEMANTICS A1, A6, O9, W1."""
    place, spool = bucket_of(relay.server), tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    options = ["--spool-dir", str(spool), "--request-timeout", "1s", "--flush-age", "200ms"]
    with store_served(place.url, *options, expect=TOLD) as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        staged_file, closed_file = mount.path / "objects/staged", mount.path / "objects/closed"
        closed_file.write_bytes(OLD)
        values = VALUES.copy()
        assert raw.read_bytes() == values.tobytes()
        written, closed = os.open(raw, os.O_RDWR), os.open(closed_file, os.O_RDWR)
        staged = os.open(staged_file, os.O_RDWR | os.O_CREAT)

        relay.freeze() if is_silent else relay.stop()
        values.reshape(-1)[1990:2010] = -1
        os.pwrite(written, values.reshape(-1)[1990:2010].tobytes(), 1990 * 8)
        os.pwrite(staged, NEW, 0)
        os.pwrite(closed, NEW, 0)
        for each in (written, staged):
            with failing_with(*NOT_THERE):
                os.fsync(each)
        with failing_with(*NOT_THERE):
            os.close(closed)
        assert os.pread(written, 160, 1990 * 8) == values.reshape(-1)[1990:2010].tobytes()
        assert os.pread(staged, len(NEW), 0) == NEW
        wait_until(mount, unsaved_chunks=2, unsaved_files=1)
        assert status(mount)["dirty_bytes"] > 0
        time.sleep(outage_s)
        wait_until(mount, unsaved_chunks=2, unsaved_files=1)

        relay.thaw() if is_silent else relay.start()
        wait_until(mount, unsaved_chunks=0)  # by itself
        np.testing.assert_array_equal(place.values("v"), values)
        os.close(staged)
        os.close(written)
        assert place.objects()["staged"] == NEW
        wait_until(mount, dirty_bytes=0, unsaved_files=0, spooled=1)
    (kept,) = files_in(spool)
    assert "closed" in kept
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    assert place.objects()["closed"] == NEW
    assert not list(spool.glob("*"))
    assert place.findings() == []
