"""What a netCDF tool wrote into a live file and closed is stored, whenever the daemon dies."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.interop.netcdf_programs.field import (
    FIELD,
    RECORD_DIMENSION,
    SHAPE,
    stored_field,
    write_field,
)
from tests.interop.netcdf_programs.program import FORMATS, SUFFIX, run
from tests.interop.netcdf_programs.scripts import compiled
from tests.support.looking import mounting_of
from tests.support.mounts import served
from tests.support.settled import files_in, status

Index = tuple[int, ...]


class Tool:
    """A C program that changes one element after the other, each with an open and a close.

    Attributes
    ----------
    confirmed : the field as of the last program that ended well.
    tried : what was written since by programs that did not: an element and its value.
    turns : how many ended well, in all trials.
    """

    def __init__(self, store: Path, mountpoint: Path, form: str, number: int) -> None:
        self.name = f"d{number}"
        write_field(store, self.name)
        self._store = store
        self._file = mountpoint / f"datasets/{self.name}.zarr/{self.name}{SUFFIX[form]}"
        self._random = random.Random(number)
        self.confirmed = FIELD.copy()
        self.tried: dict[Index, float] = {}
        self.turns = 0
        self.has_confirmed = threading.Event()

    def write_until(self, killed: threading.Event) -> None:
        """Write until it is told that the mount was killed, or finds that."""
        while not killed.is_set():
            index = tuple(self._random.randrange(n) for n in SHAPE)
            value = float(self._random.randrange(1 << 20))
            self.tried[index] = value
            done = run(compiled("netcdffield.c"), "edit", self._file, str(value), *map(str, index))
            if done.returncode != 0 or not is_alive(self._file.parent):
                return
            self.confirmed[index] = self.tried.pop(index)
            self.turns += 1
            self.has_confirmed.set()

    def check(self) -> None:
        """Fail unless the store has what was confirmed; go on from what it has."""
        found = stored_field(self._store, self.name)
        wanted = self.confirmed.copy()
        for index, value in self.tried.items():
            if found[index] == value:
                wanted[index] = value
        np.testing.assert_array_equal(found, wanted)
        self.confirmed, self.tried = wanted, {}
        self.has_confirmed.clear()


def is_alive(directory: Path) -> bool:
    """Whether a mount still answers. netCDF-C ignores a failed close of a classic file."""
    try:
        os.statvfs(directory)
    except OSError:
        return False
    return True


@contextmanager
def writing(tools: list[Tool]) -> Iterator[threading.Event]:
    """All tools at work, until the event is set."""
    killed = threading.Event()
    threads = [threading.Thread(target=tool.write_until, args=(killed,)) for tool in tools]
    for thread in threads:
        thread.start()
    try:
        yield killed
    finally:
        killed.set()
        for thread in threads:
            thread.join()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trials", [20, pytest.param(200, marks=pytest.mark.long)])
def test_an_edit_of_a_netcdf_file_survives_a_kill_after_its_close(
    tmp_path: Path, trials: int
) -> None:
    """SEMANTICS W1, W48."""
    store, spool, mountpoint = (tmp_path / name for name in ("store", "spool", "mnt"))
    store.mkdir()
    tools = [Tool(store, mountpoint, form, number) for number, form in enumerate(FORMATS)]
    command = mounting_of(store, "--spool-dir", str(spool), "--record-dim", RECORD_DIMENSION)
    moments = random.Random(trials)
    compiled("netcdffield.c")
    for _ in range(trials):
        with (
            served(command, mountpoint=mountpoint, exit_codes=None) as mount,
            writing(tools) as killed,
        ):
            for tool in tools:
                tool.has_confirmed.wait(moments.choice((0, 0.05, 30)))
            time.sleep(moments.uniform(0, 0.1))
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait()
            killed.set()
        for tool in tools:
            tool.check()
    assert all(tool.turns >= trials // 10 for tool in tools)
    with served(command, mountpoint=mountpoint) as mount:
        assert status(mount)["unsaved_chunks"] == 0
    assert files_in(spool) == []
