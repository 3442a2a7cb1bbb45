"""Second names of objects on a real mount, and the programs that make them."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import xarray as xr
import zarr

from tests.support.places import Place, bucket_of, directory_at
from tests.support.sample import output
from tests.support.settled import settled


@pytest.fixture(params=("directory", "ceph"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return directory_at(tmp_path / "store")
    return bucket_of(request.getfixturevalue(request.param))


@pytest.fixture
def objects(place: Place, tmp_path: Path) -> Iterator[Path]:
    with settled(place.url, tmp_path / "spool") as mount:
        yield mount.path / "objects"


def test_a_link_is_a_second_object_with_the_same_bytes(objects: Path, place: Place) -> None:
    """SEMANTICS L8."""
    (objects / "a").write_bytes(b"data")
    os.utime(objects / "a", (7, 0))
    (objects / "d").mkdir()
    os.link(objects / "a", objects / "d/b")
    found, made = os.stat(objects / "a"), os.stat(objects / "d/b")
    assert (found.st_nlink, made.st_nlink) == (1, 1)
    assert (made.st_size, made.st_atime, made.st_mtime) == (4, 7, 0)
    assert found.st_ino != made.st_ino
    with pytest.raises(FileExistsError):
        os.link(objects / "a", objects / "d/b")
    with (objects / "a").open("r+b", buffering=0) as file:
        file.write(b"newer")
        os.link(objects / "a", objects / "c")
        assert place.objects() == {"a": b"data", "d/b": b"data", "c": b"newer"}
        file.write(b"!")
    (objects / "a").unlink()
    assert place.objects() == {"d/b": b"data", "c": b"newer"}


def test_programs_that_link_make_copies(objects: Path, place: Place, tmp_path: Path) -> None:
    """SEMANTICS L8."""
    (objects / "d").mkdir()
    (objects / "d/file").write_bytes(b"data")
    output("cp", "-al", objects / "d", objects / "e")
    output("ln", objects / "e/file", objects / "e/second")
    with tarfile.open(tmp_path / "linked.tar", "w") as archive:
        (tmp_path / "one").write_bytes(b"one")
        os.link(tmp_path / "one", tmp_path / "two")
        archive.add(tmp_path / "one", "t/one")
        archive.add(tmp_path / "two", "t/two")
    output("tar", "-xf", tmp_path / "linked.tar", "-C", objects)
    assert place.objects() == {
        "d/file": b"data",
        "e/file": b"data",
        "e/second": b"data",
        "t/one": b"one",
        "t/two": b"one",
    }


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_makes_keys_with_their_parents(
    objects: Path, place: Place, zarr_format: Literal[2, 3]
) -> None:
    """SEMANTICS L8."""
    values = np.arange(12.0).reshape(3, 4)
    form: dict[str, Any] = {"zarr_format": zarr_format}
    array = zarr.create_array(
        objects / "new.zarr", name="x/y/a", shape=(3, 4), chunks=(2, 2), dtype="f8", **form
    )
    array[...] = values
    arrays: dict[str, Any] = {"a": values, "b": values[0]}
    zarr.save_group(objects / "saved.zarr", **arrays, **form)
    xr.Dataset({"v": (("y", "x"), values)}).to_zarr(
        objects / "grouped.zarr", group="a/b", consolidated=False, **form
    )
    for path in ("new.zarr/x/y/a", "saved.zarr/a", "grouped.zarr/a/b/v"):
        assert np.array_equal(np.asarray(zarr.open_array(objects / path, mode="r")), values)
    names = {key.rpartition("/")[2] for key in place.objects() if not key[-1].isdigit()}
    assert names == ({"zarr.json"} if zarr_format == 3 else {".zarray", ".zattrs", ".zgroup"})


def test_a_lock_by_link_is_taken_once(objects: Path) -> None:
    """SEMANTICS L8."""
    names = [f"contender-{number}" for number in range(4)]
    for name in names:
        (objects / name).write_text(name)
    contenders = [
        subprocess.Popen(["ln", name, "lock"], cwd=objects, stderr=subprocess.DEVNULL)
        for name in names
    ]
    statuses = [contender.wait(60) for contender in contenders]
    assert sorted(statuses) == [0, 1, 1, 1]
    assert (objects / "lock").read_text() == names[statuses.index(0)]
