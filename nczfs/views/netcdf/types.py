"""The types that elements have in netCDF files."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

from nczfs.errors import Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.model.dtypes import NC_TYPE_OF_CODE, DataType, NcType, VlenKind
from nczfs.model.hierarchy import Attribute, Variable
from nczfs.model.smallnumbers import number_kind, small_number
from nczfs.plaindata import frozen
from nczfs.views.netcdf.kinds import FileFormat
from nczfs.views.netcdf.names import UniqueNames

TEXTS_MAX = 65_536
TEXTS_BYTES_MAX = 8 << 20
"""The strings of a variable are read for a file up to this number, and these bytes."""

ELEMENT_BYTES_MAX = 1 << 20
"""An element of a named type: HDF5 writes one when it gives a variable its place."""

ENCODING = "_Encoding"

_TIME_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
"""The units that UDUNITS, cftime and xarray know. A year or a month has no fixed length."""

UnnamedType: TypeAlias = "NcType | np.dtype[Any]"
"""A netCDF type, or the dtype of a compound or opaque one that has no name yet."""


@frozen
class ShownType:
    """The type of a variable in a file.

    Attributes
    ----------
    cell : dtype of an element in the file; None: the strings are read when the file is described;
        object: elements of any length, which are read when they are sent.
    width : of a last dimension of characters; None: there is none.
    added : attributes that say what the type does not.
    is_ragged : whether elements are arrays of any length of the type.
    """

    type: UnnamedType
    cell: np.dtype[Any] | None
    width: int | None = None
    added: tuple[Attribute, ...] = ()
    is_ragged: bool = False


def shown_type(variable: Variable, kind: FileFormat) -> ShownType:
    """Return the type of a variable in files of a kind.

    Strings of variable length that become characters have no `width` yet: the longest sets it.

    Raises
    ------
    Unsupported : such files cannot hold its elements; the message is a clause about it.
    """
    dtype = variable.array.dtype
    native = dtype.native
    if dtype.vlen is not None or is_text(variable):
        return _text(variable, kind)
    if dtype.nc_type is NcType.CHAR or native == np.dtype("S1"):
        return ShownType(NcType.CHAR, native)
    match native.kind:
        case "S":
            return as_characters(variable)
        case "b":
            return ShownType(NcType.BYTE, np.dtype("i1"), added=(_said("dtype", "bool"),))
        case "f" if native.itemsize == 2:
            return ShownType(NcType.FLOAT, np.dtype("f4"))
        case _ if small_number(native) is not None:
            return _small(dtype)
        case "M" | "m":
            return ShownType(NcType.INT64, np.dtype("i8"), added=_units(native))
    if dtype.nc_type is not None:
        return ShownType(dtype.nc_type, native)
    cell = _named_type(native) if kind.has_groups else None
    if cell is None or (cell.fields is None and not kind.has_opaque):
        raise Unsupported(f"is of type {dtype.typestr[:80]}")
    if cell.itemsize > ELEMENT_BYTES_MAX:
        raise Unsupported(f"has elements of {cell.itemsize} bytes, more than {ELEMENT_BYTES_MAX}")
    return ShownType(cell, cell)


def _small(dtype: DataType) -> ShownType:
    match number_kind(dtype.native):
        case "i":
            return ShownType(NcType.BYTE, np.dtype("i1"))
        case "u":
            return ShownType(NcType.UBYTE, np.dtype("u1"))
        case "f":
            return ShownType(NcType.FLOAT, np.dtype("f4"))
    raise Unsupported(f"is of type {dtype.typestr}")


def fault_of(variable: Variable, kind: FileFormat) -> str | None:
    """Return why files of a kind cannot hold the values of a variable, by its metadata alone."""
    nbytes = variable.array.decoded_bytes or 0
    if nbytes > kind.values_bytes_max:
        return f"its {nbytes} bytes are more than the file can have"
    try:
        shown_type(variable, kind)
    except Unsupported as error:
        return str(error)
    return None


def is_text(variable: Variable) -> bool:
    """Return whether elements are netCDF strings; those of `|Sn` in pure Zarr are bytes."""
    dtype = variable.array.dtype
    if dtype.nc_type is not NcType.STRING:
        return False
    return dtype.stored.kind != "S" or is_netcdf(variable.format)


@cache
def is_netcdf(format_name: str) -> bool:
    """Return whether a format's types are those of netCDF."""
    return FORMATS.named(format_name, FormatOptions()).is_netcdf


def _text(variable: Variable, kind: FileFormat) -> ShownType:
    array = variable.array
    dtype = array.dtype
    if dtype.vlen not in (None, VlenKind.TEXT):
        return _any_length(dtype, kind)
    if kind.has_later_strings:
        return ShownType(NcType.STRING, np.dtype(object))
    is_few = array.size <= TEXTS_MAX and array.size * dtype.item_size <= TEXTS_BYTES_MAX
    if is_few and kind.has_strings:
        return ShownType(NcType.STRING, None)
    if dtype.vlen is not None:
        if is_few:
            return ShownType(NcType.CHAR, None, added=(_said(ENCODING, "utf-8"),))
        raise Unsupported(f"has {array.size} strings of variable length, more than {TEXTS_MAX}")
    return as_characters(variable)


def _any_length(dtype: DataType, kind: FileFormat) -> ShownType:
    """Return the type of bytes, or of arrays of numbers, of any length."""
    if kind.has_any_length:
        if dtype.vlen is VlenKind.BYTES:
            return ShownType(np.dtype("V"), np.dtype(object))
        base = None if dtype.base is None else NC_TYPE_OF_CODE.get(dtype.base.str[1:])
        if base is not None:
            return ShownType(base, np.dtype(object), is_ragged=True)
    assert dtype.vlen is not None
    raise Unsupported(f"is of type {dtype.typestr} {dtype.vlen.value}")


def as_characters(variable: Variable) -> ShownType:
    """Return the type of strings of a fixed length as characters: a text of UTF-8 each."""
    width = variable.array.dtype.item_size
    return ShownType(
        NcType.CHAR, np.dtype(f"S{width}"), width=width, added=(_said(ENCODING, "utf-8"),)
    )


def _units(native: np.dtype[Any]) -> tuple[Attribute, ...]:
    """Return the attributes of times whose unit netCDF can say."""
    unit, count = np.datetime_data(native)
    words = _TIME_UNITS.get(unit)
    if words is None or count != 1:
        return ()
    if native.kind == "m":
        units = _said("units", words)
        # With it, xarray makes time spans of numbers; it has none of longer units.
        return (units, _said("dtype", native.name)) if unit.endswith("s") else (units,)
    # numpy's calendar; the standard one of CF changes to the Julian one before 1582.
    return (
        _said("units", f"{words} since 1970-01-01"),
        _said("calendar", "proleptic_gregorian"),
    )


def _named_type(native: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of a compound or opaque type with the same bytes; None: there is none."""
    if native.kind == "c":
        part = np.dtype(f"f{native.itemsize // 2}")
        return np.dtype([("r", part), ("i", part)])
    if native.fields is None:
        return native if native.kind == "V" and native.subdtype is None else None
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    names = UniqueNames()
    for name in native.names or ():
        base: np.dtype[Any] = native.fields[name][0]
        shape: tuple[int, ...] = ()
        if base.subdtype is not None:
            base, shape = base.subdtype
        if base.kind in "iu" or (base.kind == "f" and base.itemsize in (4, 8)):
            found = base.newbyteorder("=")
        elif base.kind == "b":
            found = np.dtype("i1")
        elif base.kind in "mM":
            found = np.dtype("i8")
        elif base.kind == "S":
            found, shape = np.dtype("S1"), (*shape, base.itemsize) if base.itemsize > 1 else shape
        else:
            return None
        fields.append((names.given(name), found, shape))
    return np.dtype(fields)


def _said(name: str, text: str) -> Attribute:
    return Attribute(name, NcType.CHAR, text)
