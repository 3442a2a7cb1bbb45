"""What a netCDF tool wrote into a live file and closed is stored, whenever the daemon dies."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nczfs.zmap.keys import Key
from nczfs.zmap.registry import open_store
from tests.interop.netcdf_programs.field import (
    FIELD,
    RECORD_DIMENSION,
    SHAPE,
    stored_field,
    write_field,
)
from tests.interop.netcdf_programs.program import CLASSIC, NETCDF4, SUFFIX, run
from tests.interop.netcdf_programs.scripts import compiled
from tests.support import mounts
from tests.support.editors import LIBRARIES, Edits, editor_of
from tests.support.looking import mounting_of
from tests.support.mounts import served
from tests.support.places import Place, requested_place
from tests.support.sample import Values, keys_of
from tests.support.settled import files_in, status

Index = tuple[int, ...]
Edit = Callable[[float, Index], bool]


class Tool:
    """A program that changes one element of its dataset after the other.

    Attributes
    ----------
    confirmed : the field as of the last change that the program took for stored.
    tried : what it changed since: an element and its value.
    turns : how many changes it took for stored, in all trials.
    """

    def __init__(self, place: Place, scratch: Path, file: Path, edit: Edit) -> None:
        self._place = place
        self._dataset = file.parent.name
        self._scratch = scratch
        self._file = file
        self._edit = edit
        self._random = random.Random(self._dataset)
        self.confirmed = FIELD.copy()
        self.tried: dict[Index, float] = {}
        self.turns = 0
        self.has_confirmed = threading.Event()
        write_field(scratch, file.parent.stem)
        zmap = open_store(place.url)
        for key, path in keys_of(scratch / self._dataset).items():
            zmap.write(Key(f"{self._dataset}/{key}"), path.read_bytes())
        zmap.close()

    def write_until(self, killed: threading.Event) -> None:
        """Write until it is told that the mount was killed, or finds that."""
        while not killed.is_set():
            index = tuple(self._random.randrange(n) for n in SHAPE)
            value = float(self._random.randrange(1 << 20))
            self.tried[index] = value
            if not self._edit(value, index) or not is_alive(self._file.parent):
                return
            self.confirmed[index] = self.tried.pop(index)
            self.turns += 1
            self.has_confirmed.set()

    def check(self) -> None:
        """Fail unless the store has what was confirmed; go on from what it has."""
        found = self._stored()
        wanted = self.confirmed.copy()
        for index, value in self.tried.items():
            if found[index] == value:
                wanted[index] = value
        np.testing.assert_array_equal(found, wanted, err_msg=str(self._file))
        self.confirmed, self.tried = wanted, {}
        self.has_confirmed.clear()

    def _stored(self) -> Values:
        copy = self._scratch / self._dataset
        for key, data in self._place.objects(self._dataset).items():
            (copy / key).write_bytes(data)
        return stored_field(self._scratch, copy.stem)


def is_alive(directory: Path) -> bool:
    """Whether a mount still answers. netCDF-C ignores a failed close of a classic file."""
    try:
        os.statvfs(directory)
    except OSError:
        return False
    return True


def _compiled(source: str, file: Path) -> Edit:
    """Return what changes an element by a program that opens and closes the file."""
    program = compiled(source)

    def edit(value: float, index: Index) -> bool:
        return run(program, "edit", file, str(value), *map(str, index)).returncode == 0

    return edit


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


@pytest.fixture(scope="module")
def by_python() -> Iterator[dict[str, Edits]]:
    """Libraries of Python that change an element of a file."""
    with ExitStack() as stack:
        yield {each: stack.enter_context(editor_of(each)) for each in LIBRARIES}


@pytest.fixture
def tools(place: Place, by_python: dict[str, Edits], tmp_path: Path) -> list[Tool]:
    """Programs, each with a dataset of its own below ``mnt``."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def file(name: str, form: str) -> Path:
        return tmp_path / f"mnt/datasets/{name}.zarr/{name}{SUFFIX[form]}"

    made = []
    programs = (("c4", NETCDF4, "c"), ("c", CLASSIC, "c"))
    fortran = (("fortran", NETCDF4, "f90"), ("fortranclassic", CLASSIC, "f90"))
    for name, form, source in (*programs, *fortran):
        path = file(name, form)
        edit = _compiled(f"netcdffield.{source}", path)
        made.append(Tool(place, scratch, path, edit))
    for name, edits in by_python.items():
        path = file(name, NETCDF4)
        made.append(Tool(place, scratch, path, partial(edits, path)))
    return made


@contextmanager
def writing(tools: Sequence[Tool]) -> Iterator[threading.Event]:
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


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("trials", [5, pytest.param(200, marks=pytest.mark.long)])
def test_an_edit_of_a_netcdf_file_survives_a_kill_after_its_close(
    place: Place, tools: list[Tool], tmp_path: Path, trials: int
) -> None:
    """SEMANTICS W1, W21, W48. Every other mount has a journal."""
    spool, mountpoint = tmp_path / "spool", tmp_path / "mnt"
    options = ["--spool-dir", str(spool), "--record-dim", RECORD_DIMENSION]
    moments = random.Random(trials)
    for trial in range(trials):
        place.wait_until_older()
        has_journal = trial % 2 == 0
        journal = ["-o", "journal"] if has_journal else []
        with (
            served(
                mounting_of(place.url, *options, *journal), mountpoint=mountpoint, exit_codes=None
            ) as mount,
            writing(tools) as killed,
        ):
            for tool in tools:
                is_last = trial == trials - 1
                tool.has_confirmed.wait(60 if is_last else moments.choice((0, 0.05, 30)))
            time.sleep(moments.uniform(0, 0.1))
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait()
            killed.set()
        if has_journal:
            done = mounts.nczfs("recover", "--spool-dir", spool)
            assert (done.returncode, done.stderr) == (0, ""), done
            assert files_in(spool) == []
        for tool in tools:
            tool.check()
    assert all(tool.turns > trials // 10 for tool in tools)
    with served(mounting_of(place.url, *options), mountpoint=mountpoint) as mount:
        assert status(mount)["unsaved_chunks"] == 0
    assert files_in(spool) == []
