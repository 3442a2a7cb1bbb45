"""Programs of our users write, several processes at a time, and the store has what they wrote."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr

from tests.support.mounts import Served
from tests.support.places import DATASET, Place, bucket_of, directory_at
from tests.support.sample import Values, output
from tests.support.settled import settled
from tests.support.working import together

WORKERS = 4
SHAPE = (60, 50)
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")


@pytest.fixture(scope="module", params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    if request.param == "directory":
        return directory_at(tmp_path_factory.mktemp("programs") / "store")
    return bucket_of(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def mount(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place.make_dataset({"v": (np.zeros(SHAPE), (16, 16))})
    with settled(place.url, tmp_path_factory.mktemp("programs") / "spool") as mount:
        yield mount


@pytest.fixture
def objects(mount: Served) -> Path:
    return mount.path / "objects"


MAPPING = """
import sys
import numpy as np
from nczfs.zmap.registry import open_store
from nczfs.zmap.keys import parse_key
import nczfs

path, url, key, number, workers = sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
mapped = np.load(path, mmap_mode="r+").reshape(-1)
own = slice(number * mapped.size // workers, (number + 1) * mapped.size // workers)
zmap = open_store(url)

def stored():
    if key:
        return np.frombuffer(bytes(zmap.read(parse_key(key)).data)[-mapped.nbytes:], "f8")
    with nczfs.open(url) as root:
        return np.asarray(root.variables["v"][...]).reshape(-1)

for turn in range(1, 4):
    mapped[own] = 1000 * number + turn
    mapped.flush()
    assert (stored()[own] == 1000 * number + turn).all(), (number, turn)
zmap.close()
"""


@pytest.mark.parametrize("tree", ["datasets", "objects"])
def test_four_processes_map_one_file_and_each_flush_is_in_the_store(
    mount: Served, place: Place, tree: str
) -> None:
    """SEMANTICS O6, W1. Their parts share pages and chunks."""
    if tree == "datasets":
        path = mount.path / "datasets" / DATASET / "v/values.npy"
        url, key = place.url_of(DATASET), ""
    else:
        path, url, key = mount.path / "objects/mapped.npy", place.url, "mapped.npy"
        np.save(path, np.zeros(SHAPE))
    together(MAPPING, [(path, url, key, number, WORKERS) for number in range(WORKERS)])
    wanted = np.repeat([3, 1003, 2003, 3003], np.prod(SHAPE) // WORKERS).reshape(SHAPE)
    np.testing.assert_array_equal(np.load(path), wanted)


REGION = """
import sys
import numpy as np
import xarray as xr
path, data, number, workers = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
values = np.load(data)
own = slice(number * len(values) // workers, (number + 1) * len(values) // workers)
part = xr.Dataset({"t": (("time", "x"), values[own])})
part.to_zarr(path, region={"time": own}, zarr_format=2)
"""


def test_four_workers_of_dask_write_a_new_dataset(objects: Path, place: Place) -> None:
    """SEMANTICS O6, O14."""
    values = np.random.default_rng(5).random((80, 96))
    array = zarr.create_array(
        objects / "dask.zarr", shape=values.shape, chunks=(16, 32), dtype="f8", zarr_format=2
    )
    writing = _blocks(values, 16, 32).to_zarr(array, compute=False)
    writing.compute(scheduler="processes", num_workers=WORKERS, chunksize=1)
    stored = place.objects("dask.zarr")
    assert len([key for key in stored if not key.startswith(".")]) == 15
    shown = objects.parent / "datasets/dask.zarr/values.raw"
    assert shown.read_bytes() == values.tobytes()


def test_four_workers_of_dask_write_the_values_of_a_variable(mount: Served, place: Place) -> None:
    """SEMANTICS W1."""
    values = np.random.default_rng(6).random(SHAPE)
    target = np.load(mount.path / "datasets" / DATASET / "v/values.npy", mmap_mode="r+")
    with dask.config.set(scheduler="threads", num_workers=WORKERS):
        dask.array.store(_blocks(values, 7, 9), target, lock=False)
    target.flush()
    np.testing.assert_array_equal(place.values("v"), values)


def test_four_workers_write_regions_of_a_dataset_of_xarray(mount: Served, place: Place) -> None:
    """SEMANTICS O6, O14."""
    path = mount.path / "objects/regions.zarr"
    values = np.random.default_rng(7).random((40, 30))
    template = xr.Dataset({"t": (("time", "x"), dask.array.zeros(values.shape, chunks=(5, 30)))})
    template.to_zarr(path, zarr_format=2, compute=False, consolidated=True)
    data = mount.path.parent / "values.npy"
    np.save(data, values)
    together(REGION, [(path, data, number, WORKERS) for number in range(WORKERS)])
    data.unlink()
    with xr.open_zarr(path) as found:
        np.testing.assert_array_equal(found["t"].values, values)
    shown = mount.path / "datasets/regions.zarr/t/values.raw"
    assert shown.read_bytes() == values.tobytes()
    chunks = [key for key in place.objects("regions.zarr/t") if not key.startswith(".")]
    assert len(chunks) == 8


def test_git_keeps_a_repository(objects: Path, place: Place, tmp_path: Path) -> None:
    """SEMANTICS O6, O11."""
    work = objects / "work"
    output(*GIT, "init", "-q", "--template=", work)
    for turn in range(3):
        for number in range(4):
            (work / f"file{number}").write_text(f"{turn} {number}\n" * 40 * turn)
        output(*GIT, "-C", work, "add", ".")
        output(*GIT, "-C", work, "commit", "-qm", f"turn {turn}")
    output(*GIT, "-C", work, "gc", "-q", "--prune=now")
    output(*GIT, "-C", work, "fsck", "--strict", "--full")
    assert output(*GIT, "-C", work, "status", "--porcelain") == b""
    copy = restored(place, "work", tmp_path / "copy")
    (copy / ".git/refs").mkdir(exist_ok=True)  # which git packed: it is empty, and no key tells it
    output(*GIT, "-C", copy, "fsck", "--strict", "--full")
    assert output(*GIT, "-C", copy, "log", "--format=%s") == b"turn 2\nturn 1\nturn 0\n"
    output(*GIT, "-C", copy, "diff", "--exit-code", "HEAD")


TRANSACTIONS = """
import sqlite3, sys
path, mode, number, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
connection = sqlite3.connect(path, timeout=60, isolation_level=None)
assert connection.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
connection.execute("pragma synchronous=full")
for turn in range(count):
    connection.execute("begin immediate")
    connection.execute("update t set n = n + 1 where k = 0")
    connection.execute("insert into t values (?, ?)", (1000 * number + turn + 1, turn))
    connection.execute("commit")
connection.close()
"""


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_sqlite_keeps_a_database_that_two_processes_write(
    objects: Path, place: Place, tmp_path: Path, mode: str
) -> None:
    """SEMANTICS O6, O10. What a commit has synced is in the store, be it in the log."""
    directory = objects / f"sqlite-{mode}"
    directory.mkdir()
    path = directory / "data.db"
    connection = sqlite3.connect(path, isolation_level=None)
    assert connection.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
    connection.execute("create table t (k integer primary key, n integer)")
    connection.execute("insert into t values (0, 0)")
    together(TRANSACTIONS, [(path, mode, number, 5) for number in range(2)])
    _check_database(path)
    _check_database(restored(place, directory.name, tmp_path / mode) / "data.db")
    connection.close()
    assert sorted(place.objects(directory.name)) == ["data.db"]


def _check_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    assert connection.execute("select n from t where k = 0").fetchone() == (10,)
    assert connection.execute("select count(*) from t").fetchone() == (11,)
    connection.close()


def test_vi_that_is_killed_leaves_what_it_recovers(objects: Path, place: Place) -> None:
    """SEMANTICS O6."""
    path = objects / "vi/notes.txt"
    path.parent.mkdir()
    path.write_text("one\ntwo\n")
    commands = ["set swapfile directory=.", "%s/two/three/", "preserve", "!kill -9 $PPID"]
    _vi(path, commands)
    assert place.objects("vi").keys() == {"notes.txt", ".notes.txt.swp"}
    _vi(path, ["set backup backupskip=", "wq"], "-r")
    (path.parent / ".notes.txt.swp").unlink()
    assert place.objects("vi") == {"notes.txt": b"one\nthree\n", "notes.txt~": b"one\ntwo\n"}


def _vi(path: Path, commands: Sequence[str], *options: str) -> None:
    words = [word for command in commands for word in ("-c", command)]
    subprocess.run(
        ["vi", "-es", "-u", "NONE", *options, *words, path.name],
        cwd=path.parent,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )


def test_rsync_writes_changes_in_place(objects: Path, place: Place, tmp_path: Path) -> None:
    """SEMANTICS O6, O8."""
    source = tmp_path / "source"
    source.mkdir()
    data = bytearray(np.random.default_rng(8).bytes(1 << 20))
    (source / "grib").write_bytes(data)
    goal = objects / "inplace"
    command = ("rsync", "-a", "--inplace", "--no-whole-file", f"{source}/", f"{goal}/")
    output(*command)
    assert place.objects("inplace") == {"grib": bytes(data)}
    data[500_000:500_010] = b"0123456789"
    data += b"appended"
    (source / "grib").write_bytes(data)
    output(*command)
    assert place.objects("inplace") == {"grib": bytes(data)}
    with (source / "grib").open("ab") as file:
        file.write(b" and more")
    output("rsync", "-a", "--append-verify", f"{source}/", f"{goal}/")
    assert place.objects("inplace") == {"grib": bytes(data) + b" and more"}


def _blocks(values: Values, *shape: int) -> Any:
    return dask.array.from_array(values, chunks=shape)  # type: ignore[no-untyped-call]


def restored(place: Place, below: str, copy: Path) -> Path:
    """A directory as the store has it, on the local disk."""
    for key, data in place.objects(below).items():
        (copy / key).parent.mkdir(parents=True, exist_ok=True)
        (copy / key).write_bytes(data)
    return copy
