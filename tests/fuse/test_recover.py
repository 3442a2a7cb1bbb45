"""What a killed daemon left in the spool, put back when the store has gone on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import numpy as np
import pytest

from nczfs.cli.main import main
from nczfs.library.opening import open_url
from nczfs.tools import recovery
from tests.support.looking import mounting_of
from tests.support.mounts import NCZFS, Served, nczfs, served
from tests.support.refusing import small_disk

VALUES = np.arange(24, dtype="<i4").reshape(4, 6)
WAITING = r"of what was written in an earlier mount are not stored"
WRITTEN = bytes(range(250)) * 4


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "data.zarr"
    with open_url(str(store), "w") as root:
        root.create_variable("v", (4, 6), "i4", VALUES, chunks=(2, 3))
    return store


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def command(store: Path, spool: Path, *options: str) -> list[str]:
    return mounting_of(store, "--spool-dir", str(spool), *options)


@contextmanager
def killed(store: Path, spool: Path) -> Iterator[Path]:
    """The file of the variable in a mount with a journal that is killed at the end of the block."""
    with served(command(store, spool, "-o", "journal"), exit_codes=None) as mount:
        yield values_in(mount)
        mount.process.kill()
        mount.process.wait()


def values_in(mount: Served) -> Path:
    (name,) = os.listdir(mount.path / "datasets")
    return mount.path / "datasets" / name / "v/values.raw"


def write(path: Path, index: int, value: int, *, sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.pwrite(descriptor, np.int32(value).tobytes(), 4 * index)
    if sync:
        os.fsync(descriptor)
        os.close(descriptor)


def stored(store: Path) -> list[int]:
    with open_url(str(store)) as root:
        return [int(value) for value in root.variables["v"][...].flat]


def test_values_that_a_later_mount_stored_are_put_over_by_force_alone(
    store: Path, spool: Path
) -> None:
    """SEMANTICS W51."""
    with killed(store, spool) as path:
        write(path, 1, -1, sync=False)
        write(path, 9, -9, sync=False)
    with served(command(store, spool), expect=WAITING) as mount:
        write(values_in(mount), 1, 71, sync=True)
    refused = nczfs("recover", "--spool-dir", spool)
    assert refused.returncode == 1
    assert "1 elements differ, the first at [0, 1]: the store has 71, the spool -1" in (
        refused.stdout
    )
    wanted = list(range(24))
    wanted[1], wanted[9] = 71, -9
    assert stored(store) == wanted
    assert nczfs("recover", "--spool-dir", spool, "--force").returncode == 0
    wanted[1] = -1
    assert stored(store) == wanted
    assert list(spool.iterdir()) == []


def test_what_is_put_back_from_a_full_disk_leaves_it(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W53."""
    spool, filler = tmp_path / "disk/spool", tmp_path / "disk/filler"
    with small_disk(tmp_path / "disk", 2):
        with killed(store, spool) as path:
            write(path, 1, -1, sync=False)
            write(path, 9, -9, sync=False)
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        done = nczfs("recover", "--spool-dir", spool)
        assert (done.returncode, list(spool.iterdir())) == (0, []), done
        assert "nczfs recover` may list data that are stored already" in done.stderr
    wanted = list(range(24))
    wanted[1], wanted[9] = -1, -9
    assert stored(store) == wanted


def test_of_two_recovers_one_waits_for_the_other(store: Path, spool: Path) -> None:
    """SEMANTICS W60."""
    with killed(store, spool) as path:
        write(path, 1, -1, sync=False)
    words = [sys.executable, "-m", "nczfs.cli.main", "recover", "--spool-dir", str(spool)]
    with recovery.alone(spool):
        process = Popen(words, stdout=PIPE, stderr=PIPE, text=True)
        try:
            assert process.stderr is not None
            assert "waiting for another nczfs recover to end" in process.stderr.readline()
            listed = nczfs("recover", "--spool-dir", spool, "--list")
            assert listed.stdout.count(": unsaved (") == 1
        except BaseException:
            process.kill()
            raise
    assert process.communicate(timeout=60)[0].endswith(": stored\n")
    assert process.returncode == 0
    assert stored(store)[1] == -1


KILLS_ITSELF = """
import os, signal, sys
from nczfs.cli.main import main
from nczfs.vfs.staging import StagedFile

left = int(sys.argv.pop(1))
keep = StagedFile.keep

def counted(call):
    def step(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return step

def killed_within(*arguments):
    calls = {name: getattr(os, name) for name in STEPS}
    for name, call in calls.items():
        setattr(os, name, counted(call))
    try:
        return keep(*arguments)
    finally:
        os.write(1, b"KEPT")
        for name, call in calls.items():
            setattr(os, name, call)

STEPS = "fsync fdatasync ftruncate open pwrite rename unlink write writev".split()
StagedFile.keep = killed_within
sys.exit(main())
"""


def was_kept(mount: Served) -> bool:
    """Wait until the file is kept, or the daemon has killed itself before that."""
    end = time.monotonic() + 60
    while mount.process.poll() is None and b"KEPT" not in mount.log.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.02)
    return b"KEPT" in mount.log.read_bytes()


def test_a_file_has_its_own_bytes_alone_wherever_keeping_it_was_interrupted(
    tmp_path: Path,
) -> None:
    """SEMANTICS O17, W21."""
    for step in range(100):
        store, spool = tmp_path / f"store{step}", tmp_path / f"spool{step}"
        store.mkdir()
        (store / "a").write_bytes(b"as it was")
        words = command(store, spool, "-o", "journal")[len(NCZFS) :]
        with served(
            [sys.executable, "-c", KILLS_ITSELF, str(step), *words], exit_codes=None
        ) as mount:
            descriptor = os.open(mount.path / "objects/a", os.O_RDWR)
            os.write(descriptor, WRITTEN)
            (store / "a").write_bytes(b"of another client")
            with suppress(OSError):
                os.close(descriptor)
            is_kept = was_kept(mount)
            mount.process.kill()
            mount.process.wait()
        assert main(["recover", "--spool-dir", str(spool)]) == 1
        assert main(["recover", "--spool-dir", str(spool), "--force"]) == 0
        assert (store / "a").read_bytes() == WRITTEN, step
        assert list(spool.iterdir()) == []
        if is_kept:
            break
    assert is_kept
    assert step > 3
