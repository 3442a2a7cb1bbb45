"""The header of the ncstream of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nczfs.formats.names import parent_of
from nczfs.model.dtypes import NC_TYPE_OF_CODE, NcType
from nczfs.model.hierarchy import Attribute
from nczfs.ncstream import messages as ncs
from nczfs.ncstream.columns import Members
from nczfs.ncstream.messages import DataType
from nczfs.ncstream.names import full_name
from nczfs.ncstream.nctypes import TYPES
from nczfs.views.netcdf.content import (
    Compound,
    FileContent,
    FileDimension,
    FileGroup,
    FileType,
    FileVariable,
    Opaque,
)


def stream_header(content: FileContent, location: str = "") -> ncs.Header:
    """Return the header of a content that was fitted for an ncstream.

    Parameters
    ----------
    location : where the dataset is, without secrets.
    """
    declared = {group.path: {d.name: d for d in group.dimensions} for group in content.groups()}
    return ncs.Header(_group(content.root, declared), location)


def data_type(type_: FileType) -> DataType:
    """Return the type that elements have in an ncstream."""
    match type_:
        case Compound():
            return DataType.STRUCTURE
        case Opaque():
            return DataType.OPAQUE
        case _:
            return TYPES[type_]


def full_name_of(group: FileGroup, variable: FileVariable) -> str:
    """Return the name of a variable in data messages."""
    groups = group.path.split("/") if group.path else []
    return full_name([*groups, variable.name])


_Declared = Mapping[str, Mapping[str, FileDimension]]
"""The dimensions of groups by their paths, by name."""


def _group(group: FileGroup, declared: _Declared) -> ncs.Group:
    return ncs.Group(
        group.name,
        tuple(ncs.Dimension(d.name, d.size, d.unlimited) for d in group.dimensions),
        tuple(
            ncs.Variable(v.name, data_type(v.type), _shape(v, group, declared), attributes_of(v))
            for v in group.variables
            if not isinstance(v.type, Compound)
        ),
        tuple(
            _structure(v, v.type.dtype, group, declared)
            for v in group.variables
            if isinstance(v.type, Compound)
        ),
        tuple(map(_attribute, group.attributes)),
        tuple(_group(child, declared) for child in group.groups),
    )


def _shape(
    variable: FileVariable, group: FileGroup, declared: _Declared
) -> tuple[ncs.Dimension, ...]:
    found = [
        ncs.Dimension(
            d.name, d.size, d.unlimited, is_private=_nearest(d.name, group.path, declared) != d
        )
        for d in variable.dimensions
    ]
    if variable.is_ragged:
        found.append(ncs.Dimension("*", 0, is_vlen=True))  # as netcdf-java names it
    return tuple(found)


def _nearest(name: str, path: str, declared: _Declared) -> FileDimension | None:
    """Return the dimension that readers take for a name in a group."""
    while (found := declared[path].get(name)) is None and path:
        path = parent_of(path)
    return found


def _structure(
    variable: FileVariable, dtype: np.dtype[Any], group: FileGroup, declared: _Declared
) -> ncs.Structure:
    assert dtype.fields is not None
    return ncs.Structure(
        variable.name,
        DataType.STRUCTURE,
        _shape(variable, group, declared),
        attributes_of(variable),
        tuple(_member(name, dtype.fields[name][0]) for name in dtype.names or ()),
    )


def _member(name: str, dtype: np.dtype[Any]) -> ncs.Variable:
    dimensions = tuple(ncs.Dimension("", size, is_private=True) for size in dtype.shape)
    return ncs.Variable(name, member_type(dtype), dimensions)


def members_of(dtype: np.dtype[Any]) -> Members:
    """Return the members of a structured dtype as messages have them."""
    return {name: (member_type(dtype[name]), dtype[name].shape) for name in dtype.names or ()}


def member_type(dtype: np.dtype[Any]) -> DataType:
    """Return the type of a member with a dtype, which may have a shape."""
    is_character = dtype.base == np.dtype("S1")
    return TYPES[NcType.CHAR if is_character else NC_TYPE_OF_CODE[dtype.base.str[1:]]]


def attributes_of(variable: FileVariable) -> tuple[ncs.Attribute, ...]:
    """Return the attributes of a variable."""
    return tuple(map(_attribute, variable.attributes))


def _attribute(attribute: Attribute) -> ncs.Attribute:
    value = attribute.value
    if attribute.type is NcType.CHAR:
        return ncs.Attribute(attribute.name, DataType.STRING, (str(value),))
    assert isinstance(value, tuple)
    return ncs.Attribute(attribute.name, TYPES[attribute.type], value)
