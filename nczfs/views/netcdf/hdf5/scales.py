"""Dimension scales: which dataset of the file stands for which dimension.

netCDF-4 has no dimensions of its own. A dataset of HDF5 with the name of the dimension, marked as a
scale, gives its length. That is the coordinate variable if there is one, or else a dataset without
storage that netCDF does not show as a variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, TypeAlias

from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.plaindata import frozen
from nczfs.views.netcdf.content import (
    Compound,
    FileContent,
    FileDimension,
    FileGroup,
    FileType,
    FileVariable,
    Opaque,
)
from nczfs.views.netcdf.names import NOT_A_COORDINATE

CHUNK_BYTES_END: Final = 1 << 32
"""HDF5 keeps the size of a chunk in 32 bits."""

DimensionKey: TypeAlias = "tuple[str, str]"


@frozen
class DimensionScale:
    """What stands for a dimension.

    Attributes
    ----------
    number : of the dimension, unique in the file; readers show dimensions in this order.
    coordinate : the name of the variable that is the scale; None: a dataset without storage is.
    """

    dimension: FileDimension
    number: int
    coordinate: str | None


def key_of(dimension: FileDimension) -> DimensionKey:
    """Return what identifies a dimension: its group and its name."""
    return dimension.group, dimension.name


def scales_of(content: FileContent) -> Mapping[DimensionKey, DimensionScale]:
    """Return the scales of all dimensions, in the order of their numbers."""
    found: dict[DimensionKey, DimensionScale] = {}
    for group in content.groups():
        coordinates = {v.name for v in group.variables if _is_coordinate(v, group)}
        for dimension in group.dimensions:
            name = dimension.name if dimension.name in coordinates else None
            found[key_of(dimension)] = DimensionScale(dimension, len(found), name)
    return found


def file_name(variable: FileVariable, group: FileGroup) -> str:
    """Return the HDF5 name of a variable."""
    names = {dimension.name for dimension in group.dimensions}
    if variable.name in names and not _is_coordinate(variable, group):
        return NOT_A_COORDINATE + variable.name
    return variable.name


def item_bytes(type_: FileType) -> int:
    """Return the bytes of an element in the file; of a string, those of its reference."""
    match type_:
        case Compound():
            return type_.dtype.itemsize
        case Opaque():
            return type_.size
        case NcType.CHAR:
            return 1
        case NcType.STRING:
            return 16
        case _:
            return int(CODE_OF_NC_TYPE[type_][1:])


def value_bytes(variable: FileVariable) -> int:
    """Return the bytes of all values of a variable."""
    return prod(variable.shape) * item_bytes(variable.type)


def one_chunk(variable: FileVariable) -> tuple[int, ...]:
    """Return the shape of the chunk that has all values of a variable; it has at least one."""
    return tuple(max(1, n) for n in variable.shape)


def _is_coordinate(variable: FileVariable, group: FileGroup) -> bool:
    """Return whether a variable stands for the dimension of its name.

    The scale of an unlimited dimension is one chunk. If its values are too many for that, another
    dataset stands for the dimension.
    """
    if not variable.dimensions or key_of(variable.dimensions[0]) != (group.path, variable.name):
        return False
    is_chunked = any(dimension.unlimited for dimension in variable.dimensions)
    return not is_chunked or prod(one_chunk(variable)) * item_bytes(variable.type) < CHUNK_BYTES_END
