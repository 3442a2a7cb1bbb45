"""A case written and read by the netCDF4 package, in whatever format its netcdf-c has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import netCDF4
import numpy as np

from tests.interop.matrix.model import Case, Codec, Fill, Grp, Observed, Seen, Var


def write_netcdf(case: Case, target: str) -> None:
    with netCDF4.Dataset(target, "w") as dataset:
        for path, group in case.root.walk():
            fill_group(dataset.createGroup(path) if path else dataset, group)


def fill_group(target: Any, group: Grp) -> None:
    for dimension in group.dims:
        target.createDimension(dimension.name, None if dimension.unlimited else dimension.size)
    set_attributes(target, group.attributes)
    for variable in group.vars:
        made = target.createVariable(
            variable.name,
            str if variable.type == "str" else variable.type,
            variable.dims,
            chunksizes=variable.chunks or None,
            fill_value=netcdf_fill(variable),
            **compression(variable.codecs),
        )
        made.set_auto_maskandscale(False)
        made.set_auto_chartostring(False)
        set_attributes(made, variable.attributes)
        for box in variable.boxes():
            made[box if box else ...] = variable.values[box]


def netcdf_fill(variable: Var) -> Any:
    match variable.fill:
        case Fill.DEFAULT:
            return None
        case Fill.NONE:
            return False
        case value:
            return value


def compression(codecs: Sequence[Codec]) -> dict[str, Any]:
    """The arguments of createVariable for a codec chain."""
    arguments: dict[str, Any] = {"shuffle": False}
    for codec in codecs:
        match codec["id"]:
            case "shuffle":
                arguments |= {"shuffle": True}
            case "blosc":
                arguments |= {
                    "compression": f"blosc_{codec['cname']}",
                    "blosc_shuffle": codec["shuffle"],
                    "complevel": codec["clevel"],
                }
            case name:
                called = {"bz2": "bzip2"}.get(name, name)
                arguments |= {"compression": called, "complevel": codec["level"]}
    return arguments


def set_attributes(target: Any, attributes: Mapping[str, object]) -> None:
    for name, value in attributes.items():
        if isinstance(value, list):
            target.setncattr_string(name, value)
        else:
            target.setncattr(name, value)


def read_netcdf(source: str) -> Observed:
    variables: dict[str, Seen] = {}
    groups: dict[str, Mapping[str, object]] = {}

    def walk(group: Any, path: str) -> None:
        groups[path] = {name: group.getncattr(name) for name in group.ncattrs()}
        for name, variable in group.variables.items():
            variables[f"{path}/{name}".strip("/")] = seen(variable)
        for name, member in group.groups.items():
            walk(member, f"{path}/{name}".strip("/"))

    with netCDF4.Dataset(source) as dataset:
        walk(dataset, "")
    return Observed(variables, groups, types_told=True)


def seen(variable: Any) -> Seen:
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    attributes = {name: variable.getncattr(name) for name in variable.ncattrs()}
    return Seen(
        np.asarray(variable[...]),
        variable.dimensions,
        tuple(dimension.isunlimited() for dimension in variable.get_dims()),
        attributes.pop("_FillValue", Fill.NONE),
        attributes,
    )
