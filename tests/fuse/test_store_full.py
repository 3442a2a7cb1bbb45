"""Stores that are full or refuse: the right errno, everything kept, and stored when they allow."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.looking import failing_with, store_served
from tests.support.mounts import nczfs
from tests.support.places import DATASET
from tests.support.refusing import Refusing, full_disk, refusing_bucket, small_disk
from tests.support.servers import Faults
from tests.support.settled import files_in, status, wait_until

VALUES = np.arange(4000.0).reshape(40, 100)
CHUNKS = (20, 100)
OLD, NEW = b"old\n", b"new" * 20_000
TOLD = r"not stored|kept|is full|quota|denied|No space|ENOSPC|EACCES"

REFUSALS = {
    "507": ("status:507 PUT", errno.ENOSPC),
    "quota": ("status:403 PUT code=QuotaExceeded", errno.ENOSPC),
    "403": ("status:403 PUT", errno.EACCES),
}


@pytest.fixture(params=["disk", *REFUSALS])
def refusing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Refusing]:
    if request.param == "disk":
        with small_disk(tmp_path / "disk", 2):
            yield full_disk(tmp_path / "disk")
        return
    faults: Faults = request.getfixturevalue("ceph_with_faults")
    faults.set()
    yield refusing_bucket(faults, *REFUSALS[request.param])
    faults.set()


def test_what_is_refused_is_told_kept_and_stored_when_it_is_allowed(
    refusing: Refusing, tmp_path: Path
) -> None:
    """SEMANTICS O17, W1, W85, W20."""
    place, spool = refusing.place, tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    options = ["--spool-dir", str(spool), "--flush-age", "200ms"]
    with store_served(place.url, *options, expect=TOLD) as mount:
        raw, file = mount.path / "datasets" / DATASET / "v/values.raw", mount.path / "objects/file"
        file.write_bytes(OLD)
        values = VALUES.copy()
        written = os.open(raw, os.O_RDWR)
        staged = os.open(file, os.O_RDWR)
        os.pwrite(written, _some(values, 10, 30, -1), 10 * 8)
        os.fsync(written)

        refusing.refuse()
        os.pwrite(written, _some(values, 1990, 2010, -2), 1990 * 8)  # of both chunks
        os.pwrite(staged, NEW, 0)
        with failing_with(refusing.number):
            os.fsync(written)
        with failing_with(refusing.number):
            os.fsync(staged)
        assert raw.read_bytes() == values.tobytes()
        assert file.read_bytes() == NEW
        now = status(mount)
        assert (now["unsaved_chunks"], now["unsaved_files"]) == (2, 1)
        assert now["spool_used_bytes"] > len(NEW)
        assert place.objects()["file"] == OLD

        refusing.allow()
        wait_until(mount, unsaved_chunks=0)  # by itself
        np.testing.assert_array_equal(place.values("v"), values)
        os.fsync(staged)
        os.close(staged)
        os.close(written)
        assert place.objects()["file"] == NEW
        wait_until(mount, dirty_bytes=0, unsaved_files=0, spool_used_bytes=0)
    assert not list(spool.glob("*"))
    assert place.findings() == []


@pytest.mark.parametrize("refusing", ["disk", "403"], indirect=True)
def test_what_is_refused_until_the_end_is_recovered(refusing: Refusing, tmp_path: Path) -> None:
    """SEMANTICS O17, W20."""
    place, spool = refusing.place, tmp_path / "spool"
    place.make_dataset({"v": (VALUES, CHUNKS)})
    place.wait_until_older()
    with store_served(place.url, "--spool-dir", str(spool), expect=TOLD) as mount:
        raw, file = mount.path / "datasets" / DATASET / "v/values.raw", mount.path / "objects/file"
        file.write_bytes(OLD)
        refusing.refuse()
        values = VALUES.copy()
        with failing_with(refusing.number), raw.open("r+b", buffering=0) as target:
            target.seek(8)  # of a chunk that is written whole, write itself would tell
            target.write(_some(values, 1, 2500, -3))
        with failing_with(refusing.number):
            file.write_bytes(NEW)
        with failing_with(refusing.number):
            (mount.path / "objects/other").write_bytes(NEW)
        wait_until(mount, unsaved_chunks=2, unsaved_files=0)
    assert len(files_in(spool)) == 4
    assert nczfs("recover", "--spool-dir", spool).returncode == 1
    refusing.allow()
    put_back = nczfs("recover", "--spool-dir", spool)
    assert put_back.returncode == 0, put_back
    np.testing.assert_array_equal(place.values("v"), values)
    objects = place.objects()
    assert (objects["file"], objects["other"]) == (NEW, NEW)
    assert not list(spool.glob("*"))
    assert place.findings() == []


def _some(values: np.ndarray, start: int, stop: int, value: float) -> bytes:
    """Set a run of elements; their bytes."""
    values.reshape(-1)[start:stop] = value
    return values.reshape(-1)[start:stop].tobytes()


def test_what_a_full_spool_took_before_is_kept_when_the_store_refuses_it(
    ceph_with_faults: Faults, tmp_path: Path
) -> None:
    """SEMANTICS O13, O17: nothing is called lost that can be put back."""
    refusing = refusing_bucket(ceph_with_faults, *REFUSALS["403"])
    taken: dict[str, bytes] = {}
    with small_disk(tmp_path / "disk", 3):
        spool = tmp_path / "disk/spool"
        with store_served(refusing.place.url, "--spool-dir", str(spool), expect=TOLD) as mount:
            refusing.refuse()
            for number in range(200):
                name = f"f{number}"
                file = os.open(mount.path / "objects" / name, os.O_WRONLY | os.O_CREAT)
                try:
                    os.write(file, bytes([number]) * 20_480)
                    taken[name] = bytes([number]) * 20_480
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017 - it must end so
                with failing_with(errno.EACCES):
                    os.close(file)
            wait_until(mount, unsaved_files=0)
            lost = re.findall(r"(\w+): lost", mount.log.read_text())
        refusing.allow()
        put_back = nczfs("recover", "--spool-dir", spool)
        assert put_back.returncode == 0, put_back
        assert not list(spool.glob("*"))
    assert 50 < len(taken) < 200
    objects = refusing.place.objects()
    assert not objects.keys() & {*lost}
    assert {name: objects[name] for name in taken} == taken
