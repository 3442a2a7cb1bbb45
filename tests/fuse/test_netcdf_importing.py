"""netCDF files and CDL that programs put into an empty group of a real mount."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from tests.fuse.test_netcdf_files import FIELD, write_dataset
from tests.support.looking import failing_with, mounting_of, store_served
from tests.support.mounts import Served
from tests.support.mounts import nczfs as run_nczfs
from tests.support.mounts import served as served_by
from tests.support.netcdf import assert_same, ncdump, stored
from tests.support.settled import settled, status
from tests.support.waiting import until

REFUSED = "EIO|EPERM|EINVAL|EEXIST|dropped"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("original")
    write_dataset(str(directory / "d.zarr"))
    done = run_nczfs("export", directory / "d.zarr", directory / "d.nc")
    assert done.returncode == 0, done.stderr
    return directory / "d.nc"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "store").mkdir()
    with settled(tmp_path / "store", tmp_path / "spool", expect=REFUSED) as mount:
        yield mount


@pytest.fixture
def group(served: Served) -> Path:
    place = served.path / "datasets/foo.zarr"
    place.mkdir()
    return place


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=120
    )


def members(group: Path) -> set[str]:
    return set(os.listdir(group)) - {"info.json", "attributes", "zom.json"}


def test_a_group_that_holds_nothing_has_no_netcdf_file(group: Path) -> None:
    """SEMANTICS D19."""
    assert not members(group)
    (group / "attributes/title").write_text("a title")
    until(lambda: {"foo.nc", "foo.classic.nc", "foo.cdl"} <= members(group))


@pytest.mark.parametrize("kind", ["nc4", "classic", "64-bit data"])
def test_a_copied_file_becomes_the_group(
    group: Path, original: Path, tmp_path: Path, kind: str
) -> None:
    """SEMANTICS W50."""
    file = tmp_path / "copied.nc"
    assert run("nccopy", "-k", kind, original, file).returncode == 0
    assert run("cp", file, group / "foo.nc").returncode == 0
    with stored(group / "foo.nc") as one, stored(file) as other:
        assert_same(one, other)
    with nczfs.open(str(tmp_path / "store/foo.zarr")) as root:
        np.testing.assert_array_equal(np.asarray(root["t2m"]), FIELD)


def test_cdl_becomes_the_group(group: Path, original: Path, tmp_path: Path) -> None:
    text = tmp_path / "foo.cdl"
    text.write_text("netcdf foo {\n" + ncdump(original))
    assert run("cp", text, group / "foo.cdl").returncode == 0
    assert ncdump(group / "foo.nc") == ncdump(original)


@pytest.mark.parametrize(
    "words",
    [
        ("ncks", "-O", "FILE", "GROUP/foo.nc"),
        ("cdo", "-s", "copy", "FILE", "GROUP/foo.nc"),
        ("nccopy", "-d4", "FILE", "GROUP/foo.nc"),
        ("rsync", "FILE", "GROUP/foo.nc"),
        ("sh", "-c", "cp FILE GROUP/any.name && mv GROUP/any.name GROUP/foo.nc"),
    ],
    ids=lambda words: words[0],
)
def test_programs_write_into_an_empty_group(
    group: Path, original: Path, words: tuple[str, ...]
) -> None:
    done = run(*(w.replace("FILE", str(original)).replace("GROUP", str(group)) for w in words))
    assert done.returncode == 0, done.stderr
    with stored(group / "foo.nc") as file:
        np.testing.assert_array_equal(file["t2m"][:], FIELD)


def test_a_file_that_is_made_through_the_mount_is_imported_at_its_close(
    group: Path, tmp_path: Path
) -> None:
    with netCDF4.Dataset(group / "foo.nc", "w") as file:
        file.createDimension("x", 4)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2, 3, 4]
        assert not (tmp_path / "store/foo.zarr/v").exists()
    assert {"v", "foo.nc"} <= members(group)
    with nczfs.open(str(tmp_path / "store/foo.zarr")) as root:
        assert np.asarray(root["v"]).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["nc4", "classic"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_copy_that_is_cut_short_imports_nothing(
    group: Path, original: Path, tmp_path: Path, kind: str, share: float
) -> None:
    """SEMANTICS W78."""
    file = tmp_path / "whole.nc"
    assert run("nccopy", "-k", kind, original, file).returncode == 0
    data = file.read_bytes()
    short = tmp_path / "short.nc"
    short.write_bytes(data[: int(len(data) * share)])
    done = run("cp", short, group / "foo.nc")
    assert done.returncode == 1
    assert "failed to close" in done.stderr
    until(lambda: not members(group))
    assert sorted(path.name for path in (tmp_path / "store/foo.zarr").iterdir()) == [
        ".zattrs",
        ".zgroup",
    ]
    assert "foo.nc" in json.loads((group / "info.json").read_text())["problems"][0]


def test_a_killed_writer_imports_nothing(group: Path, tmp_path: Path) -> None:
    code = (
        "import netCDF4, sys, os, time; f = netCDF4.Dataset(sys.argv[1], 'w'); "
        "f.createDimension('x', 4); v = f.createVariable('v', 'i4', ('x',)); v[:] = 1; f.sync(); "
        "print('ready', flush=True); time.sleep(100)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(group / "foo.nc")], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        writer.send_signal(signal.SIGKILL)
    until(lambda: not members(group))
    assert not (tmp_path / "store/foo.zarr/v").exists()


def test_what_never_gets_the_name_of_the_file_is_counted_and_goes_at_the_end(
    tmp_path: Path, original: Path
) -> None:
    """SEMANTICS W79."""
    (tmp_path / "store").mkdir()
    spool = tmp_path / "spool"
    with store_served(tmp_path / "store", "--spool-dir", str(spool), expect="dropped") as served:
        group = served.path / "datasets/foo.zarr"
        group.mkdir()
        assert run("cp", original, group / "else.nc").returncode == 0
        assert status(served)["waiting_imports"] == 1
        with stored(group / "else.nc") as file:
            np.testing.assert_array_equal(file["t2m"][:], FIELD)
    assert not list(spool.glob("*"))
    assert not (tmp_path / "store/foo.zarr/t2m").exists()


def test_a_group_with_content_takes_no_file(group: Path, original: Path) -> None:
    """SEMANTICS W49."""
    assert run("cp", original, group / "foo.nc").returncode == 0
    done = run("cp", original, group / "else.nc")
    assert done.returncode == 1
    assert "Operation not permitted" in done.stderr
    done = run("ncks", "-O", original, group / "foo.nc")
    assert done.returncode != 0
    with stored(group / "foo.nc") as file:
        np.testing.assert_array_equal(file["t2m"][:], FIELD)


def test_chunks_and_codecs_of_imports_are_options(tmp_path: Path, original: Path) -> None:
    (tmp_path / "store").mkdir()
    options = ("-o", "import_chunks=time=3:lat=5,import_codecs=zstd:3")
    with settled(tmp_path / "store", tmp_path / "spool", *options) as mount:
        group = mount.path / "datasets/foo.zarr"
        group.mkdir()
        assert run("cp", original, group / "foo.nc").returncode == 0
        info = json.loads((group / "t2m/info.json").read_text())
    assert info["chunk_shape"] == [3, 5, 6]
    assert "zstd" in json.dumps(info)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 16 MB, which is imported into two thousand chunks."""
    path = tmp_path_factory.mktemp("large") / "large.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("y", 4_000)
        file.createDimension("x", 1024)
        file.createVariable("v", "i4", ("y", "x"))[:] = np.arange(1024, dtype="i4")
    return path


FINE = ("-o", "import_chunks=y=2", "--memory-limit", "16MiB")  # and read by small blocks


class Held:
    """An import of which the process that reads the file is stopped."""

    def __init__(self, mount: Served) -> None:
        (self.reader,) = readers_of(mount)
        os.kill(self.reader, signal.SIGSTOP)

    def go_on(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.reader, signal.SIGCONT)


@contextmanager
def import_under_way(
    store: Path, spool: Path, file: Path, *, url: str = ""
) -> Iterator[tuple[Served, subprocess.Popen[str], Held]]:
    """A mount in which `cp` waits for the end of an import, which is held; both may be killed."""
    words = mounting_of(url or store, "--spool-dir", str(spool), *FINE)
    with served_by(words, expect=".", exit_codes=None) as mount:
        group = mount.path / "datasets/foo.zarr"
        group.mkdir()
        with subprocess.Popen(
            ["cp", file, group / "foo.nc"], stderr=subprocess.PIPE, text=True
        ) as copying:
            until(lambda: len(list(store.glob("foo.zarr/v/*"))) > 20)
            held = Held(mount)
            try:
                yield mount, copying, held
            finally:
                held.go_on()


def readers_of(mount: Served) -> list[int]:
    """The processes that read files for a mount."""
    children = Path(f"/proc/{mount.process.pid}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    return [p for p in pids if b"reading_process" in Path(f"/proc/{p}/cmdline").read_bytes()]


def left_in(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "foo.zarr").iterdir())


def test_status_tells_what_is_done_of_an_import_and_nobody_sees_a_part(
    tmp_path: Path, large: Path
) -> None:
    """SEMANTICS W50, W79."""
    store = tmp_path / "store"
    store.mkdir()
    with import_under_way(store, tmp_path / "spool", large) as (mount, copying, held):
        (found,) = status(mount)["imports"]
        assert found["file"] == "foo.zarr/foo.nc"
        assert 0 < found["percent"] < 100
        assert members(mount.path / "datasets/foo.zarr") == {"foo.nc"}
        held.go_on()
        assert copying.wait(120) == 0
        assert status(mount)["imports"] == []
        assert "v" in members(mount.path / "datasets/foo.zarr")


def test_a_signal_that_ends_the_mount_ends_an_import(tmp_path: Path, large: Path) -> None:
    """SEMANTICS W62."""
    store = tmp_path / "store"
    store.mkdir()
    with import_under_way(store, tmp_path / "spool", large) as (mount, copying, held):
        mount.process.send_signal(signal.SIGTERM)
        held.go_on()
        assert copying.wait(120) != 0
        assert mount.process.wait(120) == 1
    assert left_in(store) == [".zattrs", ".zgroup"]
    assert not list((tmp_path / "spool").glob("*"))


@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
def test_what_a_killed_mount_left_of_an_import_goes_with_the_next_one(
    tmp_path: Path, large: Path, original: Path, mode: str
) -> None:
    """SEMANTICS W80."""
    store = tmp_path / "store"
    store.mkdir()
    url = f"file://{store}#mode={mode}"
    with import_under_way(store, tmp_path / "spool", large, url=url) as (mount, copying, _):
        mount.process.send_signal(signal.SIGKILL)
        assert copying.wait(120) != 0
    assert ".nczfs_unfinished" in left_in(store)
    with store_served(url, "--spool-dir", str(tmp_path / "spool"), expect=".") as again:
        group = again.path / "datasets/foo.zarr"
        assert not members(group)
        assert run("cp", original, group / "foo.nc").returncode == 0
        with stored(group / "foo.nc") as file:
            np.testing.assert_array_equal(file["t2m"][:], FIELD)
    assert not {"v", ".nczfs_unfinished"} & set(left_in(store))


def test_an_import_fails_whose_reading_process_is_killed(tmp_path: Path, large: Path) -> None:
    """SEMANTICS W81."""
    store = tmp_path / "store"
    store.mkdir()
    with import_under_way(store, tmp_path / "spool", large) as (mount, copying, held):
        os.kill(held.reader, signal.SIGKILL)
        assert copying.wait(120) != 0
        assert left_in(store) == [".zattrs", ".zgroup"]
        assert not readers_of(mount)


def test_a_second_import_does_not_mix_with_one_under_way(
    tmp_path: Path, large: Path, original: Path
) -> None:
    """SEMANTICS W82."""
    store = tmp_path / "store"
    store.mkdir()
    with import_under_way(store, tmp_path / "spool", large) as (mount, copying, held):
        group = mount.path / "datasets/foo.zarr"
        assert run("cp", original, group / "other").returncode == 0
        with failing_with(errno.EEXIST):
            os.rename(group / "other", group / "foo.classic.nc")
        held.go_on()
        assert copying.wait(120) == 0
        with stored(group / "foo.nc") as file:
            assert list(file.variables) == ["v"]


def test_what_another_program_makes_during_an_import_stays(tmp_path: Path, large: Path) -> None:
    """SEMANTICS W82."""
    store = tmp_path / "store"
    store.mkdir()
    with import_under_way(store, tmp_path / "spool", large) as (_, copying, held):
        with nczfs.open(str(store / "foo.zarr"), "r+") as root:
            root.create_dimension("x", 2)
            root.create_variable("w", ("x",), data=np.arange(2))
        held.go_on()
        assert copying.wait(120) != 0
    with nczfs.open(str(store / "foo.zarr")) as root:
        assert list(root.variables) == ["w"]
        assert np.asarray(root["w"]).tolist() == [0, 1]
    assert "v" not in left_in(store)
