"""mv of variables and groups on a mount, while programs have their files open."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from tests.support.looking import mounting_of
from tests.support.mounts import nczfs as command
from tests.support.mounts import served
from tests.support.places import Place, directory_at, requested_place
from tests.support.sample import output
from tests.support.settled import settled

REFUSED = r"EPERM|EXDEV|EINVAL|EEXIST"
COUNT = 4000


@pytest.fixture(params=("directory", "ceph"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A dataset of NCZarr, d.zarr, and one of pure Zarr, p.zarr."""
    place = requested_place(request, tmp_path)
    make(place)
    return place


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make(directory_at(tmp_path / "store"))
    return tmp_path / "store"


def make(place: Place) -> None:
    for name, format in (("d.zarr", "nczarr-L3"), ("p.zarr", "zarr2")):
        with nczfs.open(place.url_of(name), "w", format=format, consolidated=True) as root:
            root.create_dimension("t", None if name == "d.zarr" else 4)
            root.create_dimension("x", 1000)
            values = np.arange(COUNT, dtype="i4").reshape(4, 1000)
            root.create_variable("v", ("t", "x"), "<i4", values, chunks=(1, 100))
            root.create_variable("x", ("x",), "<f8", np.arange(1000.0))
            group = root.create_group("g", {"title": "t"})
            group.create_dimension("y", 3)
            group.create_variable("a", ("y",), "<i4", np.ones(3, "i4"))
            group.create_group("deep")


@pytest.fixture
def datasets(place: Place, tmp_path: Path) -> Iterator[Path]:
    with settled(place.url, tmp_path / "spool", "-o", "allow_delete", expect=REFUSED) as mount:
        yield mount.path / "datasets"


def values_of(place: Place, path: str) -> list[int]:
    """As somebody reads them who shares nothing with the mount."""
    dataset, _, path = path.partition("/")
    with nczfs.open(place.url_of(dataset)) as root:
        found: list[int] = np.asarray(root[path][...]).ravel().tolist()  # type: ignore[index]
        return found


@pytest.mark.parametrize("dataset", ["d.zarr", "p.zarr"])
def test_files_that_are_open_follow_their_variable(
    datasets: Path, place: Place, dataset: str
) -> None:
    """SEMANTICS W32."""
    root = datasets / dataset
    expected = np.arange(COUNT, dtype="i4")
    with (
        (root / "v/values.raw").open("rb", buffering=0) as reader,
        (root / "v/values.raw").open("r+b", buffering=0) as writer,
        (root / "v/chunks/0.1").open("r+b", buffering=0) as chunk,
    ):
        mapped = np.load(root / "v/values.npy", mmap_mode="r+")
        numbers = [os.fstat(file.fileno()).st_ino for file in (reader, chunk)]
        writer.write(np.full(10, -1, "i4").tobytes())
        mapped[1, 1] = -2
        output("mv", root / "v", root / "renamed")
        expected[:10], expected[1001] = -1, -2
        assert np.frombuffer(os.pread(reader.fileno(), 4 * COUNT, 0), "i4").tolist() == (
            expected.tolist()
        )
        writer.write(np.full(5, -3, "i4").tobytes())
        os.fsync(writer.fileno())
        expected[10:15] = -3
        assert values_of(place, f"{dataset}/renamed")[:15] == expected[:15].tolist()
        chunk.write(np.full(2, -4, "i4").tobytes())
        mapped[2, 2] = -5
        mapped.flush()
        expected[100:102], expected[2002] = -4, -5
        names = ("values.raw", "chunks/0.1")
        assert [os.stat(root / "renamed" / name).st_ino for name in names] == numbers
    assert np.fromfile(root / "renamed/values.raw", "i4").tolist() == expected.tolist()
    assert values_of(place, f"{dataset}/renamed") == expected.tolist()
    info = json.loads((root / "renamed/info.json").read_text())
    assert (info["name"], info["path"], info["problems"]) == ("renamed", "/renamed", [])
    assert sorted(json.loads((root / "info.json").read_text())["variables"]) == ["renamed", "x"]
    assert not (root / "v").exists()
    assert "renamed(t, x)" in (root / f"{dataset[0]}.cdl").read_text()
    objects = datasets.parent / "objects" / dataset
    assert sorted(p.name for p in objects.iterdir() if p.is_dir()) == ["g", "renamed", "x"]
    assert command("verify", place.url_of(dataset)).returncode == 0


def test_records_are_added_to_a_variable_that_was_renamed(datasets: Path, place: Place) -> None:
    """SEMANTICS W32."""
    root = datasets / "d.zarr"
    with (root / "v/values.raw").open("ab", buffering=0) as file:
        file.write(np.full(500, 7, "i4").tobytes())
        (root / "v").rename(root / "u")
        file.write(np.full(1500, 8, "i4").tobytes())
    assert values_of(place, "d.zarr/u")[COUNT:] == [7] * 500 + [8] * 1500


@pytest.mark.parametrize("dataset", ["d.zarr", "p.zarr"])
def test_a_group_takes_along_what_is_in_it(datasets: Path, place: Place, dataset: str) -> None:
    """SEMANTICS W32."""
    root = datasets / dataset
    with (root / "g/a/values.raw").open("r+b", buffering=0) as file:
        (root / "g").rename(root / "h")
        file.write(np.array([5], "i4").tobytes())
    assert values_of(place, f"{dataset}/h/a") == [5, 1, 1]
    info = json.loads((root / "h/a/info.json").read_text())
    assert [(d["name"], d["group"]) for d in info["dimensions"]] == [("y", "/h")]
    assert (root / "h/attributes/title").read_text() == "t\n"
    assert sorted(json.loads((root / "info.json").read_text())["groups"]) == ["h"]
    (root / "h/deep").rename(root / "h/flat")
    (root / "h").rename(root / "g")
    assert sorted(p.name for p in (root / "g").iterdir() if p.is_dir()) == [
        "a",
        "attributes",
        "flat",
    ]


def test_others_read_what_was_renamed(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W83: a dimension keeps its name."""
    with settled(store, tmp_path / "spool", "-o", "allow_delete") as mount:
        root = mount.path / "datasets/d.zarr"
        (root / "x").rename(root / "longitude")
        (root / "g").rename(root / "h")
    with netCDF4.Dataset(f"file://{store}/d.zarr#mode=nczarr,file") as dataset:
        assert list(dataset.variables) == ["v", "longitude"]
        assert dataset["longitude"].dimensions == ("x",)
        assert dataset["h/a"].dimensions == ("y",)
        assert dataset["h/a"][:].tolist() == [1, 1, 1]


def refused(source: Path, target: Path) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is looked at
        os.rename(source, target)
    return errno.errorcode[caught.value.errno or 0]


def test_what_cannot_be_renamed_says_why(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W84, W97."""
    before = sorted(store.rglob("*"))
    with settled(store, tmp_path / "spool", "-o", "allow_delete", expect=REFUSED) as mount:
        root = mount.path / "datasets/d.zarr"
        assert refused(root / "v", root / "x") == "EEXIST"
        assert refused(root / "v", root / "g/v") == "EXDEV"
        assert refused(root / "v", root.parent / "p.zarr/u") == "EXDEV"
        assert refused(root / "v", mount.path / "objects/v") == "EXDEV"
        assert refused(root / "v", root / ".zarray") == "EINVAL"
        assert refused(root / "v", root / "d.cdl") == "ENOTDIR"  # by the kernel
        (root / "d.cdl").unlink()
        assert refused(root / "v", root / "d.cdl") == "EPERM"
        assert refused(root, root.parent / "e.zarr") == "EPERM"
        assert refused(root / "v/values.raw", root / "v/u") == "EPERM"
        assert refused(root / "v/attributes", root / "v/u") == "EPERM"
        assert refused(root / "none", root / "u") == "ENOENT"
        log = mount.log.read_text()
        assert "can be renamed in its group alone" in log
        assert "is a whole dataset; rename it in objects/" in log
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        root = mount.path / "datasets/d.zarr"
        assert refused(root / "v", root / "u") == "EPERM"
    with settled(store, tmp_path / "spool", "--read-only") as mount:
        root = mount.path / "datasets/d.zarr"
        assert refused(root / "v", root / "u") == "EROFS"
    assert sorted(store.rglob("*")) == before


WRITER = """
import os, struct, sys
file = os.open(sys.argv[1], os.O_RDWR)
for number in range(10**9):
    os.pwrite(file, struct.pack("i", number), 4 * (number * 7 % 4000))
    if number % 10 == 9:
        os.fsync(file)
        print(number, flush=True)
"""


def test_a_program_that_writes_all_the_time_loses_nothing(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W32."""
    with settled(store, tmp_path / "spool", "-o", "allow_delete") as mount:
        root = mount.path / "datasets/d.zarr"
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, root / "v/values.raw"], stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            for name, new_name in (("v", "b"), ("b", "c"), ("c", "d")):
                for _ in range(5):
                    assert program.stdout.readline(), "it has ended"
                (root / name).rename(root / new_name)
            last = int(program.stdout.readline())
            program.kill()
            last = max([last, *map(int, program.stdout.read().split())])
        found = np.fromfile(root / "d/values.raw", "i4")
    with nczfs.open(str(store / "d.zarr")) as dataset:
        stored = np.asarray(dataset.variables["d"][...]).ravel()
    np.testing.assert_array_equal(found, stored)
    # Each element has the last number that was written to it, or a later one.
    expected = np.arange(COUNT)
    for number in range(last + 1):
        expected[number * 7 % COUNT] = number
    numbers = np.arange(last + 1)
    places = numbers * 7 % COUNT
    newest = np.zeros(COUNT, int)
    np.maximum.at(newest, places, numbers)
    written = np.unique(places)
    assert (stored[written] >= newest[written]).all()


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


@pytest.mark.parametrize("delay_ms", [10, 40, 120])
@pytest.mark.parametrize("dataset", ["d.zarr", "p.zarr"])
def test_a_kill_leaves_the_old_or_the_new_one_whole(
    store: Path, tmp_path: Path, dataset: str, delay_ms: int
) -> None:
    """SEMANTICS W33."""
    (tmp_path / "spool").mkdir()
    words = ("-o", "allow_delete", "--spool-dir", str(tmp_path / "spool"))
    with served(mounting_of(store, *words), exit_codes=None) as mount:
        root = mount.path / "datasets" / dataset
        with subprocess.Popen(
            ["mv", root / "v", root / "new"], stderr=subprocess.DEVNULL
        ) as program:
            time.sleep(delay_ms / 1000)  # any moment is a good one
            mount.process.kill()
            program.wait()
    lines = command("verify", store / dataset).stdout.splitlines()
    if all(files_below(store / dataset / name) for name in ("v", "new")):
        assert [line for line in lines if " /v" in line or " /new" in line]
    for line in lines:
        if "`nczfs rm -r` removes" in line:
            name = line.split()[1].strip("/:")
            assert command("rm", "-r", store / dataset / name).returncode == 0
    assert "error" not in command("verify", store / dataset).stdout
    with nczfs.open(str(store / dataset)) as root_group:
        (name,) = {"v", "new"} & set(root_group.variables)
        values = np.asarray(root_group.variables[name][...]).ravel()
    assert values.tolist() == list(range(COUNT))
