"""A model appends records with xarray while tools of netCDF read the live files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray

from tests.interop.netcdf_programs.field import (
    FIELD,
    RECORD_DIMENSION,
    SHAPE,
    VARIABLE,
    write_field,
)
from tests.interop.netcdf_programs.program import CLASSIC, NETCDF4, SUFFIX
from tests.support.mounts import mounted
from tests.support.sample import Values, upload
from tests.support.servers import S3Server
from tests.support.waiting import until

TTL_S = 1
LENGTH = SHAPE[0]


@dataclass(frozen=True)
class Model:
    """What writes the dataset that a mount shows.

    Attributes
    ----------
    dataset : the place that xarray writes to.
    bucket : the server and the bucket that it is then sent to.
    """

    mount: Path
    dataset: Path
    bucket: tuple[S3Server, str] | None = None

    def append(self, record: Values) -> None:
        last = xarray.open_zarr(self.dataset, consolidated=False).isel(time=[-1]).load()
        last[VARIABLE] = last[VARIABLE].dims, record[np.newaxis]
        last.drop_encoding().to_zarr(self.dataset, append_dim="time", consolidated=False)
        self.send()

    def send(self) -> None:
        if self.bucket is not None:
            server, bucket = self.bucket
            client = server.client()
            # The metadata are written last, as a model does.
            upload(client, bucket, "field.zarr", self.dataset)
            client.close()

    def live(self, form: str) -> Path:
        return self.mount / f"datasets/field.zarr/field{SUFFIX[form]}"


@pytest.fixture
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Model]:
    """Something that writes through `objects/`, into the store behind the mount, or to a bucket."""
    write_field(tmp_path, "field")
    dataset = tmp_path / "field.zarr"
    options = ["--record-dim", RECORD_DIMENSION, "--metadata-ttl", str(TTL_S)]
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("swift")
        bucket = server.new_bucket()
        sent = Model(tmp_path, dataset, (server, bucket))
        sent.send()
        with mounted(server.url(bucket), *options) as mount:
            yield Model(mount, dataset, (server, bucket))
        return
    with mounted(tmp_path, *options) as mount:
        yield Model(mount, mount / "objects/field.zarr" if request.param == "objects" else dataset)


def length_of(file: Path) -> int:
    """The number of records as ncdump tells it."""
    done = subprocess.run(["ncdump", "-h", file], capture_output=True, text=True, check=True)
    return int(done.stdout.partition("UNLIMITED ; // (")[2].partition(" ")[0])


@pytest.mark.parametrize(
    ("model", "form"),
    [("objects", NETCDF4), ("directory", CLASSIC), ("s3", NETCDF4), ("s3", CLASSIC)],
    indirect=["model"],
)
def test_tools_see_an_appended_record_without_a_remount(
    model: Model, form: str, tmp_path: Path
) -> None:
    """SEMANTICS D18."""
    live, out = model.live(form), tmp_path / "last.nc"
    assert length_of(live) == LENGTH
    with netCDF4.Dataset(live) as open_before:
        record = (FIELD[0] + 1000).astype("f4")
        model.append(record)
        until(lambda: length_of(live) == LENGTH + 1)
        subprocess.run(["ncks", "-O", "-d", "time,-1", live, out], check=True)
        with netCDF4.Dataset(out) as last:
            np.testing.assert_array_equal(last[VARIABLE][:], record[np.newaxis])
        with netCDF4.Dataset(live) as now:
            np.testing.assert_array_equal(now[VARIABLE][:LENGTH], FIELD)
            np.testing.assert_array_equal(now[VARIABLE][LENGTH], record)
        # A handle keeps its version of the structure.
        np.testing.assert_array_equal(open_before[VARIABLE][:], FIELD)
