"""Two mounts write into the same shards; one is killed again and again, and none loses a write."""

from __future__ import annotations

import errno
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.confirmed import ElementWriter, working_until_they_fail
from tests.support.looking import mounting_of
from tests.support.mounts import served
from tests.support.places import SHARDED, Place, requested_place
from tests.support.settled import files_in, gauge, settled, status

VALUES = np.zeros(600)
CHUNKS, SHARDS = (20,), (300,)  # two shards of 15 chunks
WRITERS = 4
# Whole chunks of the shards, and elements of chunks that others write as well.
BLOCKS = [20, 3]
TRIALS = [4, pytest.param(50, marks=pytest.mark.long)]
PATIENCE_S = 60
DEAD = {errno.ENOTCONN, errno.ECONNABORTED}


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", BLOCKS, ids=["whole chunks", "parts of chunks"])
@pytest.mark.parametrize("trials", TRIALS)
def test_a_kill_of_one_loses_nothing_that_either_confirmed(
    place: Place, tmp_path: Path, trials: int, block: int
) -> None:
    """SEMANTICS O6, W1, W69."""
    place.make_shards(VALUES, CHUNKS, SHARDS)
    moments = random.Random(f"{trials} {block}")
    spool, mountpoint = tmp_path / "spool", tmp_path / "mnt"
    command = mounting_of(place.url, "--spool-dir", str(spool))
    conflicts = 0.0
    with settled(place.url, tmp_path / "spool of the other") as other:
        theirs = _writers(other.path, (0, 1), block)
        killed = _writers(mountpoint, (2, 3), block)
        for _ in range(trials):
            with served(command, mountpoint=mountpoint, exit_codes=None) as mount:
                assert status(mount)["unsaved_chunks"] == 0
                stop = threading.Event()
                going_on = [threading.Thread(target=each.run, args=(stop,)) for each in theirs]
                for thread in going_on:
                    thread.start()
                try:
                    with working_until_they_fail(killed):
                        for writer in (*theirs, *killed):
                            assert writer.confirmed_something.wait(PATIENCE_S)
                        time.sleep(moments.uniform(0, 0.3))
                        mount.process.send_signal(signal.SIGKILL)
                        mount.process.wait()
                    # Whom nobody killed still gets through.
                    for writer in theirs:
                        writer.confirmed_something.clear()
                    for writer in theirs:
                        assert writer.confirmed_something.wait(PATIENCE_S)
                finally:
                    stop.set()
                    for thread in going_on:
                        thread.join()
            for writer in killed:
                assert writer.error is not None
                assert writer.error.errno in DEAD, writer.error
            for writer in theirs:
                assert writer.error is None
            _check(place, [*theirs, *killed])
            assert place.findings(SHARDED) == []
        conflicts = gauge(other, "nczfs_write_conflicts_total")
    assert conflicts > 0
    assert files_in(spool) == []


def _writers(mountpoint: Path, numbers: Sequence[int], block: int) -> list[ElementWriter]:
    path = mountpoint / "datasets" / SHARDED / "v/values.raw"
    return [
        ElementWriter(path, VALUES, number, number=number, count=WRITERS, block=block)
        for number in numbers
    ]


def _check(place: Place, writers: Sequence[ElementWriter]) -> None:
    """Compare each writer's elements with the store; go on from what is there."""
    with nczfs.open(place.url_of(SHARDED)) as root:
        stored = np.asarray(root.variables["v"][...])
    for writer in writers:
        writer.check(stored)
        writer.went_on_from(stored)
        writer.error = None
        writer.confirmed_something.clear()
