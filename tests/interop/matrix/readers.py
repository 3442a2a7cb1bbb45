"""The programs that read: each shows a dataset as plain data, or raises its own error."""

from __future__ import annotations

import atexit
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import xarray
import zarr

import nczfs
from tests.interop.matrix.child import NetcdfProcess
from tests.interop.matrix.model import Fill, Observed, Refused, Seen
from tests.interop.matrix.netcdf import read_netcdf
from tests.interop.matrix.programs import run


@dataclass(frozen=True, slots=True)
class Store:
    """A dataset in a directory.

    Attributes
    ----------
    is_nczarr : what its writer calls it; the reader who has to say so says it.
    """

    path: Path
    is_nczarr: bool

    @property
    def netcdf_url(self) -> str:
        return f"file://{self.path}#mode={'nczarr' if self.is_nczarr else 'zarr'},file"


@dataclass(frozen=True, slots=True)
class Reader:
    name: str
    read: Callable[[Store], Observed]


# -- netcdf-c --------------------------------------------------------------------------------------


NETCDF = NetcdfProcess()
atexit.register(NETCDF.close)


def netcdf_c(store: Store) -> Observed:
    return NETCDF.read(store.netcdf_url)


def nccopy(store: Store) -> Observed:
    """As the netCDF-4 file that nccopy makes of it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = f"{scratch}/copy.nc"
        run("nccopy", "-k", "nc4", store.netcdf_url, copy)
        return read_netcdf(copy)


# -- zarr-python, xarray ---------------------------------------------------------------------------

BOOKKEEPING = ("_nczarr", "_NCZARR", "_NCProperties", "_ARRAY_DIMENSIONS", "_FillValue")


def zarr_python(store: Store) -> Observed:
    variables: dict[str, Seen] = {}
    groups: dict[str, Mapping[str, object]] = {}

    def walk(group: zarr.Group, path: str) -> None:
        groups[path] = shown(group.attrs.asdict())
        for name, member in group.members():
            where = f"{path}/{name}".strip("/")
            if isinstance(member, zarr.Group):
                walk(member, where)
            else:
                variables[where] = zarr_seen(member)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that have no v3 specification
        walk(zarr.open_group(str(store.path), mode="r", zarr_format=2), "")
    return Observed(variables, groups)


def zarr_seen(array: Any) -> Seen:
    attributes = array.attrs.asdict()
    dims = attributes.get("_ARRAY_DIMENSIONS")
    fill = Fill.NONE if array.metadata.fill_value is None else array.metadata.fill_value
    return Seen(
        np.asarray(array[...]),
        None if dims is None else tuple(dims),
        fill=fill,
        attributes=shown(attributes),
    )


def shown(attributes: Mapping[str, object]) -> dict[str, object]:
    """Without what other libraries take out of the attributes; zarr-python shows everything."""
    return {name: value for name, value in attributes.items() if not name.startswith(BOOKKEEPING)}


def xarray_(store: Store) -> Observed:
    variables: dict[str, Seen] = {}
    groups: dict[str, Mapping[str, object]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that have no v3 specification
        found = xarray.open_groups(
            str(store.path),
            engine="zarr",
            zarr_format=2,
            consolidated=False,
            mask_and_scale=False,
            decode_times=False,
            decode_coords=False,
            concat_characters=False,
        )
        for where, dataset in found.items():
            path = where.strip("/")
            groups[path] = dataset.attrs
            for name, variable in dataset.variables.items():
                attributes = dict(variable.attrs)
                variables[f"{path}/{name}".strip("/")] = Seen(
                    variable.values,
                    tuple(map(str, variable.dims)),
                    fill=attributes.pop("_FillValue", Fill.NONE),
                    attributes=attributes,
                )
    return Observed(variables, groups)


# -- GDAL, tensorstore -----------------------------------------------------------------------------

GDAL_TYPES = {
    "Byte": "u1",
    "UInt16": "u2",
    "Int16": "i2",
    "UInt32": "u4",
    "Int32": "i4",
    "UInt64": "u8",
    "Int64": "i8",
    "Float32": "f4",
    "Float64": "f8",
    "CFloat32": "c8",
    "CFloat64": "c16",
    "String": "O",
}


def gdal(store: Store) -> Observed:
    variables: dict[str, Seen] = {}
    groups: dict[str, Mapping[str, object]] = {}

    def walk(group: Mapping[str, Any], path: str) -> None:
        groups[path] = gdal_attributes(group)
        for name, array in group.get("arrays", {}).items():
            variables[f"{path}/{name}".strip("/")] = gdal_seen(array)
        for name, member in group.get("groups", {}).items():
            walk(member, f"{path}/{name}".strip("/"))

    printed = run("gdalmdiminfo", "-detailed", str(store.path))
    walk(json.loads(printed, parse_int=gdal_number), "")
    return Observed(variables, groups)


def gdal_seen(array: Mapping[str, Any]) -> Seen:
    attributes = gdal_attributes(array)
    if "unit" in array:
        attributes["units"] = array["unit"]
    return Seen(
        np.array(array["values"], object).astype(GDAL_TYPES[array["datatype"]]),
        tuple(gdal_dimension(dimension) for dimension in array.get("dimensions", ())),
        fill=array.get("nodata_value", Fill.NONE),
        attributes=attributes,
    )


def gdal_number(text: str) -> int | float:
    """A number without a point, which may be a float all the same: GDAL prints -0.0 as -0."""
    return -0.0 if text == "-0" else int(text)


def gdal_dimension(dimension: str | Mapping[str, Any]) -> str:
    """The name: of one that the group declares, or of one that the array alone has."""
    if isinstance(dimension, str):
        return dimension.rpartition("/")[2]
    return str(dimension["name"])


def gdal_attributes(node: Mapping[str, Any]) -> dict[str, object]:
    attributes = node.get("attributes", {})
    return shown({name: attribute["value"] for name, attribute in attributes.items()})


def tensorstore_(store: Store) -> Observed:
    """Each array by itself; tensorstore knows neither groups nor attributes."""
    found = {
        str(document.parent.relative_to(store.path)): document.parent
        for document in store.path.rglob(".zarray")
    }
    return Observed({where: tensorstore_seen(path) for where, path in found.items()})


def tensorstore_seen(path: Path) -> Seen:
    kvstore = {"driver": "file", "path": f"{path}/"}
    array = tensorstore.open({"driver": "zarr", "kvstore": kvstore}).result()
    values, fill = np.asarray(array.read().result()), array.fill_value
    dtype = np.dtype(array.spec().to_json()["metadata"]["dtype"])
    if dtype.kind == "S":  # shown with an inner dimension of single bytes
        values = np.frombuffer(values.tobytes(), dtype).reshape(values.shape[:-1])
        fill = None if fill is None else np.frombuffer(np.asarray(fill).tobytes(), dtype)[0:1]
    return Seen(values, fill=Fill.NONE if fill is None else fill.reshape(-1)[0])


# -- nczfs -----------------------------------------------------------------------------------------


def nczfs_(store: Store) -> Observed:
    variables: dict[str, Seen] = {}
    groups: dict[str, Mapping[str, object]] = {}

    def walk(group: nczfs.Group) -> None:
        path = group.path.strip("/")
        if group.problems:
            raise Refused(f"{group.path}: {'; '.join(group.problems)}")
        groups[path] = dict(group.attrs)
        for variable in group.variables.values():
            variables[variable.path.strip("/")] = nczfs_seen(variable)
        for member in group.groups.values():
            walk(member)

    with nczfs.open(str(store.path)) as dataset:
        walk(dataset)
    return Observed(variables, groups, types_told=True)


def nczfs_seen(variable: nczfs.Variable) -> Seen:
    if variable.problems:
        raise Refused(f"{variable.path}: {'; '.join(variable.problems)}")
    attributes = {name: value for name, value in variable.attrs.items() if name != "_FillValue"}
    return Seen(
        np.asarray(variable[...]),
        variable.dimensions,
        tuple(dimension.unlimited for dimension in variable.description.dimensions),
        Fill.NONE if variable.fill_value is None else variable.fill_value,
        attributes,
    )


READERS = (
    Reader("netcdf-c 4.10.1", netcdf_c),
    Reader("netcdf-c 4.9.0", nccopy),
    Reader("zarr-python", zarr_python),
    Reader("xarray", xarray_),
    Reader("GDAL", gdal),
    Reader("tensorstore", tensorstore_),
    Reader("nczfs", nczfs_),
)
