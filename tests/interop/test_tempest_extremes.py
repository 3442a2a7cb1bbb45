"""TempestExtremes, unchanged, on live files: the same bytes as from native files.

It ends with 0 whatever happens, so that only what it wrote tells.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray

from tests.interop.netcdf_programs.program import CLASSIC, FORMATS, NETCDF4, SUFFIX, printed
from tests.support.mounts import mounted
from tests.support.sample import upload
from tests.support.servers import S3Server

pytestmark = pytest.mark.skipif(
    shutil.which("DetectNodes") is None,
    reason="DetectNodes is not on PATH (neither Debian nor PyPI has TempestExtremes)",
)

STEPS = 40
LOWS = 7


def moving_lows() -> xarray.Dataset:
    """Six-hourly pressure at sea level on a grid of 2 degrees, with lows that move eastwards."""
    lat, lon = np.arange(-90.0, 91, 2), np.arange(0.0, 360, 2)
    x, y = np.meshgrid(lon, lat)
    # Where it is flat every point is a candidate.
    pressure = np.repeat([101_325.0 + y + x / 100], STEPS, axis=0)
    random = np.random.default_rng(1)
    for _ in range(LOWS):
        begin_x, begin_y = random.uniform(0, 360), random.choice([-1, 1]) * random.uniform(25, 60)
        speed = random.uniform(0.5, 1.2)
        for step in range(STEPS):
            dx = (x - begin_x - speed * step + 180) % 360 - 180
            distance2 = (dx * np.cos(np.deg2rad(y))) ** 2 + (y - begin_y) ** 2
            pressure[step] -= 3000 * np.exp(-distance2 / 18)
    dataset = xarray.Dataset(
        {"PSL": (("time", "lat", "lon"), pressure.astype("f4"), {"units": "Pa"})},
        {
            "time": ("time", 6.0 * np.arange(STEPS), {"units": "hours since 2020-01-01"}),
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
        },
    )
    dataset["time"].attrs["calendar"] = "standard"
    for variable in dataset.variables.values():
        variable.encoding["_FillValue"] = None
    return dataset


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the dataset, and beside it a native file of each format."""
    directory = tmp_path_factory.mktemp("lows")
    dataset = moving_lows()
    dataset.to_netcdf(directory / f"native{SUFFIX[NETCDF4]}", format="NETCDF4")
    dataset.to_netcdf(directory / f"native{SUFFIX[CLASSIC]}", format="NETCDF3_CLASSIC")
    dataset["PSL"].encoding["chunks"] = (8, 46, 60)
    dataset.to_zarr(directory / "store/lows.zarr", zarr_format=2)
    return directory


@pytest.fixture(scope="module", params=["directory", "s3"])
def mount(request: pytest.FixtureRequest, made: Path) -> Iterator[Path]:
    if request.param == "directory":
        url = str(made / "store")
    else:
        swift: S3Server = request.getfixturevalue("swift")
        far: S3Server = request.getfixturevalue("delayed_swift")
        bucket = swift.new_bucket()
        client = swift.client()
        upload(client, bucket, "lows.zarr", made / "store/lows.zarr")
        client.close()
        url = far.url(bucket)
    with mounted(url) as path:
        yield path


def tracks(file: Path, scratch: Path) -> tuple[bytes, bytes]:
    """What DetectNodes finds in a file, and what StitchNodes makes of it."""
    nodes, stitched = scratch / "nodes.txt", scratch / "tracks.txt"
    detect = ["--searchbymin", "PSL", "--mergedist", "6.0", "--outputcmd", "PSL,min,0"]
    detect += ["--closedcontourcmd", "PSL,200.0,5.5,0", "--logdir", str(scratch)]
    stitch = ["--in_fmt", "lon,lat,slp", "--range", "8.0", "--mintime", "10", "--maxgap", "3"]
    said = printed("DetectNodes", "--in_data", file, "--out", nodes, *detect, cwd=scratch)
    said += printed("StitchNodes", "--in", nodes, "--out", stitched, *stitch, cwd=scratch)
    assert "EXCEPTION" not in said, said
    return nodes.read_bytes(), stitched.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_the_tracks_are_those_of_a_native_file(
    mount: Path, made: Path, tmp_path: Path, form: str
) -> None:
    live, native = tmp_path / "live", tmp_path / "native"
    live.mkdir()
    native.mkdir()
    found = tracks(mount / f"datasets/lows.zarr/lows{SUFFIX[form]}", live)
    assert found == tracks(made / f"native{SUFFIX[form]}", native)
    assert found[1].count(b"start") == LOWS
