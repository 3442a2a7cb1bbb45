"""A server that is gone, or silent, for a while: nothing that was written is lost."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.spool.space import SUFFIX
from tests.support.looking import failing_with, mounting_of, store_served
from tests.support.mounts import nczfs, served
from tests.support.places import DATASET, bucket_of
from tests.support.refusing import Relay
from tests.support.servers import S3Server
from tests.support.settled import files_in, status, wait_until
from tests.support.waiting import until

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
    """SEMANTICS A1, A6, O17, W1, W85."""
    place, spool = bucket_of(relay.server), tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    place.wait_until_older()
    options = ["--spool-dir", str(spool), "--request-timeout", "3s", "--flush-age", "200ms"]
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


def test_who_waits_during_an_outage_reads_why_and_when_the_next_attempt_is(
    relay: Relay, tmp_path: Path
) -> None:
    """SEMANTICS W85."""
    place, spool = bucket_of(relay.server), tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    options = ["--spool-dir", str(spool), "--request-timeout", "3s", "--flush-age", "1h"]
    with store_served(place.url, *options, expect=TOLD) as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        written = os.open(raw, os.O_RDWR)
        os.pwrite(written, VALUES[1].tobytes(), 0)
        relay.stop()
        command = [sys.executable, "-m", "nczfs.cli.main", "status", "--wait", str(mount.path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            lines = iter(waiting.stderr.readline, "")
            assert next(line for line in lines if "; next attempt " in line)
            relay.start()
            assert waiting.wait(60) == 0  # the mount tries again by itself, whatever --flush-age
        os.close(written)
        np.testing.assert_array_equal(place.values("v")[0], VALUES[1])


def test_a_rewrite_during_an_outage_is_kept_as_a_whole(relay: Relay, tmp_path: Path) -> None:
    """SEMANTICS W1, W5, W20."""
    place, spool = bucket_of(relay.server), tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    place.wait_until_older()
    options = ["--spool-dir", str(spool), "--request-timeout", "3s", "--flush-age", "1h"]
    options += ["--flush-timeout", "5s"]
    with store_served(place.url, *options, expect=f"{TOLD}|everything was stored") as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        with raw.open("r+b", buffering=0) as file:
            file.write(VALUES[0].tobytes())
        relay.stop()
        with failing_with(*NOT_THERE):
            raw.write_bytes((-VALUES).tobytes())
        assert raw.read_bytes() == (-VALUES).tobytes()
        wait_until(mount, unsaved_chunks=2)
    relay.start()
    np.testing.assert_array_equal(place.values("v"), VALUES)
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    np.testing.assert_array_equal(place.values("v"), -VALUES)
    assert not list(spool.glob("*"))


def test_what_is_not_stored_is_saved_soon_after_the_mount_is_told_to_end(
    relay: Relay, tmp_path: Path
) -> None:
    """SEMANTICS W20. Whoever ends a service kills it when that takes too long."""
    place, spool = bucket_of(relay.server), tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    place.wait_until_older()
    options = ["--spool-dir", str(spool), "--flush-age", "1h", "--flush-timeout", "1h"]
    command = mounting_of(place.url, *options)
    with served(command, exit_codes=None) as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        written = os.open(raw, os.O_RDWR)
        os.pwrite(written, VALUES[1].tobytes(), 0)
        relay.freeze()
        mount.process.send_signal(signal.SIGTERM)
        until(lambda: [name.endswith(SUFFIX) for name in files_in(spool)] == [True])
        assert mount.process.poll() is None, "it still tries"
        mount.process.kill()
        mount.process.wait()
        with suppress(OSError):
            os.close(written)
    relay.thaw()
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    np.testing.assert_array_equal(place.values("v")[0], VALUES[1])


@pytest.mark.parametrize("way", ["Ctrl-C", "umount"])
def test_the_end_of_a_mount_says_what_a_frozen_store_keeps_it_waiting_for(
    way: str, relay: Relay, tmp_path: Path
) -> None:
    place, spool = bucket_of(relay.server), tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    options = ["--spool-dir", str(spool), "--request-timeout", "3s", "--flush-age", "1h"]
    command = mounting_of(place.url, *options, "--flush-timeout", "8s")
    with served(command, exit_codes=None) as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        written = os.open(raw, os.O_RDWR)
        os.pwrite(written, VALUES[1].tobytes(), 0)
        relay.freeze()
        with failing_with(*NOT_THERE):
            os.fsync(written)
        with suppress(OSError):
            os.close(written)
        wait_until(mount, unsaved_chunks=1)
        ended = None
        if way == "umount":
            ended = nczfs("umount", mount.path)
        else:
            mount.process.send_signal(signal.SIGINT)
        mount.process.wait(60)
        lines = mount.log.read_text().splitlines()
    relay.thaw()
    (entry,) = spool.iterdir()
    rest = rf"what the store does not take is kept in {entry}, and `nczfs recover` puts it back"
    waiting = rf"waiting for 1 chunk \(15\.6KiB\) to be stored.*; {rest}"
    assert [line for line in lines if re.search(waiting, line)]
    assert [line for line in lines if f"1 chunk is not stored, but kept in {entry}" in line]
    if ended is not None:
        assert ended.returncode == 1
        told = ended.stderr.splitlines()
        assert re.search(rf"unmounted; for up to [\d.]+ s {waiting}", told[0])
        assert f"not everything could be stored; the rest is in {entry}" in told[-1]
