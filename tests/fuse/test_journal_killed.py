"""With a journal, what write(2) returned for is there after a kill, at whatever the daemon was."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from tests.support import mounts
from tests.support.confirmed import Writer, working_until_they_fail
from tests.support.looking import mounting_of
from tests.support.mounts import Served, served
from tests.support.places import DATASET, SHARDED, Place, requested_place
from tests.support.sample import Values
from tests.support.settled import files_in

LENGTH = 400
LINE = "%07d\n"
WAITING = r"pieces of what was written in an earlier mount are not stored"
TRIALS = [3, pytest.param(200, marks=pytest.mark.long)]


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


class LineWriter(Writer):
    """Adds one line after the other to a file, and closes it now and then, which stores it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.lines = 0
        self._fd = -1

    @contextmanager
    def opened(self) -> Iterator[None]:
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            yield
        finally:
            with suppress(OSError):
                os.close(self._fd)

    def turn(self) -> None:
        os.write(self._fd, (LINE % self.lines).encode())
        self.lines += 1
        if self.lines % 7 == 0:
            self.confirmed_something.set()  # what follows stores it
            os.fsync(self._fd)

    def check(self, found: str) -> None:
        """Every line that was written is there, once, and nothing else but the next one."""
        lines = found.splitlines(keepends=True)
        assert self.lines <= len(lines) <= self.lines + 1, (self.lines, found[-100:])
        assert lines == [LINE % number for number in range(len(lines))]
        self.lines = len(lines)


class NumberWriter(Writer):
    """Writes one element after the other, each turn another number."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.number = 0
        self.values = np.zeros(LENGTH)
        self._fd = -1

    @contextmanager
    def opened(self) -> Iterator[None]:
        self._fd = os.open(self.path, os.O_WRONLY)
        try:
            yield
        finally:
            with suppress(OSError):
                os.close(self._fd)

    def turn(self) -> None:
        self.number += 1
        at = self.number * 37 % LENGTH
        os.pwrite(self._fd, np.array([self.number], "f8").tobytes(), at * 8)
        self.values[at] = self.number
        if self.number % 50 == 0:
            self.confirmed_something.set()
            os.fsync(self._fd)

    def check(self, found: Values) -> None:
        """Every element is there that was written; the last one may be, whose write was cut."""
        for at in np.flatnonzero(found != self.values):
            assert (int(at), float(found[at])) == (self.number * 37 % LENGTH, self.number)
        self.values = found.copy()


def kill(mount: Served, moments: random.Random, *, is_ending: bool) -> None:
    """Kill a daemon, which may be about to end; if not, it has logged no trouble."""
    if is_ending:
        mount.process.send_signal(signal.SIGTERM)
        time.sleep(moments.uniform(0, 0.05))
    mount.process.send_signal(signal.SIGKILL)
    mount.process.wait()
    assert is_ending or not mounts.TROUBLE.search(mount.log.read_text())


def put_back(spool: Path) -> CompletedProcess[str]:
    """Put everything back that a spool has."""
    done = mounts.nczfs("recover", "--spool-dir", spool)
    assert done.returncode == 0, done
    assert files_in(spool) == []
    return done


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("trials", TRIALS)
def test_what_write_returned_for_is_there_after_a_kill(
    place: Place, tmp_path: Path, trials: int
) -> None:
    """SEMANTICS W21. Half of the kills come while something is stored, or while the mount ends."""
    place.make_dataset({"v": (np.zeros(LENGTH), (64,))})
    place.make_shards(np.zeros(LENGTH), (16,), (32,))
    spool, mountpoint = tmp_path / "spool", tmp_path / "mnt"
    command = mounting_of(place.url, "--spool-dir", str(spool), "-o", "journal")
    lines = LineWriter(mountpoint / "objects/log")
    numbers = NumberWriter(mountpoint / "datasets" / DATASET / "v/values.raw")
    in_shards = NumberWriter(mountpoint / "datasets" / SHARDED / "v/values.raw")
    writers = (lines, numbers, in_shards)
    moments = random.Random(trials)
    for trial in range(trials):
        place.wait_until_older()
        with served(command, mountpoint=mountpoint, exit_codes=None) as mount:
            for writer in writers:
                writer.error = None
                writer.confirmed_something.clear()
            with working_until_they_fail(writers):
                storing = moments.choice((lines, numbers, in_shards, in_shards))
                storing.confirmed_something.wait(120)
                if trial % 2:
                    time.sleep(moments.uniform(0, 0.1))
                kill(mount, moments, is_ending=trial % 4 == 0)
        assert put_back(spool).stderr == ""
        lines.check(place.objects()["log"].decode())
        numbers.check(place.values("v"))
        in_shards.check(place.values_by_zarr(SHARDED, "v"))
