"""Real mounts of datasets of Zarr v3, over every store, read and written by other programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

from tests.interop.netcdf_programs.field import FIELD
from tests.interop.netcdf_programs.program import Live
from tests.interop.netcdf_programs.table import PROGRAMS
from tests.support.httpd import WebServer
from tests.support.mounts import mounted
from tests.support.sample import Values, reassembled, upload, zip_up
from tests.support.servers import S3Server
from tests.support.zarr3_sample import (
    ARRAYS,
    EDGES,
    KINDS,
    NOT_OF_ZARR_PYTHON,
    write_zarr3_sample,
)

NAME = "sample.zarr"
RECORDS = np.arange(2 * 14, dtype="<f4").reshape(2, 14)
NETCDF_PROGRAMS = (
    "ncdump",
    "NCO ncks",
    "CDO",
    "GDAL",
    "h5dump",
    "netCDF4-python",
    "xarray, netcdf4",
)
SHAPES = {
    "plain": ([2, 5], None, 8),
    "sharded": ([2, 5], [4, 10], 2),
    "nested": ([2, 3], [4, 12], 2),
    "turned": ([2, 3, 4], [4, 6, 4], 2),
    "words": ([2], [4], 3),
    "int4": ([2, 5], [4, 10], 2),
    "uneven": ([4, 5], None, 6),
}
"""What `info.json` says of chunks, shards and objects."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample") / NAME
    write_zarr3_sample(directory)
    return directory


def check(dataset: Path, sample: Path, scratch: Path) -> None:
    """Check every kind of view with the programs that read it."""
    (file,) = (name for name in os.listdir(dataset) if name in ("sample.nc", f"{NAME}.nc"))
    classic = file.replace(".nc", ".classic.nc")
    members = {"t2m", "count", "time", "lat", "lon", "kinds", file, classic, "attributes"}
    assert set(os.listdir(dataset)) == members | {
        "info.json",
        "zom.json",
        file.replace(".nc", ".cdl"),
        file.replace(".nc", ".ncs"),
    }
    assert sorted(os.listdir(dataset / "attributes")) == ["Conventions", "title"]
    problems = json.loads((dataset / "info.json").read_text())["problems"]
    assert problems == [f"{classic} leaves out /kinds: is a group"]
    check_netcdf(dataset, file, scratch)
    root = zarr.open_group(sample, mode="r", use_consolidated=False)
    for name, values in ARRAYS.items():
        if name not in NOT_OF_ZARR_PYTHON:
            array = root[f"{KINDS}/{name}"]
            assert isinstance(array, zarr.Array)
            assert equal(np.asarray(array[...]), values)
        check_array(dataset / KINDS / name, values)


def check_array(place: Path, values: Values) -> None:
    info = json.loads((place / "info.json").read_text())
    assert (info["format"], info["shape"], info["problems"]) == ("zarr3", [*values.shape], [])
    if place.name in SHAPES:
        found = info["chunk_shape"], info["shard_shape"], info["object_count"]
        assert found == SHAPES[place.name]
    lines = (place / "values.txt").read_text().splitlines()
    if values.dtype.hasobject:
        assert [json.loads(line) for line in lines] == values.tolist()
        chunks = [json.loads((place / f"chunks/{n}").read_text()) for n in range(5)]
        assert [text for chunk in chunks for text in chunk] == values.tolist()
        assert not {"values.raw", "values.npy"} & set(os.listdir(place))
        return
    if values.dtype.kind == "U":
        assert [line.rstrip() for line in lines] == values.tolist()
    else:
        read = np.array([float(line) for line in lines])
        same(read.astype(values.dtype), values.reshape(-1))
    assert (place / "values.raw").read_bytes() == values.tobytes()
    saved = np.load(place / "values.npy", mmap_mode="r")
    same(saved.view(values.dtype), values)
    if place.name == "uneven":
        check_uneven_chunks(place / "chunks", values)
    else:
        same(reassembled(place), values)


def equal(found: Values, values: Values) -> bool:
    return np.array_equal(found, values, equal_nan=values.dtype.kind == "f")


def same(found: Values, values: Values) -> None:
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert found.tobytes() == values.tobytes()


def check_uneven_chunks(chunks: Path, values: Values) -> None:
    rows = [
        np.hstack([np.fromfile(chunks / f"{i}.{j}", "i4").reshape(edge, 5) for j in range(2)])
        for i, edge in enumerate(EDGES)
    ]
    assert np.array_equal(np.vstack(rows), values)
    assert len(os.listdir(chunks)) == 2 * len(EDGES)


def check_netcdf(dataset: Path, file: str, scratch: Path) -> None:
    """Read the field and the arrays from the live netCDF files."""
    for program in PROGRAMS:
        if program.name in NETCDF_PROGRAMS:
            live = Live(dataset / file, dataset / file, scratch)
            assert np.array_equal(program.read(live), program.expected(FIELD)), program.name
    with xr.open_dataset(dataset / "t2m/t2m.nc") as read:
        assert np.array_equal(read["t2m"].values, FIELD)
        assert read["time"].values[1] == np.datetime64("2020-01-01T06")
        assert read.encoding["unlimited_dims"] == {"time"}
    with netCDF4.Dataset(dataset / file.replace(".nc", ".classic.nc")) as read:
        assert np.array_equal(read["t2m"][...], FIELD)
    with netCDF4.Dataset(dataset / file) as read:
        read.set_auto_maskandscale(False)
        for name, values in ARRAYS.items():
            found = read[f"{KINDS}/{name}"][...]
            assert found.shape == values.shape
            assert equal(found.astype(values.dtype), values)


def in_a_directory(sample: Path, place: Path, _: pytest.FixtureRequest) -> str:
    shutil.copytree(sample, place / NAME)
    return str(place)


def in_a_zip(sample: Path, place: Path, _: pytest.FixtureRequest) -> str:
    zip_up(sample, place / f"{NAME}.zip")
    return str(place)


def on_s3(sample: Path, _: Path, request: pytest.FixtureRequest) -> str:
    server: S3Server = request.getfixturevalue("swift")
    bucket = server.new_bucket()
    client = server.client()
    upload(client, bucket, NAME, sample)
    client.close()
    return server.url(bucket)


@pytest.mark.parametrize("stored", [in_a_directory, in_a_zip, on_s3])
def test_every_view_shows_every_value_whatever_the_store(
    sample: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    stored: Callable[[Path, Path, pytest.FixtureRequest], str],
) -> None:
    store = stored(sample, tmp_path, request)
    with mounted(store) as mount:
        (name,) = os.listdir(mount / "datasets")
        check(mount / "datasets" / name, sample, tmp_path)


def test_a_web_server_without_listings_shows_what_the_root_names(
    sample: Path, nginx: WebServer, tmp_path: Path
) -> None:
    directory = nginx.new_directory()
    shutil.copytree(sample, directory / NAME)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with mounted(f"{nginx.url}/unlisted/{directory.name}/{NAME}") as mount:
        check(mount / "datasets" / NAME, sample, tmp_path)


def test_datasets_are_made_in_the_chosen_format(tmp_path: Path) -> None:
    store, original = tmp_path / "store", tmp_path / "original.nc"
    store.mkdir()
    with netCDF4.Dataset(original, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 14)
        variable = file.createVariable("v", "f4", ("time", "x"), zlib=True, fill_value=-9.0)
        variable[:] = RECORDS[:1]
    with mounted(store, "-o", "create_format=zarr3") as mount:
        dataset = mount / "datasets/new.zarr"
        dataset.mkdir()
        subprocess.run(["cp", original, dataset / "new.nc"], check=True)
        (dataset / "attributes/history").write_text("made\n")
        with (dataset / "v/values.raw").open("ab") as raw:
            raw.write(RECORDS[1].tobytes())
    document = json.loads((store / "new.zarr/zarr.json").read_bytes())
    assert document["attributes"] == {"_nczfs_unlimited": ["time"], "history": "made"}
    root = zarr.open_group(store / "new.zarr", mode="r", zarr_format=3)
    assert np.array_equal(np.asarray(root["v"]), RECORDS)
    with xr.open_zarr(store / "new.zarr", consolidated=False) as read:
        assert read["v"].dims == ("time", "x")
        assert read["v"].encoding["_FillValue"] == -9.0
