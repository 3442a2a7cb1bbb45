"""The programs that write: each stores a case below a path, or raises its own error."""

from __future__ import annotations

import base64
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import netCDF4
import numcodecs
import numpy as np
import tensorstore
import xarray
import zarr

import nczfs
from tests.interop.matrix.model import Case, Fill, Grp, Lack, Values, Var
from tests.interop.matrix.netcdf import write_netcdf
from tests.interop.matrix.programs import run

NETCDF_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1", "str")


@dataclass(frozen=True, slots=True)
class Writer:
    """A program that writes.

    Attributes
    ----------
    lacks : what its store has no place for: much where it is plain Zarr v2.
    """

    name: str
    write: Callable[[Case, Path], None]
    lacks: frozenset[Lack] = frozenset()

    @property
    def is_nczarr(self) -> bool:
        """It stores the netCDF data model."""
        return not self.lacks


# -- netcdf-c --------------------------------------------------------------------------------------


def netcdf_c(case: Case, path: Path, *, mode: str) -> None:
    write_netcdf(case, f"file://{path}#mode={mode},file")


def nccopy(case: Case, path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source = f"{scratch}/source.nc"
        write_netcdf(case, source)
        run("nccopy", source, f"file://{path}#mode=nczarr,file")


def ncgen(case: Case, path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source, cdl = f"{scratch}/source.nc", Path(scratch, "source.cdl")
        write_netcdf(case, source)
        cdl.write_text(run("ncdump", "-s", "-p", "9,17", source), errors="surrogateescape")
        run("ncgen", "-4", "-o", f"file://{path}#mode=nczarr,file", str(cdl))


# -- zarr-python, xarray ---------------------------------------------------------------------------


def zarr_python(case: Case, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that have no v3 specification
        root = zarr.open_group(str(path), mode="w", zarr_format=2)
        for where, group in case.root.walk():
            made = root.require_group(where) if where else root
            made.attrs.update(json_attributes(group.attributes))
            for variable in group.vars:
                zarr_array(made, variable)


def zarr_array(group: zarr.Group, variable: Var) -> None:
    filters, compressor = filters_and_compressor(variable)
    array = group.create_array(
        variable.name,
        shape=variable.values.shape,
        dtype=str if variable.type == "str" else variable.type,
        chunks=variable.chunk_shape,
        filters=filters or "auto",  # texts need one that is not of the case
        compressors=compressor,
        fill_value=zarr_fill(variable),
        attributes={
            "_ARRAY_DIMENSIONS": list(variable.dims),
            **json_attributes(variable.attributes),
        },
    )
    for box in variable.boxes():
        array[box if box else ...] = variable.values[box]


def xarray_(case: Case, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that have no v3 specification
        for where, group in case.root.walk():
            xarray_dataset(group).to_zarr(
                str(path),
                group=where or None,
                mode="a",
                zarr_format=2,
                consolidated=False,
                encoding={variable.name: xarray_encoding(variable) for variable in group.vars},
            )


def xarray_dataset(group: Grp) -> xarray.Dataset:
    variables = {
        variable.name: xarray.Variable(variable.dims, variable.values, dict(variable.attributes))
        for variable in group.vars
    }
    dataset = xarray.Dataset(variables, attrs=dict(group.attributes))
    unlimited = {dimension.name for dimension in group.dims if dimension.unlimited}
    dataset.encoding["unlimited_dims"] = unlimited
    return dataset


def xarray_encoding(variable: Var) -> dict[str, Any]:
    filters, compressor = filters_and_compressor(variable)
    fill = None if isinstance(variable.fill, Fill) else variable.fill
    encoding: dict[str, Any] = {"compressors": compressor} | (
        {"filters": filters} if filters else {}
    )
    if variable.type not in ("str", "M8[s]"):
        encoding["_FillValue"] = fill
    return encoding | ({"chunks": variable.chunks} if variable.chunks else {})


def filters_and_compressor(variable: Var) -> tuple[list[Any], Any]:
    """The codecs as numcodecs has them; the last one compresses, as netcdf-c stores them."""
    made = [numcodecs.get_codec(dict(codec)) for codec in variable.codecs]
    return (made[:-1], made[-1]) if made else ([], None)


def zarr_fill(variable: Var) -> Any:
    """Plain Zarr knows no default of netCDF's: it is a number like another."""
    match variable.fill:
        case Fill.DEFAULT if variable.type == "str":
            return ""
        case Fill.DEFAULT if variable.type == "S1":
            return b""
        case Fill.DEFAULT:
            return np.dtype(variable.type).type(netCDF4.default_fillvals[variable.type])
        case Fill.NONE:
            return None
        case value:
            return value


def json_attributes(attributes: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in attributes.items()
    }


# -- GDAL, tensorstore -----------------------------------------------------------------------------


def gdal(case: Case, path: Path) -> None:
    """From a netCDF-4 file; from zarr-python's arrays where netCDF has no such type."""
    variables = case.variables().values()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        if all(variable.type in NETCDF_TYPES for variable in variables):
            write_netcdf(case, str(source))
        else:
            zarr_python(case, source)
        options = [option for variable in variables for option in gdal_options(variable)]
        run("gdalmdimtranslate", "-q", "-of", "ZARR", *options, str(source), str(path))


def gdal_options(variable: Var) -> list[str]:
    options = {}
    if variable.chunks:
        options["BLOCKSIZE"] = ",".join(map(str, variable.chunks))
    for codec in variable.codecs:
        name = codec["id"].upper()
        if name == "SHUFFLE":
            options["FILTER"] = "shuffle"
        else:
            options["COMPRESS"] = name
    condition = f"ARRAY:IF(NAME={variable.name}):"
    return [word for key, value in options.items() for word in ("-co", f"{condition}{key}={value}")]


def tensorstore_(case: Case, path: Path) -> None:
    """Arrays alone, in groups of zarr-python: tensorstore knows neither groups nor attributes."""
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    for where in dict(case.root.walk()):
        root.require_group(where)
    for where, variable in case.variables().items():
        made = tensorstore.open(
            {
                "driver": "zarr",
                "kvstore": {"driver": "file", "path": f"{path / where}/"},
                "metadata": tensorstore_metadata(variable),
                "create": True,
            }
        ).result()
        values = split_bytes(variable.values)
        for box in variable.boxes():
            made[box if box else ...] = values[box]


def split_bytes(values: Values) -> Values:
    """Bytes of fixed length as tensorstore has them: an inner dimension of single ones."""
    if values.dtype.kind != "S":
        return values
    return np.frombuffer(values.tobytes(), "S1").reshape(*values.shape, values.dtype.itemsize)


def tensorstore_metadata(variable: Var) -> dict[str, Any]:
    filters = [dict(codec) for codec in variable.codecs[:-1]]
    dtype = "|O" if variable.type == "str" else np.dtype(variable.type).str
    return {
        "shape": list(variable.values.shape),
        "chunks": list(variable.chunk_shape),
        "dtype": dtype,
        "filters": filters or None,
        "compressor": dict(variable.codecs[-1]) if variable.codecs else None,
        "fill_value": json_fill(variable),
        "order": "C",
    }


def json_fill(variable: Var) -> Any:
    """A fill value as Zarr v2 writes it."""
    fill = zarr_fill(variable)
    if fill is None:
        return None
    value = np.asarray(fill, variable.values.dtype)
    match value.dtype.kind:
        case "S":
            return base64.b64encode(value.tobytes()).decode()
        case "c":
            return [float(value.real), float(value.imag)]
        case "f" if np.isnan(value):
            return "NaN"
        case "M":
            return int(value.astype("i8"))
        case _:
            return value.tolist()


# -- nczfs -----------------------------------------------------------------------------------------


def nczfs_(case: Case, path: Path, *, layout: str) -> None:
    with nczfs.open(str(path), "w", format=layout) as dataset:
        for where, group in case.root.walk():
            made = dataset.create_group(where) if where else dataset
            for dimension in group.dims:
                made.create_dimension(
                    dimension.name, None if dimension.unlimited else dimension.size
                )
            for name, value in group.attributes.items():
                made.attrs[name] = value
            for variable in group.vars:
                nczfs_variable(made, variable)


def nczfs_variable(group: Any, variable: Var) -> None:
    fill: dict[str, object] = {}
    if variable.fill is not Fill.DEFAULT:
        fill["fillvalue"] = None if variable.fill is Fill.NONE else variable.fill
    made = group.create_variable(
        variable.name,
        variable.dims,
        str if variable.type == "str" else variable.type,
        chunks=variable.chunks or None,
        codecs=[dict(codec) for codec in variable.codecs],
        attributes=dict(variable.attributes),
        **fill,
    )
    for box in variable.boxes():
        made[box if box else ...] = variable.values[box]


PLAIN = frozenset({Lack.ATTRIBUTE_TYPES, Lack.UNLIMITED})

FOREIGN = (
    Writer("netcdf-c 4.10.1", partial(netcdf_c, mode="nczarr")),
    Writer("netcdf-c 4.10.1 zarr", partial(netcdf_c, mode="zarr"), PLAIN),
    Writer("ncgen 4.9.0", ncgen),
    Writer("nccopy 4.9.0", nccopy),
    Writer("zarr-python", zarr_python, PLAIN),
    Writer("xarray", xarray_, PLAIN),
    Writer("GDAL", gdal, PLAIN | {Lack.DIMENSION_NAMES}),
    Writer("tensorstore", tensorstore_, PLAIN | {Lack.DIMENSION_NAMES, Lack.ATTRIBUTES}),
)
LAYOUTS = {
    "nczarr-L3": frozenset[Lack](),
    "nczarr-L2l": frozenset[Lack](),
    "nczarr-L2U": frozenset[Lack](),
    "nczarr-L1": frozenset[Lack](),
    "zarr2": PLAIN,
}
OURS = tuple(
    Writer(f"nczfs {layout}", partial(nczfs_, layout=layout), lacks)
    for layout, lacks in LAYOUTS.items()
)
WRITERS = (*FOREIGN, *OURS)
