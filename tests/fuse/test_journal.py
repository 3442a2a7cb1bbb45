"""A daemon that is killed right after write(2) returned."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nczfs.library.opening import open_url
from tests.support.looking import mounting_of
from tests.support.mounts import Served, nczfs, served
from tests.support.settled import settled

VALUES = np.arange(24, dtype="<i4").reshape(4, 6)
WAITING = r"\d+ pieces of what was written in an earlier mount are not stored: `nczfs recover`"


@pytest.fixture(params=["data.zarr", "data.zip"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A dataset in a directory, or in an archive, which gathers what is written to it."""
    store = tmp_path / str(request.param)
    with open_url(str(store), "w") as root:
        root.create_dimension("t", None)
        root.create_variable("v", (4, 6), "i4", VALUES, chunks=(2, 3))
        root.create_variable("r", ("t", 6), "i4", VALUES[:2], chunks=(2, 6))
    return store


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def command(store: Path, spool: Path, *options: str) -> list[str]:
    return mounting_of(store, "--spool-dir", str(spool), *options)


def kill(mount: Served) -> None:
    mount.process.kill()
    mount.process.wait()


def dataset(mount: Served) -> Path:
    (name,) = os.listdir(mount.path / "datasets")
    return mount.path / "datasets" / name


@pytest.mark.parametrize("how", ["journal", "journal=fsync"])
def test_what_write_acknowledged_survives_the_daemon(store: Path, spool: Path, how: str) -> None:
    """SEMANTICS W21."""
    with served(command(store, spool, "-o", how), exit_codes=None) as mount:
        new = os.open(mount.path / "objects/new", os.O_WRONLY | os.O_CREAT)
        part = os.open(dataset(mount) / "v/values.raw", os.O_WRONLY)
        longer = os.open(dataset(mount) / "r/values.raw", os.O_WRONLY | os.O_APPEND)
        os.write(new, b"some")
        os.write(longer, VALUES[2:].tobytes())
        os.pwrite(part, np.array([-1, -2, -3], "<i4").tobytes(), 8)
        os.write(new, b" bytes")
        os.pwrite(part, np.array([-4], "<i4").tobytes(), 4 * 23)
        kill(mount)
        for descriptor in (new, part, longer):
            with suppress(OSError):
                os.close(descriptor)
    with served(command(store, spool), expect=WAITING) as mount:
        assert re.search(WAITING, mount.log.read_text())
    done = nczfs("recover", "--spool-dir", spool)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(spool.iterdir()) == []
    with served(command(store, spool)) as mount:
        assert (mount.path / "objects/new").read_bytes() == b"some bytes"
        wanted = VALUES.copy()
        wanted.flat[[2, 3, 4, 23]] = -1, -2, -3, -4
        assert (dataset(mount) / "v/values.raw").read_bytes() == wanted.tobytes()
        assert (dataset(mount) / "r/values.raw").read_bytes() == VALUES.tobytes()


@pytest.mark.parametrize("store", ["data.zarr"], indirect=True)
def test_without_the_option_what_fsync_confirmed_survives(store: Path, spool: Path) -> None:
    """SEMANTICS W1."""
    with served(command(store, spool), exit_codes=None) as mount:
        part = os.open(dataset(mount) / "v/values.raw", os.O_WRONLY)
        os.pwrite(part, np.array([-1], "<i4").tobytes(), 8)
        os.fsync(part)
        os.pwrite(part, np.array([-2], "<i4").tobytes(), 12)
        kill(mount)
        with suppress(OSError):
            os.close(part)
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    with served(command(store, spool)) as mount:
        found = np.fromfile(dataset(mount) / "v/values.raw", "<i4")
    assert found[2] == -1
    assert found[3] in (-2, 3)
    assert (found[4:] == VALUES.flat[4:]).all()


def test_nothing_is_left_of_a_mount_that_ends(store: Path, spool: Path) -> None:
    with settled(store, spool, "-o", "journal") as mount:
        with (dataset(mount) / "v/values.raw").open("r+b", buffering=0) as file:
            file.write(np.array([-1], "<i4").tobytes())
        (mount.path / "objects/new").write_bytes(b"new")
