"""What files show, and `status.json` counts, when another client is the reason of a refusal."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import nczfs as library
from tests.support.looking import failing_with, store_served
from tests.support.mounts import Served, nczfs
from tests.support.places import DATASET, Place, directory_at
from tests.support.settled import files_in, status, wait_until

VALUES = np.arange(100, dtype="<f8")
COUNTS = ("dirty_bytes", "unsaved_chunks", "unsaved_metadata", "unsaved_files", "spooled")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = directory_at(tmp_path / "store")
    place.make_dataset({"v": (VALUES, (50,)), "w": (VALUES, (50,))})
    return place


def counts(mount: Served) -> dict[str, int]:
    found = status(mount)
    return {name: found[name] for name in COUNTS if found[name]}


def test_what_a_removed_variable_was_given_is_spooled_and_nothing_else(
    place: Place, tmp_path: Path
) -> None:
    """SEMANTICS W20, W22."""
    spool = tmp_path / "spool"
    expect = "has removed or replaced it|saved in|not stored"
    with store_served(place.url, "--spool-dir", str(spool), expect=expect) as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        other = mount.path / "datasets" / DATASET / "w/values.raw"
        file = os.open(raw, os.O_RDWR)
        os.pwrite(file, b"\1" * 8, 0)
        shutil.rmtree(tmp_path / "store" / DATASET / "v")
        with failing_with(errno.ESTALE):
            os.fsync(file)
        assert counts(mount) == {"spooled": 1}
        for ask in (lambda: os.pread(file, 8, 0), lambda: os.pwrite(file, b"\2" * 8, 8)):
            with failing_with(errno.ESTALE):
                ask()
        with failing_with(errno.ESTALE):
            os.close(file)
        with other.open("r+b") as beside:
            beside.write(b"\3" * 8)
        assert counts(mount) == {"spooled": 1}
    assert len(files_in(spool)) == 1
    assert nczfs("recover", "--spool-dir", spool).returncode == 1


def test_a_conflict_is_no_refusal_and_counts_as_nothing(place: Place, tmp_path: Path) -> None:
    """SEMANTICS W69."""
    options = ["--spool-dir", str(tmp_path / "spool"), "--metadata-ttl", "minimal"]
    with store_served(place.url, *options) as mount:
        raw = mount.path / "datasets" / DATASET / "v/values.raw"
        file = os.open(raw, os.O_RDWR)
        os.pread(file, 800, 0)
        os.pwrite(file, np.float64(-1).tobytes(), 0)
        assert counts(mount)["unsaved_chunks"] == 1
        with library.open(place.url_of(DATASET), "r+") as root:
            root.variables["v"][1] = -2.0
        os.fsync(file)
        assert counts(mount) == {}
        os.close(file)
        wanted = VALUES.copy()
        wanted[:2] = -1, -2
        np.testing.assert_array_equal(place.values("v"), wanted)
        assert raw.read_bytes() == wanted.tobytes()
        wait_until(mount, dirty_bytes=0, spool_used_bytes=0)
    assert not list((tmp_path / "spool").glob("*"))
