"""Real mounts with ``--layout flat``: programs find the netCDF files of an archive that moved."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray

import nczfs
from tests.support.looking import failing_with
from tests.support.mounts import Served
from tests.support.mounts import nczfs as run_nczfs
from tests.support.sample import upload
from tests.support.servers import S3Server
from tests.support.settled import settled

DAYS = ("2026/01", "2026/02", "2027/01")
REFUSED = "EPERM|EINVAL"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of datasets by year, with a file beside them."""
    place = tmp_path_factory.mktemp("archive")
    for number, day in enumerate(DAYS):
        with nczfs.open(str(place / f"{day}.zarr"), "w") as root:
            root.create_dimension("time", None)
            root.create_dimension("x", 3)
            hours = {"units": "hours since 2026-01-01", "standard_name": "time"}
            times = np.arange(4.0) + 4 * number
            root.create_variable("time", ("time",), "f8", times, attributes=hours)
            root.create_variable("v", ("time", "x"), "f4", np.full((4, 3), number, "f4"))
    (place / "2026/README").write_text("about\n")
    return place


@pytest.fixture(scope="module")
def mount(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("mounted")
    shutil.copytree(archive, place / "store")
    options = ("--layout", "flat")
    with settled(place / "store", place / "spool", *options, expect=REFUSED) as found:
        yield found


def run(words: str, place: Path) -> str:
    """What a command line prints in a directory."""
    done = subprocess.run(
        ["sh", "-c", words], cwd=place, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_walk_finds_the_files_of_the_archive_alone(mount: Served) -> None:
    """SEMANTICS F1."""
    found = run("find . | sort", mount.path).split()
    assert found == [".", "./2026", "./2026/01.nc", "./2026/02.nc", "./2027", "./2027/01.nc"]
    assert run("echo */*.nc", mount.path).split() == [f"{day}.nc" for day in DAYS]
    assert json.loads((mount.path / ".nczfs/config.json").read_text())["layout"] == "flat"


@pytest.mark.parametrize(
    "words",
    [
        "ncrcat -O 2026/*.nc 2027/*.nc OUT",
        "cdo -s mergetime 2026/*.nc 2027/*.nc OUT",
        "find . -name '*.nc' | sort | xargs -I{} ncdump -h {} && ncrcat -O */*.nc OUT",
    ],
    ids=["ncrcat", "cdo", "find"],
)
def test_programs_that_walk_a_directory_run_unchanged(
    mount: Served, tmp_path: Path, words: str
) -> None:
    run(words.replace("OUT", str(tmp_path / "out.nc")), mount.path)
    with netCDF4.Dataset(tmp_path / "out.nc") as joined:
        np.testing.assert_array_equal(joined["time"][:], np.arange(12))
        np.testing.assert_array_equal(joined["v"][:, 0], np.repeat([0, 1, 2], 4))


def test_xarray_opens_the_files_together(mount: Served) -> None:
    with xarray.open_mfdataset(f"{mount.path}/2026/*.nc", engine="netcdf4") as both:
        np.testing.assert_array_equal(both.v[:, 0], np.repeat([0, 1], 4))


def test_programs_put_new_files_beside_the_others(mount: Served, tmp_path: Path) -> None:
    """SEMANTICS F3, F4."""
    place = mount.path / "2028"
    place.mkdir()
    shutil.copyfile(mount.path / "2026/01.nc", tmp_path / "a.nc")
    for words in (f"cp {tmp_path}/a.nc b.nc", "ncks -O b.nc c.nc", "cdo -s addc,1 b.nc d.nc"):
        run(words, place)
    assert sorted(os.listdir(place)) == ["b.nc", "c.nc", "d.nc"]
    run("ncap2 -A -s 'v+=5' b.nc e.nc", place)
    with netCDF4.Dataset(place / "c.nc", "r+") as file:
        file["v"][2, 1] = 7
    for name, expected in (("c.nc", [0, 7, 0]), ("d.nc", [1, 1, 1]), ("e.nc", [5, 5, 5])):
        with netCDF4.Dataset(place / name) as file:
            assert [*file["v"][2]] == expected
    with failing_with(errno.EPERM):
        (place / "b.nc").unlink()
    with failing_with(errno.EPERM):
        (place / "notes.txt").write_text("1")


def test_a_dataset_is_warmed_and_evicted_by_its_url_and_its_path(mount: Served) -> None:
    store = json.loads((mount.path / ".nczfs/config.json").read_text())["url"]
    before = (mount.path / "2026/01.nc").stat().st_size
    with nczfs.open(f"{store}/2026/01.zarr", "r+") as root:
        root.create_variable("w", ("x",), data=np.arange(3.0))
    for place in (f"{store}/2026/01.zarr", mount.path / "2026/01.nc"):
        assert run_nczfs("evict", place).returncode == 0
        assert run_nczfs("warm", place).stdout.startswith("6 chunks loaded: ")
    assert (mount.path / "2026/01.nc").stat().st_size > before


def test_a_bucket_is_shown_in_the_same_way(archive: Path, tmp_path: Path, ceph: S3Server) -> None:
    """SEMANTICS F1, F4."""
    bucket = ceph.new_bucket()
    client = ceph.client()
    upload(client, bucket, "era", archive)
    client.close()
    with settled(ceph.url(f"{bucket}/era"), tmp_path / "spool", "-o", "layout=flat") as mount:
        assert run("find . -type f | sort", mount.path).split() == [f"./{d}.nc" for d in DAYS]
        run(f"ncrcat -O */*.nc {tmp_path}/out.nc", mount.path)
        run("mkdir 2028 && cp 2026/02.nc 2028/02.nc", mount.path)
        assert run("ncdump -h 2028/02.nc", mount.path) == run("ncdump -h 2026/02.nc", mount.path)
    with nczfs.open(ceph.url(f"{bucket}/era/2028/02.zarr")) as root:
        assert np.asarray(root["v"]).sum() == 12


def test_programs_replace_the_only_dataset_of_a_store(archive: Path, tmp_path: Path) -> None:
    """SEMANTICS F4, F5."""
    shutil.copytree(archive / "2026/02.zarr", tmp_path / "02.zarr")
    options = ("--layout", "flat", "-o", "allow_delete,allow_replace")
    with settled(tmp_path / "02.zarr", tmp_path / "spool", *options) as mount:
        words = "ncap2 -O -s 'v+=5' 02.nc OUT/02.nc && rsync OUT/02.nc ./"
        run(words.replace("OUT", str(tmp_path)), mount.path)
        with netCDF4.Dataset(mount.path / "02.nc") as file:
            assert [*file["v"][2]] == [6, 6, 6]
        run("cp 02.nc 02.nc.tmp && ls 02.nc.tmp && rm 02.nc.tmp", mount.path)
        run("ncks -O -x -v v 02.nc 02.nc", mount.path)
        assert os.listdir(mount.path) == ["02.nc"]
    with nczfs.open(str(tmp_path / "02.zarr")) as root:
        assert set(root.variables) == {"time"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--views-only",), "--views-only and --layout flat exclude each other"),
        (("--views", "values.raw"), "--layout flat shows one file of each dataset: --views nc or"),
    ],
    ids=lambda words: words[0],
)
def test_options_that_the_layout_cannot_follow_are_refused(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "mnt").mkdir()
    done = run_nczfs("mount", tmp_path, tmp_path / "mnt", "--layout", "flat", *words)
    assert done.returncode == 2
    assert message in done.stderr
