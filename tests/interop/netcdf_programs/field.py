"""The dataset that the programs read: a field with coordinates, which zarr-python writes."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import xarray
import zarr

from nczfs.tools.transfer.netcdf_kinds import Format
from tests.support.sample import Values, open_zarr

RECORD_DIMENSION = "time"
VARIABLE = "t2m"
SHAPE = (4, 6, 8)
DIMENSIONS = ("time", "lat", "lon")

ELEMENT = (1, 2, 3)
"""Of what an edit changes."""
EDITED = 275.5

STEP = 100
"""By how much the second dataset is larger."""

# Each value has an end of at most six digits, so that no program rounds it.
FIELD: Values = 250 + np.arange(np.prod(SHAPE), dtype="f4").reshape(SHAPE) / 4
COORDINATES: dict[str, tuple[Values, dict[str, str]]] = {
    "time": (np.arange(4) * 6.0, {"units": "hours since 2020-01-01", "calendar": "standard"}),
    "lat": (50 - 10.0 * np.arange(6), {"units": "degrees_north"}),
    "lon": (10.0 * np.arange(8), {"units": "degrees_east"}),
}
OF_FIELD = {"units": "K", "long_name": "temperature at 2 m"}


def write_field(store: Path, name: str, more: float = 0) -> None:
    """Write the dataset ``name.zarr``: Zarr v2 with the convention of xarray."""
    dataset = field_dataset(more)
    dataset[VARIABLE].encoding["chunks"] = (1, 4, 5)
    dataset.to_zarr(store / f"{name}.zarr", zarr_format=2, consolidated=False)


def write_sharded_field(store: Path, name: str, more: float = 0) -> None:
    """Write the dataset ``name.zarr``: Zarr v3, the field in shards of many chunks."""
    dataset = field_dataset(more)
    shard_field(dataset)
    dataset.to_zarr(store / f"{name}.zarr", zarr_format=3, consolidated=False)


def shard_field(dataset: xarray.Dataset) -> None:
    """Have the field stored in shards, and its first dimension unlimited."""
    dataset[VARIABLE].encoding |= {"chunks": (1, 3, 4), "shards": (2, 6, 8)}
    dataset[RECORD_DIMENSION].encoding |= {"chunks": (1,), "shards": (4,)}
    dataset.attrs["_nczfs_unlimited"] = [RECORD_DIMENSION]


def field_dataset(more: float = 0) -> xarray.Dataset:
    """The dataset in memory, without `_FillValue`."""
    dataset = xarray.Dataset(
        {
            VARIABLE: (DIMENSIONS, (FIELD + more).astype("f4"), OF_FIELD),
            "count": (("time",), np.arange(4, dtype="i2"), {"long_name": "number"}),
        },
        {key: ((key,), values, words) for key, (values, words) in COORDINATES.items()},
        {"title": "a field", "Conventions": "CF-1.8"},
    )
    for variable in dataset.variables.values():
        variable.encoding["_FillValue"] = None
    return dataset


def write_native(path: Path, form: Format, more: float = 0) -> Path:
    """Write the same as a file of netcdf-c, which no part of nczfs has seen."""
    with netCDF4.Dataset(path, "w", format=form) as file:
        file.setncatts({"title": "a field", "Conventions": "CF-1.8"})
        for name, size in zip(DIMENSIONS, (None, *SHAPE[1:]), strict=True):
            file.createDimension(name, size)
        members = {VARIABLE: (FIELD + more, OF_FIELD)} | COORDINATES
        for name, (values, words) in members.items():
            dimensions = DIMENSIONS if name == VARIABLE else (name,)
            variable = file.createVariable(name, values.dtype, dimensions)
            variable.setncatts(words)
            variable[...] = values
    return path


def stored_field(store: Path, name: str) -> Values:
    """The values of a dataset as zarr-python reads them."""
    array = open_zarr(store / f"{name}.zarr")[VARIABLE]
    assert isinstance(array, zarr.Array)
    return np.asarray(array[...])
