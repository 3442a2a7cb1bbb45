"""netCDF files that replace the content of a group of a real mount (`-o allow_replace`)."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import zarr

import nczfs
from tests.fuse.test_netcdf_importing import Held, run
from tests.support.looking import failing_with, mounting_of, store_served
from tests.support.mounts import Served, served
from tests.support.mounts import nczfs as run_nczfs
from tests.support.netcdf import stored
from tests.support.settled import settled
from tests.support.waiting import until

ROWS = 64
EXPECTED = "EIO|EPERM|EINVAL|ENOTEMPTY|ESTALE|dropped|a chunk decodes to"
"""Log lines of readers of replaced content, which may meet a chunk of the new shape (W49)."""


def write_field(path: Path, value: int, rows: int = ROWS) -> Path:
    """A file in which every value of `v`, and an attribute, tell which one it is."""
    with netCDF4.Dataset(path, "w") as file:
        file.which = value
        file.createDimension("y", rows)
        file.createDimension("x", 1024)
        file.createVariable("v", "i4", ("y", "x"), chunksizes=(8, 1024))[:] = value
        file.createVariable(f"only_in_{value}", "f8", ("x",))[:] = value
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_field(tmp_path / "1.nc", 1), write_field(tmp_path / "2.nc", 2, rows=80)


@pytest.fixture
def replacing(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "store").mkdir()
    options = ("-o", "allow_replace")
    with settled(tmp_path / "store", tmp_path / "spool", *options, expect=EXPECTED) as mount:
        yield mount


@pytest.fixture
def group(replacing: Served, files: tuple[Path, Path]) -> Path:
    """A group with the content of the first file."""
    place = replacing.path / "datasets/foo.zarr"
    place.mkdir()
    assert run("cp", files[0], place / "foo.nc").returncode == 0
    return place


def shown(group: Path) -> tuple[int, set[int], set[str]]:
    """What tells of which file the group is: an attribute, the values, the variables."""
    with stored(group / "foo.nc") as file:
        return int(file.which), set(np.unique(file["v"][:]).tolist()), set(file.variables)


def in_store(tmp_path: Path) -> tuple[int, set[int], set[str]]:
    root = zarr.open_group(str(tmp_path / "store/foo.zarr"), mode="r")
    return (
        int(str(root.attrs["which"])),
        set(np.unique(np.asarray(root["v"])).tolist()),
        set(root.array_keys()),
    )


ONE = (1, {1}, {"v", "only_in_1"})
TWO = (2, {2}, {"v", "only_in_2"})


@pytest.mark.parametrize(
    "words",
    [
        ("cp", "FILE", "GROUP/foo.nc"),
        ("cp", "FILE", "GROUP/foo.classic.nc"),
        ("rsync", "FILE", "GROUP/foo.nc"),
        ("ncks", "-O", "FILE", "GROUP/foo.nc"),
        ("cdo", "-s", "setattribute,which=2", "FILE", "GROUP/foo.nc"),
        ("nccopy", "-d4", "FILE", "GROUP/foo.nc"),
        ("sh", "-c", "cp FILE GROUP/any.name && mv -f GROUP/any.name GROUP/foo.nc"),
        ("sh", "-c", "cp FILE /tmp/$$.nc && mv -f /tmp/$$.nc GROUP/foo.nc"),
        ("sh", "-c", "ncdump FILE | sed 's/^netcdf [^ ]*/netcdf foo/' > GROUP/foo.cdl"),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_a_program_replaces_the_content_of_a_group(
    group: Path, files: tuple[Path, Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """SEMANTICS W61, W73."""
    done = run(*(w.replace("FILE", str(files[1])).replace("GROUP", str(group)) for w in words))
    assert done.returncode == 0, done.stderr
    assert shown(group) == TWO
    assert in_store(tmp_path) == TWO
    assert sorted(os.listdir(tmp_path / "store")) == ["foo.zarr"]


def test_without_the_option_an_open_that_truncates_is_refused(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    """SEMANTICS W49."""
    (tmp_path / "store").mkdir()
    with settled(tmp_path / "store", tmp_path / "spool", expect=EXPECTED) as mount:
        group = mount.path / "datasets/foo.zarr"
        group.mkdir()
        assert run("cp", files[0], group / "foo.nc").returncode == 0
        for name in ("foo.nc", "foo.classic.nc", "foo.cdl"):
            with failing_with(errno.EPERM):
                os.open(group / name, os.O_WRONLY | os.O_TRUNC)
        assert shown(group) == ONE


def test_values_are_still_edited_in_place(group: Path, tmp_path: Path) -> None:
    """SEMANTICS W61."""
    with netCDF4.Dataset(group / "foo.nc", "r+") as file:
        file["v"][3] = 7
    assert shown(group) == (1, {1, 7}, {"v", "only_in_1"})
    assert in_store(tmp_path) == (1, {1, 7}, {"v", "only_in_1"})


@pytest.mark.parametrize("share", [0.3, 0.99])
def test_the_old_content_stands_if_the_file_is_cut_short(
    group: Path, files: tuple[Path, Path], tmp_path: Path, share: float
) -> None:
    """SEMANTICS W72, W73."""
    data = files[1].read_bytes()
    short = tmp_path / "short.nc"
    short.write_bytes(data[: int(share * len(data))])
    for program in ("cp", "rsync", "mv"):
        done = run(program, short, group / "foo.nc")
        assert done.returncode != 0
        assert shown(group) == ONE
    assert in_store(tmp_path) == ONE
    until(lambda: "foo.nc" in json.loads((group / "info.json").read_text())["problems"][0])
    assert not [name for name in os.listdir(group) if name.startswith(".foo")]


def test_the_old_content_stands_if_nothing_is_written(group: Path, tmp_path: Path) -> None:
    """SEMANTICS W71."""
    for name in ("foo.nc", "foo.cdl"):
        assert run("sh", "-c", f": > {group / name}").returncode == 0
    assert shown(group) == ONE
    assert in_store(tmp_path) == ONE
    with netCDF4.Dataset(group / "foo.nc", "r+") as file:
        file["v"][0] = 5
    assert in_store(tmp_path) == (1, {1, 5}, {"v", "only_in_1"})


def test_readers_see_the_old_content_or_the_new_one(group: Path, files: tuple[Path, Path]) -> None:
    """SEMANTICS W74."""
    whole = {(group / "foo.nc").read_bytes(): 1}
    assert run("cp", files[1], group / "foo.nc").returncode == 0
    whole[(group / "foo.nc").read_bytes()] = 2
    seen: set[int | None] = set()
    every: set[int | None] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            try:
                seen.add(whole.get((group / "foo.nc").read_bytes()))
            except OSError as error:  # it was replaced while it was open
                seen.add(error.errno)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for turn in range(12):
            seen.clear()
            assert run("cp", files[turn % 2], group / "foo.nc").returncode == 0
            every |= seen
            until(partial(seen.__contains__, turn % 2 + 1))
    finally:
        ended.set()
        for reader in readers:
            reader.join()
    assert every | seen <= {1, 2, errno.ESTALE}


def test_a_file_that_is_open_for_reading_keeps_the_old_content_until_it_is_replaced(
    group: Path, files: tuple[Path, Path]
) -> None:
    """SEMANTICS W71."""
    old = (group / "foo.nc").read_bytes()
    with open(group / "foo.nc", "rb", buffering=0) as reader:
        with open(group / "foo.nc", "wb", buffering=0) as writer:
            writer.write(files[1].read_bytes())
            assert os.fstat(writer.fileno()).st_size == files[1].stat().st_size
            assert (group / "foo.nc").stat().st_size == len(old)
            assert (group / "foo.nc").read_bytes() == old
            assert os.pread(reader.fileno(), len(old), 0) == old
        assert shown(group) == TWO
        found = b""
        try:
            while piece := os.pread(reader.fileno(), len(old), len(found)):
                found += piece  # what the page cache still has of it
        except OSError as error:
            assert error.errno == errno.ESTALE  # noqa: PT017
        assert old.startswith(found)


def test_a_group_below_is_replaced_alone(tmp_path: Path, files: tuple[Path, Path]) -> None:
    with nczfs.open(str(tmp_path / "store/d.zarr"), "w", consolidated=True) as root:
        root.create_dimension("x", 3)
        root.create_variable("kept", ("x",), data=np.arange(3))
        below = root.create_group("below")
        below.create_dimension("z", 2)
        below.create_variable("old", ("z",), data=np.arange(2.0))
    options = ("-o", "allow_replace")
    with settled(tmp_path / "store", tmp_path / "spool", *options, expect=EXPECTED) as mount:
        group = mount.path / "datasets/d.zarr/below"
        assert run("cp", files[1], group / "below.nc").returncode == 0
        with stored(mount.path / "datasets/d.zarr/d.nc") as file:
            assert file["kept"][:].tolist() == [0, 1, 2]
            assert set(file["below"].variables) == {"v", "only_in_2"}
    with nczfs.open(str(tmp_path / "store/d.zarr")) as root:
        assert np.unique(np.asarray(root["below/v"])).tolist() == [2]
    done = run(
        "python3",
        "-c",
        "import json,sys; print(*json.load(open(sys.argv[1]))['metadata'])",
        tmp_path / "store/d.zarr/.zmetadata",
    )
    assert "below/v/.zarray" in done.stdout
    assert "below/old/.zarray" not in done.stdout


def test_a_file_of_another_program_in_the_group_is_not_lost(
    group: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """SEMANTICS W72."""
    (tmp_path / "store/foo.zarr/README").write_text("mine")
    assert run("cp", files[1], group / "foo.nc").returncode == 1
    assert shown(group) == ONE
    assert (tmp_path / "store/foo.zarr/README").read_text() == "mine"
    assert "README" in (group / "info.json").read_text()


def test_a_killed_mount_leaves_the_old_content_and_the_next_one_removes_the_rest(
    tmp_path: Path,
) -> None:
    """SEMANTICS W74."""
    store = tmp_path / "store"
    store.mkdir()
    large = write_field(tmp_path / "large.nc", 2, rows=8_000)
    options = ["-o", "allow_replace,import_chunks=y=8", "--memory-limit", "16MiB"]
    options += ["--spool-dir", str(tmp_path / "spool")]
    with served(mounting_of(store, *options), expect=".", exit_codes=None) as mount:
        group = mount.path / "datasets/foo.zarr"
        group.mkdir()
        small = write_field(tmp_path / "1.nc", 1)
        assert run("cp", small, group / "foo.nc").returncode == 0
        copying = threading.Thread(target=run, args=("cp", large, group / "foo.nc"))
        copying.start()
        until(lambda: len(list(store.glob(".nczfs-new-*/new/v/*"))) > 10)
        held = Held(mount)
        mount.process.send_signal(signal.SIGKILL)
        held.go_on()
        copying.join()
    assert in_store(tmp_path) == ONE
    assert list(store.glob(".nczfs-new-*"))
    with store_served(store, "--spool-dir", str(tmp_path / "spool"), expect=".") as mount:
        assert shown(mount.path / "datasets/foo.zarr") == ONE
        os.listdir(mount.path / "datasets")
        until(lambda: not list(store.glob(".nczfs-new-*")))


def test_the_dataset_that_fills_a_store_is_replaced_by_steps(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    """SEMANTICS W63."""
    done = run_nczfs("import", files[0], tmp_path / "foo.zarr")
    assert done.returncode == 0, done.stderr
    options = ("-o", "allow_replace")
    with settled(tmp_path / "foo.zarr", tmp_path / "spool", *options, expect=EXPECTED) as mount:
        assert run("cp", files[1], mount.path / "datasets/foo.zarr/foo.nc").returncode == 0
        assert shown(mount.path / "datasets/foo.zarr") == TWO
    root = zarr.open_group(str(tmp_path / "foo.zarr"), mode="r")
    assert set(root.array_keys()) == TWO[2]
    assert not [path for path in (tmp_path / "foo.zarr").rglob("*") if "replacing" in path.name]
