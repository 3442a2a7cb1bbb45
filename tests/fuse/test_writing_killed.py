"""What fsync or close confirmed is in the store, whenever the daemon is killed."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.zmap.directory import TEMPORARY
from tests.support import mounts
from tests.support.confirmed import (
    AttributeWriter,
    ElementWriter,
    ObjectWriter,
    Writer,
    working_until_they_fail,
)
from tests.support.looking import mounting_of
from tests.support.mounts import Served, served
from tests.support.places import DATASET, SHARDED, Place, requested_place
from tests.support.settled import files_in, status, waiting

SHARED = (np.zeros((23, 37)), (5, 8))
SHARDS = (np.zeros(400), (16,), (32,))
WHOLE = (np.zeros((40, 11)), (10, 11))
DEAD = {errno.ENOTCONN, errno.ECONNABORTED}
TRIALS = [10, pytest.param(200, marks=pytest.mark.long)]


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trials", TRIALS)
def test_what_was_confirmed_is_there_after_a_kill(
    place: Place, tmp_path: Path, trials: int
) -> None:
    """SEMANTICS O6, W1."""
    place.make_dataset({"shared": SHARED, "whole": WHOLE})
    place.make_shards(*SHARDS)
    moments = random.Random(trials)
    spool, mountpoint = tmp_path / "spool", tmp_path / "mnt"
    command = mounting_of(place.url, "--spool-dir", str(spool))
    writers = _Writers(mountpoint)
    for _ in range(trials):
        with served(command, mountpoint=mountpoint, exit_codes=None) as mount:
            assert status(mount)["unsaved_chunks"] == 0
            writers.check()
            with working_until_they_fail(writers.all):
                for writer in writers.all:
                    writer.confirmed_something.wait(moments.choice((0, 0.05, 30)))
                time.sleep(moments.uniform(0, 0.1))
                mount.process.send_signal(signal.SIGKILL)
                mount.process.wait()
            _check_died(mount, writers.all)
        assert place.findings() == []
        assert place.findings(SHARDED) == []
    assert all(writer.turns >= trials // 10 for writer in writers.all)
    _check_recovered(spool)
    with served(command, mountpoint=mountpoint) as mount:
        writers.check()
        assert waiting(mount) == {}
        for _ in (mountpoint / "objects").rglob("*"):  # temporary files go as others are listed
            pass
    assert files_in(spool) == []
    assert _temporary_files(tmp_path) == []


def test_what_sync_confirmed_in_an_archive_is_there_after_a_kill(tmp_path: Path) -> None:
    """SEMANTICS W88: `sync FILE` opens it for reading."""
    store = tmp_path / "data.zip"
    with nczfs.open(str(store), "w") as root:
        root.create_variable("v", (4,), "<i4", np.arange(4, dtype="<i4"))
    with served(
        mounting_of(str(store), "--spool-dir", str(tmp_path / "spool")), exit_codes=None
    ) as mount:
        values = mount.path / "datasets/data.zip/v/values.raw"
        with values.open("r+b") as file:
            file.write(np.array([7], "<i4").tobytes())
        subprocess.run(["sync", values], check=True)
        mount.process.kill()
        mount.process.wait()
    with nczfs.open(str(store)) as root:
        assert root.variables["v"][...].tolist() == [7, 1, 2, 3]


def _temporary_files(directory: Path) -> list[Path]:
    """What the directory store hides, as it is on the disk."""
    return [path for path in directory.rglob("*") if path.name.startswith(TEMPORARY)]


class _Writers:
    """Those of all trials: each trial begins with what the last one left."""

    def __init__(self, mountpoint: Path) -> None:
        self._objects = mountpoint / "objects/files"
        self._dataset = mountpoint / "datasets" / DATASET
        names = ("a", "b", "deep/c")
        self._files = [ObjectWriter(self._objects / name, 7 + len(name)) for name in names]
        shared = self._dataset / "shared/values.raw"
        self._shared = [
            ElementWriter(shared, SHARED[0], number, number=number, count=2, block=7)
            for number in range(2)
        ]
        self._whole = ElementWriter(
            self._dataset / "whole/values.raw", WHOLE[0], 2, block=WHOLE[0].size
        )
        self._in_shards = ElementWriter(
            mountpoint / "datasets" / SHARDED / "v/values.raw", SHARDS[0], 3, block=40
        )
        self._elements = (*self._shared, self._whole, self._in_shards)
        self._attribute = AttributeWriter(self._dataset / "attributes/turn")
        self.all: Sequence[Writer] = (
            *self._files,
            *self._elements,
            self._attribute,
        )

    def check(self) -> None:
        """All that was confirmed is shown, and nothing is torn; go on from what is there."""
        (self._objects / "deep").mkdir(parents=True, exist_ok=True)
        for file in self._files:
            file.went_on_from(file.check(_content(file.path)))
        for elements in self._elements:
            stored = np.fromfile(elements.path, "f8")
            elements.check(stored)
            elements.went_on_from(stored)
        number = int(self._attribute.path.read_text())
        self._attribute.check(number)
        self._attribute.went_on_from(number)
        for writer in self.all:
            writer.error = None
            writer.confirmed_something.clear()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _check_died(mount: Served, writers: Sequence[Writer]) -> None:
    """Nothing but the kill was in the way of the writers, and the daemon had nothing to say."""
    for writer in writers:
        assert writer.error is not None
        assert writer.error.errno in DEAD, (writer.error, os.strerror(writer.error.errno or 0))
    log = mount.log.read_text()
    assert not mounts.TROUBLE.search(log), log


def _check_recovered(spool: Path) -> None:
    """The spool has what was never confirmed, and nothing that `nczfs recover` could put back."""
    left = mounts.nczfs("recover", "--spool-dir", spool, "--json")
    lines = [json.loads(line) for line in left.stdout.splitlines()]
    assert left.returncode == 0
    assert [line["state"] for line in lines] == ["incomplete"] * len(lines)
    names = [line["name"] for line in lines]
    assert mounts.nczfs("recover", "--spool-dir", spool, "--discard", *names).returncode == 0
    assert files_in(spool) == []
