"""With a journal, what was written to what is being renamed is there after a kill at any step."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.fuse.test_journal_killed import (
    LENGTH,
    TRIALS,
    LineWriter,
    NumberWriter,
    kill,
    put_back,
)
from tests.support import mounts
from tests.support.confirmed import Writer, working_until_they_fail
from tests.support.looking import mounting_of
from tests.support.mounts import served
from tests.support.places import DATASET, Place, requested_place

VARIABLES = ("v", "w")
DIRECTORIES = ("a", "b")
OTHERS = 20  # objects beside the one that is written


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


class Renamer(Writer):
    """Renames something to and fro.

    Parameters
    ----------
    inside : writes there, by the first of the names, and is waited for before the first rename.

    Attributes
    ----------
    names : those that it may have now.
    """

    def __init__(self, directory: Path, names: tuple[str, str], inside: Writer) -> None:
        super().__init__()
        self._directory = directory
        self._inside = inside
        self.names = {names[0]}
        self._all = frozenset(names)

    @contextmanager
    def opened(self) -> Iterator[None]:
        while not self._inside.confirmed_something.wait(0.02):
            if self._inside.error is not None:
                raise self._inside.error
        yield

    def turn(self) -> None:
        (old,) = self.names
        (new,) = self._all - self.names
        self.names = {old, new}
        self.confirmed_something.set()  # what follows renames it
        os.rename(self._directory / old, self._directory / new)
        self.names = {new}

    def check(self, found: set[str]) -> str:
        """It has one of the names, and the new one if the rename had succeeded."""
        (name,) = found
        assert name in self.names
        self.names = {name}
        return name


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("trials", TRIALS)
def test_what_write_returned_for_follows_a_rename_that_was_killed(
    place: Place, tmp_path: Path, trials: int
) -> None:
    """SEMANTICS W21, W33, O23."""
    place.make_dataset({VARIABLES[0]: (np.zeros(LENGTH), (64,))})
    spool, mountpoint = tmp_path / "spool", tmp_path / "mnt"
    words = ("--spool-dir", str(spool), "-o", "journal", "-o", "allow_delete")
    lines = LineWriter(mountpoint)
    numbers = NumberWriter(mountpoint)
    variable = Renamer(mountpoint / "datasets" / DATASET, VARIABLES, numbers)
    directory = Renamer(mountpoint / "objects", DIRECTORIES, lines)
    writers = (lines, numbers, variable, directory)
    moments = random.Random(trials)
    with served(mounting_of(place.url, *words), mountpoint=mountpoint):
        os.mkdir(mountpoint / "objects" / DIRECTORIES[0])
        for number in range(OTHERS):
            Path(mountpoint, "objects", DIRECTORIES[0], str(number)).write_text(str(number))
    for trial in range(trials):
        place.wait_until_older()
        (name,), (above,) = variable.names, directory.names
        numbers.path = mountpoint / "datasets" / DATASET / name / "values.raw"
        lines.path = mountpoint / "objects" / above / "log"
        with served(
            mounting_of(place.url, *words), mountpoint=mountpoint, exit_codes=None
        ) as mount:
            for writer in writers:
                writer.error = None
                writer.confirmed_something.clear()
            with working_until_they_fail(writers):
                moments.choice(writers).confirmed_something.wait(120)
                time.sleep(moments.uniform(0, 0.3))
                kill(mount, moments, is_ending=trial % 4 == 0)
        put_back(spool)
        remove_what_is_left_of_renames(place)
        name = variable.check(set(place.variables()))
        numbers.check(place.values(name))
        objects = place.objects()
        above = directory.check({key.partition("/")[0] for key in objects} - {DATASET})
        lines.check(objects[f"{above}/log"].decode())
        for number in range(OTHERS):
            assert objects[f"{above}/{number}"] == str(number).encode()


def remove_what_is_left_of_renames(place: Place) -> None:
    """Remove what `verify` says is left of a rename; nothing else may be wrong."""
    url = place.url_of(DATASET)
    for line in mounts.nczfs("verify", url).stdout.splitlines():
        if "`nczfs rm -r` removes" in line:
            name = line.split()[1].strip("/:")
            done = mounts.nczfs("rm", "-r", place.url_of(f"{DATASET}/{name}"))
            assert done.returncode == 0, done
    done = mounts.nczfs("verify", url)
    assert done.returncode == 0, done
