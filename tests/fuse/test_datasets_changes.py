"""Changes of metadata that cannot be stored: who asked for them is told, and nobody else."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.looking import failing_with, store_served
from tests.support.places import DATASET, bucket_of
from tests.support.servers import Faults
from tests.support.settled import files_in, settled, status, wait_until

RECORDS = np.arange(60, dtype="<f8").reshape(20, 3)
REFUSED = r"EACCES|denied|403|EEXIST|ENOENT|ESTALE|not stored"


@pytest.fixture
def faults(ceph_with_faults: Faults) -> Iterator[Faults]:
    ceph_with_faults.set()
    yield ceph_with_faults
    ceph_with_faults.set()


def make(url: str) -> None:
    with nczfs.open(url, "w", consolidated=True) as root:
        root.attrs["title"] = "t"
        root.create_dimension("t", None)
        root.create_dimension("x", 3)
        root.create_variable("r", ("t", "x"), "<f8", RECORDS[:2], chunks=(8, 3))
        root.create_variable("v", ("x",), "<f8", RECORDS[0], attributes={"units": "K"})


def test_a_consolidated_copy_that_was_refused_is_owed_until_it_is_stored(
    faults: Faults, tmp_path: Path
) -> None:
    """SEMANTICS W1, W85, W8."""
    place = bucket_of(faults.server)
    make(place.url_of(DATASET))

    def shape_in_copy() -> list[int]:
        data = place.objects()[f"{DATASET}/.zmetadata"]
        shape: list[int] = json.loads(data)["metadata"]["r/.zarray"]["shape"]
        return shape

    options = ["--spool-dir", str(tmp_path / "spool"), "--flush-age", "1h"]
    with store_served(place.url, *options, expect=REFUSED) as mount:
        handle = os.open(
            mount.path / "datasets" / DATASET / "r/values.raw", os.O_WRONLY | os.O_APPEND
        )
        faults.set("status:403 PUT path=zmetadata")
        os.write(handle, RECORDS[2:5].tobytes())
        for _ in range(2):
            with failing_with(errno.EACCES):
                os.fsync(handle)
        assert status(mount)["unsaved_metadata"] == 1
        faults.set()
        os.fsync(handle)
        assert shape_in_copy() == [5, 3]
        os.close(handle)
        wait_until(mount, unsaved_metadata=0)
    np.testing.assert_array_equal(place.values("r"), RECORDS[:5])


def test_a_consolidated_copy_that_was_refused_is_stored_in_the_background(
    faults: Faults, tmp_path: Path
) -> None:
    """SEMANTICS W85."""
    place = bucket_of(faults.server)
    make(place.url_of(DATASET))
    options = ["--spool-dir", str(tmp_path / "spool"), "--flush-age", "200ms"]
    with store_served(place.url, *options, expect=REFUSED) as mount:
        faults.set("status:403 PUT path=zmetadata")
        units = mount.path / "datasets" / DATASET / "v/attributes/units"
        with failing_with(errno.EACCES):
            units.write_text("m")
        faults.set()
        wait_until(mount, unsaved_metadata=0)
        data = place.objects()[f"{DATASET}/.zmetadata"]
        assert json.loads(data)["metadata"]["v/.zattrs"]["units"] == "m"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    make(str(directory / DATASET))
    return directory


def test_what_another_client_removed_fails_who_changes_it_and_nobody_after(
    store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W17, W27."""
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        group = mount.path / "datasets" / DATASET
        units = os.open(group / "v/attributes/units", os.O_RDWR)
        os.write(units, b"km")
        with nczfs.open(str(store / DATASET), "r+") as root:
            del root["v"]
        with failing_with(errno.ESTALE, errno.ENOENT):
            os.close(units)
        with (group / "r/values.raw").open("ab", buffering=0) as file:
            file.write(RECORDS[2].tobytes())
            os.fsync(file.fileno())
        assert status(mount)["unsaved_metadata"] == 0
        (group / "attributes/title").write_text("T")
    with nczfs.open(str(store / DATASET)) as root:
        np.testing.assert_array_equal(root.variables["r"][...], RECORDS[:3])
        assert root.attrs["title"] == "T"


@pytest.mark.parametrize("elapsed_s", [0.0, 1.5])
def test_an_attribute_of_a_replaced_variable_is_not_set_in_another_one_of_its_name(
    store: Path, tmp_path: Path, elapsed_s: float
) -> None:
    """SEMANTICS W17."""
    # Both mounts are there before the file is open: their start would close a copy of it.
    with (
        settled(store, tmp_path / "spool", expect=REFUSED) as mount,
        settled(store, tmp_path / "other", "-o", "allow_delete") as other,
    ):
        group = mount.path / "datasets" / DATASET
        units = os.open(group / "v/attributes/units", os.O_RDWR)
        os.write(units, b"km")
        place = other.path / "datasets" / DATASET
        (place / "v").rename(place / "w")
        with nczfs.open(str(store / DATASET), "r+") as root:
            root.create_variable("v", ("x",), "<i2", attributes={"units": "s"})
        time.sleep(elapsed_s)  # what was read is believed for a second
        for act in (os.fsync, os.close):
            with failing_with(errno.ESTALE):
                act(units)
        assert (group / "v/attributes/units").read_text().strip() == "s"
    with nczfs.open(str(store / DATASET)) as root:
        assert root.variables["v"].attrs["units"] == "s"
        assert root.variables["w"].attrs["units"] == "K"


def test_a_removed_attribute_of_a_replaced_variable_stays_in_another_one_of_its_name(
    store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W15, W17. A removal waits for a moment."""
    options = ("-o", "allow_delete")
    with settled(store, tmp_path / "spool", *options, expect=REFUSED) as mount:
        group = mount.path / "datasets" / DATASET
        (group / "v/attributes/units").unlink()
        with nczfs.open(str(store / DATASET), "r+") as root:
            del root["v"]
            root.create_variable("v", ("x",), "<i2", attributes={"units": "s"})
        wait_until(mount, unsaved_metadata=0)
    with nczfs.open(str(store / DATASET)) as root:
        assert root.variables["v"].attrs["units"] == "s"


def test_what_is_written_just_after_another_program_moved_a_variable_is_refused_and_kept(
    store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W89. In a directory no second passes until that is seen."""
    spool = tmp_path / "spool"
    with store_served(str(store), "--spool-dir", str(spool), expect=f"{REFUSED}|saved in") as mount:
        values = os.open(mount.path / "datasets" / DATASET / "v/values.raw", os.O_RDWR)
        os.pwrite(values, RECORDS[1, :1].tobytes(), 0)
        os.fsync(values)
        (store / DATASET / "v").rename(store / DATASET / "w")
        os.pwrite(values, RECORDS[1, 1:2].tobytes(), 8)
        for act in (os.fsync, os.close):
            with failing_with(errno.ESTALE):
                act(values)
    assert not (store / DATASET / "v").exists()
    assert len(files_in(spool)) == 1


def test_records_are_told_in_the_background_too(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W85, W8."""
    with settled(store, tmp_path / "spool", "--flush-age", "100ms") as mount:
        handle = os.open(
            mount.path / "datasets" / DATASET / "r/values.raw", os.O_WRONLY | os.O_APPEND
        )
        os.write(handle, RECORDS[2:5].tobytes())
        wait_until(mount, unsaved_metadata=0, unsaved_chunks=0)
        with nczfs.open(str(store / DATASET)) as root:
            np.testing.assert_array_equal(root.variables["r"][...], RECORDS[:5])
        os.close(handle)
