"""The end of a mount says what the store did not take, and what of it is lost."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import nczfs as library
from tests.support.looking import failing_with, mounting_of
from tests.support.mounts import NCZFS, Served, nczfs, served, wait_until_ended
from tests.support.places import DATASET, Place, bucket_of
from tests.support.refusing import Relay
from tests.support.servers import Faults, S3Server
from tests.support.settled import files_in, status, wait_until

VALUES = np.arange(100, dtype="<f8")
LATER = ("--flush-age", "1h")
SILENT = ("--request-timeout", "4s", "--flush-timeout", "5s")
DENIED = ".*(denied|403)"
NOT_THERE = (errno.EIO, errno.ETIMEDOUT)


@pytest.fixture
def faults(ceph_with_faults: Faults) -> Iterator[Faults]:
    ceph_with_faults.set()
    yield ceph_with_faults
    ceph_with_faults.set()


@pytest.fixture
def place(faults: Faults) -> Place:
    place = bucket_of(faults.server)
    with library.open(place.url_of(DATASET), "w", consolidated=True) as root:
        root.attrs["title"] = "t"
        root.create_dimension("t", None)
        root.create_dimension("x", 100)
        root.create_variable("r", ("t",), "<f8", VALUES[:2], chunks=(8,))
        root.create_variable("v", ("x",), "<f8", VALUES, attributes={"units": "K"})
    place.wait_until_older()
    return place


def ended(mount: Served) -> tuple[int, str]:
    """The exit status of `nczfs umount`, and what it says."""
    done = nczfs("umount", mount.path)
    assert wait_until_ended(mount.process) == done.returncode
    return done.returncode, done.stderr


def write_attribute(mount: Served) -> None:
    with failing_with(errno.EACCES):
        (mount.path / "datasets" / DATASET / "v/attributes/units").write_text("m")


def remove_attribute(mount: Served) -> None:
    (mount.path / "datasets" / DATASET / "v/attributes/units").unlink()


@pytest.mark.parametrize(
    ("rule", "change", "lost"),
    [
        ("zattrs", write_attribute, rf"d\.zarr/v: attribute 'units': {DENIED}"),
        (
            "zattrs",
            remove_attribute,
            rf"d\.zarr/v: the removal of attribute 'units': {DENIED}",
        ),
        (
            "zmetadata",
            write_attribute,
            rf"d\.zarr/\.zmetadata: the consolidated metadata may lack changes: {DENIED}",
        ),
    ],
    ids=["attribute", "removal", "copy"],
)
@pytest.mark.parametrize("way", ["umount", "SIGTERM"])
def test_a_change_of_metadata_that_was_refused_is_said_at_the_end(
    way: str,
    rule: str,
    change: Callable[[Served], None],
    lost: str,
    faults: Faults,
    place: Place,
    tmp_path: Path,
) -> None:
    """SEMANTICS N6, W15."""
    spool = tmp_path / "spool"
    options = ["--spool-dir", str(spool), "-o", "allow_delete", *LATER]
    with served(mounting_of(place.url, *options), exit_codes=None) as mount:
        faults.set(f"status:403 PUT path={rule}")
        change(mount)
        if way == "umount":
            code, said = ended(mount)
            assert re.search(rf"not everything could be stored; lost: [^;]*{lost}", said)
        else:
            mount.process.send_signal(signal.SIGTERM)
            code = wait_until_ended(mount.process)
        assert code == 1
        assert re.search(rf"CRITICAL .*lost: .*{lost}", mount.log.read_text())
    assert not list(spool.glob("*"))


def test_what_was_stored_after_all_is_not_said(
    faults: Faults, place: Place, tmp_path: Path
) -> None:
    """SEMANTICS N6."""
    options = ["--spool-dir", str(tmp_path / "spool"), "-o", "allow_delete", *LATER]
    with served(mounting_of(place.url, *options), exit_codes=None) as mount:
        faults.set("status:403 PUT path=zattrs")
        write_attribute(mount)
        faults.set()
        (mount.path / "datasets" / DATASET / "v/attributes/units").write_text("m")
        assert ended(mount) == (0, "")
    assert b'"m"' in place.objects()[f"{DATASET}/v/.zattrs"]


def test_what_is_kept_and_what_is_lost_are_told_apart(
    faults: Faults, place: Place, tmp_path: Path
) -> None:
    """SEMANTICS N6, W15."""
    spool = tmp_path / "spool"
    options = ["--spool-dir", str(spool), *LATER, *SILENT]
    with served(mounting_of(place.url, *options), exit_codes=None) as mount:
        dataset = mount.path / "datasets" / DATASET
        (dataset / "attributes/title").write_text("what the store can do is known now")
        faults.set("status:503 PUT path=/[rv]/")
        with failing_with(*NOT_THERE):
            (dataset / "v/attributes/units").write_text("m")
        values = os.open(dataset / "v/values.raw", os.O_RDWR)
        os.pwrite(values, VALUES[::-1].tobytes(), 0)
        with suppress(OSError):
            os.close(values)
        wait_until(mount, unsaved_chunks=1, unsaved_metadata=1)
        entry = status(mount)["spool"]
        code, said = ended(mount)
    faults.set()
    assert code == 1
    kept = rf"kept in {entry}, from where `nczfs recover` puts it back: 1 chunk;"
    assert re.search(rf"{kept} lost: \S*d\.zarr/v: attribute 'units': ", said)
    assert len(files_in(spool)) == 1
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    np.testing.assert_array_equal(place.values("v"), VALUES[::-1])


def test_records_that_are_kept_bring_their_length_and_the_copy_with_them(
    faults: Faults, place: Place, tmp_path: Path
) -> None:
    """SEMANTICS N6: nothing of it is lost."""
    spool = tmp_path / "spool"
    options = ["--spool-dir", str(spool), *LATER, *SILENT]
    with served(mounting_of(place.url, *options), exit_codes=None) as mount:
        dataset = mount.path / "datasets" / DATASET
        (dataset / "attributes/title").write_text("what the store can do is known now")
        records = os.open(dataset / "r/values.raw", os.O_WRONLY | os.O_APPEND)
        faults.set("status:503 PUT path=/[rv]/")
        os.write(records, VALUES[2:5].tobytes())
        with suppress(OSError):
            os.close(records)
        entry = status(mount)["spool"]
        code, said = ended(mount)
    faults.set()
    assert code == 1
    assert f"not everything could be stored; the rest is in {entry} (1 chunk), and" in said
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    np.testing.assert_array_equal(place.values("r"), VALUES[:5])
    assert place.findings() == []


@pytest.fixture
def relay(ceph: S3Server) -> Iterator[Relay]:
    relay = Relay(ceph)
    relay.start()
    yield relay
    relay.stop()


def test_umount_says_that_the_daemon_was_killed_before_it_had_ended(
    relay: Relay, tmp_path: Path
) -> None:
    """SEMANTICS N6."""
    place = bucket_of(relay.server)
    place.make_dataset({"v": (VALUES, (50,))})
    options = ["--spool-dir", str(tmp_path / "spool"), *LATER, "--request-timeout", "4s"]
    with served(mounting_of(place.url, *options), exit_codes=None) as mount:
        turn = mount.path / "datasets" / DATASET / "attributes/turn"
        turn.write_text("1")
        file = os.open(turn, os.O_WRONLY)
        os.write(file, b"2")
        relay.freeze()
        with failing_with(*NOT_THERE):
            os.close(file)
        command = [*NCZFS, "umount", str(mount.path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            assert "; for up to " in waiting.stderr.readline()
            mount.process.kill()
            assert waiting.stderr.read() == (
                f"nczfs: {mount.path}: not everything could be stored; lost: the daemon was"
                " killed\n"
            )
            assert waiting.wait() == 1
    relay.thaw()
