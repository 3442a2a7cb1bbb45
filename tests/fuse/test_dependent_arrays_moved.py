"""Programs rename, remove and export a primary with its dependents, over all kinds of stores."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczfs
from tests.support.dependents import FLAT, VALUES, write_dependents_sample
from tests.support.mounts import mounted
from tests.support.mounts import nczfs as command
from tests.support.sample import upload, zip_up
from tests.support.servers import S3Server

STORES = ("directory", "zip", "swift")
NAME = "d.zarr"


def run(*words: str | Path) -> None:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def check(url: str, name: str) -> None:
    """An array has the values of the sample's primary, and all of its dependents."""
    with nczfs.open(url) as root:
        for path, values in VALUES.items():
            found: Any = root[f"{name}{path[1:]}"]
            assert found[...].tobytes() == values.tobytes(), path


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """URLs of a store that holds the sample, and of the sample."""
    sample = tmp_path / "sample" / NAME
    write_dependents_sample(sample)
    if request.param == "directory":
        return str(sample.parent), str(sample)
    if request.param == "zip":
        archive = tmp_path / f"{NAME}.zip"
        zip_up(sample, archive)
        return str(archive), str(archive)
    server: S3Server = request.getfixturevalue("swift")
    bucket = server.new_bucket()
    with closing(server.client()) as client:
        upload(client, bucket, NAME, sample)
    return server.url(bucket), server.url(bucket, NAME)


def dataset_in(mount: Path) -> Path:
    (place,) = (mount / "datasets").iterdir()
    return place


def test_a_primary_is_renamed_and_removed_with_all_that_depends_on_it(
    store: tuple[str, str],
) -> None:
    """SEMANTICS D27. An archive gets everything at the end of the mount at the latest."""
    with mounted(store[0], "-o", "allow_delete") as mount:
        place = dataset_in(mount)
        run("mv", place / "t", place / "u")
        assert not (place / "t").exists()
        for path, values in VALUES.items():
            assert (place / f"u{path[1:]}/values.raw").read_bytes() == values.tobytes()
        assert json.loads((place / "u/mask/info.json").read_text())["primary"] == "/u"
    check(store[1], "u")
    with mounted(store[0], "-o", "allow_delete") as mount:
        run("rm", "-r", dataset_in(mount) / "u")
        assert not (dataset_in(mount) / "u").exists()
        assert not [p for p in (mount / "objects").rglob("*") if {"t", "u"} & {*p.parts}]
    with nczfs.open(store[1]) as root:
        assert list(root.variables) == ["t.q"]


def test_a_renamed_prefix_of_objects_is_a_primary_with_all_that_depends_on_it(
    store: tuple[str, str],
) -> None:
    """SEMANTICS D27."""
    is_alone = store[0] == store[1]
    with mounted(store[0], "-o", "allow_delete") as mount:
        objects = mount / "objects"
        above = objects if is_alone else objects / NAME
        run("mv", above / "t", above / "u")
        (mount / ".nczfs/refresh").write_text("\n")
        why = dataset_in(mount) / "u/mask/why/values.raw"
        assert why.read_bytes() == VALUES["t/mask/why"].tobytes()
        if not is_alone:
            run("mv", above, objects / "e.zarr")
            (mount / ".nczfs/refresh").write_text("\n")
            assert dataset_in(mount).name == "e.zarr"
    check(store[1] if is_alone else store[1].replace(NAME, "e.zarr"), "u")


@pytest.mark.parametrize("goal", STORES)
def test_a_dataset_is_copied_and_exported_with_all_that_depends_on_its_arrays(
    store: tuple[str, str], goal: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """SEMANTICS D27, D31."""
    url = {"directory": str(tmp_path / "e.zarr"), "zip": str(tmp_path / "e.zip")}.get(goal)
    if url is None:
        server: S3Server = request.getfixturevalue(goal)
        url = server.url(server.new_bucket(), "e.zarr")
    copied = command("cp", store[1], url, "--format", "zarr3")
    assert (copied.returncode, copied.stderr) == (0, "")
    check(url, "t")
    compared = command("diff", store[1], url)
    assert (compared.returncode, compared.stdout) == (0, "")
    exported = command("export", url, tmp_path / "o.nc")
    assert exported.returncode == 0, exported.stderr
    with netCDF4.Dataset(tmp_path / "o.nc") as file:
        file.set_auto_maskandscale(False)
        for path, name in FLAT.items():
            assert np.array_equal(file[name][...], VALUES[path])
    removed = command("rm", "-r", url, "t")
    assert (removed.returncode, removed.stderr) == (0, "")
    with nczfs.open(url) as root:
        assert list(root.variables) == ["t.q"]
