"""The engine of xarray with datasets and archives in a bucket of a real server."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from tests.support.sample import upload, zip_up
from tests.support.servers import S3Server
from tests.unit.library.test_xarray import made_by_xarray


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_datasets_and_archives_in_buckets_are_what_xarray_reads_of_a_directory(
    zarr_format: Any, swift: S3Server, tmp_path: Path
) -> None:
    local = tmp_path / "d.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python: fixed-length texts, consolidated v3
        made_by_xarray().to_zarr(local, zarr_format=zarr_format)
        expected = xr.open_dataset(local, engine="zarr").load()
    bucket, client = swift.new_bucket(), swift.client()
    upload(client, bucket, local.name, local)
    zip_up(local, tmp_path / "d.zip")
    client.put_object(Bucket=bucket, Key="d.zip", Body=(tmp_path / "d.zip").read_bytes())
    client.close()
    place = f"{swift.endpoint_url}/{bucket}"
    profile = {"profile": swift.profile}
    for url in (f"{place}/d.zarr#mode=zarr,s3", f"{place}/d.zip#mode=zarr,s3,zip"):
        with xr.open_dataset(url, engine="nczfs", store_options=profile) as found:
            xr.testing.assert_identical(found, expected)
        with xr.open_dataset(url, engine="nczfs", store_options=profile, chunks={}) as lazy:
            assert lazy.f.sum().compute() == expected.f.sum()
    with pytest.raises(FileNotFoundError):
        xr.open_dataset(f"{place}/none#mode=zarr,s3", engine="nczfs", store_options=profile)
