"""Real mounts of datasets with dependent arrays, over a directory, a zip archive and S3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from tests.support.dependents import FLAT, VALUES, write_dependents_sample
from tests.support.mounts import mounted
from tests.support.sample import reassembled, upload, zip_up
from tests.support.servers import S3Server

NAME = "d.zarr"
REFUSED = r"Errno (1|30)\]"  # EPERM, EROFS


@pytest.fixture(scope="module", params=["directory", "zip", "s3"])
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The sample in a mount."""
    place = tmp_path_factory.mktemp("store")
    sample = tmp_path_factory.mktemp("sample") / NAME
    write_dependents_sample(sample, consolidated=request.param == "s3")
    store = str(place)
    if request.param == "directory":
        shutil.copytree(sample, place / NAME)
    elif request.param == "zip":
        zip_up(sample, place / f"{NAME}.zip")
    else:
        server: S3Server = request.getfixturevalue("swift")
        bucket = server.new_bucket()
        client = server.client()
        upload(client, bucket, NAME, sample)
        client.close()
        store = server.url(bucket)
    refused = r"EPERM: .*(can only be read|is a dependent array)"
    with mounted(store, "-o", "allow_delete", expect=refused) as mount:
        (name,) = os.listdir(mount / "datasets")
        yield mount / "datasets" / name


def test_each_is_a_directory_with_all_views_below_its_primary(dataset: Path) -> None:
    """SEMANTICS D22."""
    assert {"mask", "q", "twin"} < set(os.listdir(dataset / "t"))
    assert not {"bad", "why"} & set(os.listdir(dataset / "t"))
    for path, values in VALUES.items():
        place = dataset / path
        assert (place / "values.raw").read_bytes() == values.tobytes()
        assert np.array_equal(np.load(place / "values.npy"), values)
        lines = (place / "values.txt").read_text().split()
        assert [float(line) for line in lines] == values.reshape(-1).tolist()
        assert np.array_equal(reassembled(place), values)
        info = json.loads((place / "info.json").read_text())
        assert info.get("primary") == (f"/{path.rpartition('/')[0]}" if "/" in path else None)
        with netCDF4.Dataset(place / f"{place.name}.nc") as file:
            file.set_auto_maskandscale(False)
            name = path.replace("/", ".")  # without the group nothing else has it
            assert np.array_equal(file[name][...], values)
    problems = json.loads((dataset / "t/info.json").read_text())["problems"]
    assert "dependent array 'bad'" in problems[0]
    assert (dataset / "t/mask/attributes/flag_meanings").read_text().strip() == "ok bad"


def test_the_files_of_the_group_have_each_beside_its_primary(dataset: Path) -> None:
    """SEMANTICS D22."""
    with netCDF4.Dataset(dataset / "d.nc") as file:
        file.set_auto_maskandscale(False)
        for path, name in FLAT.items():
            assert np.array_equal(file[name][...], VALUES[path])
    with netCDF4.Dataset(dataset / "d.classic.nc") as file:
        assert {"t.mask", "t.mask.why"} <= set(file.variables)
    text = (dataset / "d.cdl").read_text()
    assert "ubyte t.mask(y, x) ;" in text
    assert "float t.q\\~(y, x) ;" in text


def test_they_can_only_be_read(dataset: Path) -> None:
    """SEMANTICS D39."""
    for name in ("values.raw", "chunks/0.0"):
        with pytest.raises(OSError, match=REFUSED):
            (dataset / "t/mask" / name).open("r+b")
    with pytest.raises(OSError, match=REFUSED):
        (dataset / "t/mask/attributes/units").write_text("K")
    with pytest.raises(FileNotFoundError):
        (dataset / "t/bad").stat()
    assert not list(dataset.parent.parent.glob("objects/d.zarr/t/*/zarr.json"))


def test_removing_the_primary_takes_all_along(dataset: Path) -> None:
    """SEMANTICS D27. The last test, since nothing is left."""
    removed = subprocess.run(["rm", "-r", dataset / "t"], capture_output=True, check=False)
    is_there = (dataset / "t").exists()
    assert (removed.returncode == 0) == (not is_there)
    objects = dataset.parent.parent / "objects"
    assert (objects / "d.zarr/t").exists() == (is_there and dataset.name == NAME)


def test_values_are_written_where_the_mount_allows_it(tmp_path: Path) -> None:
    """SEMANTICS D39."""
    write_dependents_sample(tmp_path / NAME)
    with mounted(
        tmp_path, "-o", "write_dependents", expect="EPERM: .*twin|may no longer match"
    ) as mount:
        t = mount / "datasets" / NAME / "t"
        values = 3 - VALUES["t/mask"]
        (t / "mask/values.raw").write_bytes(values.tobytes())
        with pytest.raises(OSError, match=REFUSED):
            (t / "twin/values.raw").open("r+b")
        assert (t / "values.raw").read_bytes() == VALUES["t"].tobytes()
    assert (tmp_path / NAME / "t/c.1.0").read_bytes() == values[4:, :3].tobytes()
