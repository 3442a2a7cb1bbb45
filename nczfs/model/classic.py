"""What a header of the classic netCDF format consists of: tags, types and padding.

Sources: the netCDF classic format specification, and that of CDF-5 in PnetCDF.
"""

from __future__ import annotations

from nczfs.model.dtypes import NcType

DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
"""The tags of lists."""

SIZES = {
    NcType.BYTE: 1,
    NcType.CHAR: 1,
    NcType.SHORT: 2,
    NcType.INT: 4,
    NcType.FLOAT: 4,
    NcType.DOUBLE: 8,
    NcType.UBYTE: 1,
    NcType.USHORT: 2,
    NcType.UINT: 4,
    NcType.INT64: 8,
    NcType.UINT64: 8,
}
"""Bytes of a value, in the order of the types' numbers, which begin with 1."""

NUMBER_OF_TYPE = {nc_type: number for number, nc_type in enumerate(SIZES, 1)}


def padded(nbytes: int) -> int:
    """Return a number of bytes with the padding that follows them."""
    return -(-nbytes // 4) * 4
