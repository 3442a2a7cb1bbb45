"""The types of ncstreams and those of netCDF."""

from __future__ import annotations

from typing import Final

from nczfs.model.dtypes import NcType
from nczfs.ncstream.messages import DataType

TYPES: Final[dict[NcType, DataType]] = {
    NcType.CHAR: DataType.CHAR,
    NcType.BYTE: DataType.BYTE,
    NcType.UBYTE: DataType.UBYTE,
    NcType.SHORT: DataType.SHORT,
    NcType.USHORT: DataType.USHORT,
    NcType.INT: DataType.INT,
    NcType.UINT: DataType.UINT,
    NcType.INT64: DataType.LONG,
    NcType.UINT64: DataType.ULONG,
    NcType.FLOAT: DataType.FLOAT,
    NcType.DOUBLE: DataType.DOUBLE,
    NcType.STRING: DataType.STRING,
}

NC_TYPES: Final[dict[DataType, NcType]] = {
    **{type_: nc_type for nc_type, type_ in TYPES.items()},
    DataType.ENUM1: NcType.UBYTE,
    DataType.ENUM2: NcType.USHORT,
    DataType.ENUM4: NcType.UINT,
}
"""The netCDF type of what has one; an enumeration is its numbers."""
