"""The stored form of a new Zarr v2 array's elements: type strings and object codecs."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.errors import Unsupported, UsageError
from nczfs.formats.base import StoredType
from nczfs.formats.elementtypes import as_char, data_type
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import CODE_OF_NC_TYPE, MAX_ITEM_BYTES, NC_TYPE_OF_CODE, NcType
from nczfs.model.hierarchy import CodecSpec, Json
from nczfs.model.smallnumbers import number_kind, small_number

DEFAULT_STRING_BYTES = 128  # netcdf-c's NCZARR_MAXSTRLEN

_WIDEST = {"f": 8, "c": 16, "O": 0}  # bytes; long doubles have a form of their own on each machine

_TEXT_CODEC = CodecSpec("vlen-utf8")
_WHERE = "a new variable"

# What netCDF offers instead of the kinds of numpy types that it lacks.
_REMEDIES = {
    "b": "as ubyte",
    "i": "as byte",
    "u": "as ubyte",
    "f": "as float",
    "c": "as two variables, of the real and the imaginary parts",
    "M": "as int64 with an attribute units",
    "m": "as int64 with an attribute units",
    "U": "as string",
    "O": "as string",
    "V": "as ubyte, or as one variable a field",
}


def pure_type(
    wanted: ElementType,
    *,
    byte_order: str | None,
    string_bytes: int | None,
    object_codec: CodecSpec | None = None,
) -> StoredType:
    """Return the stored type of pure Zarr, which has all numpy types; see `MetadataFormat`."""
    _check_string_bytes(string_bytes)
    if wanted is NcType.JSON:
        raise Unsupported(f"{_WHERE}: json is a type for attributes only; use string")
    if wanted is NcType.CHAR:
        return _stored("|S1")
    if wanted is NcType.STRING or (isinstance(wanted, np.dtype) and wanted.kind == "O"):
        if string_bytes is None:
            return _stored("|O", object_codec or _TEXT_CODEC)
        return _stored(f"|S{string_bytes}")
    if isinstance(wanted, NcType):
        return _stored(_number(CODE_OF_NC_TYPE[wanted], byte_order))
    return _stored(_typestr(wanted, byte_order))


def netcdf_type(
    wanted: ElementType,
    *,
    byte_order: str | None,
    string_bytes: int | None,
    layout: str,
    early: bool,
) -> StoredType:
    """Return the stored type of NCZarr, which has only netCDF's types.

    Parameters
    ----------
    layout : its name, for messages.
    early : whether the layout calls text ``<U1`` and has no strings (netcdf-c up to 4.9.0).
    """
    _check_string_bytes(string_bytes)
    if wanted is NcType.JSON:
        raise Unsupported(f"{layout}: json is a type for attributes only; use string")
    if wanted is NcType.CHAR:
        text = _stored("<U1" if early else ">S1")
        return StoredType(as_char(text.dtype))
    if isinstance(wanted, np.dtype):
        code = wanted.str[1:]
        if wanted.kind == "S" and wanted.itemsize:
            string_bytes = wanted.itemsize
            wanted = NcType.STRING
        elif wanted.kind in "iuf" and code in NC_TYPE_OF_CODE:
            byte_order = byte_order or _byte_order(wanted)
            wanted = NC_TYPE_OF_CODE[code]
        else:
            remedy = _REMEDIES.get(number_kind(wanted), "as string")
            has_it = "zarr2" if small_number(wanted) is None else "zarr3"
            raise Unsupported(
                f"{layout} has no type {wanted}; store it {remedy}, or use the format {has_it}"
            )
    if wanted is NcType.STRING:
        if early:
            raise Unsupported(f"{layout} has no strings; use the format nczarr-L3, or type char")
        return _stored(f"|S{string_bytes or DEFAULT_STRING_BYTES}")
    return _stored(_number(CODE_OF_NC_TYPE[wanted], byte_order))


def _stored(dtype: Json, *filters: CodecSpec) -> StoredType:
    return StoredType(data_type(dtype, filters, _WHERE), filters)


def _number(code: str, byte_order: str | None) -> str:
    return ("|" if code.endswith("1") else byte_order or "<") + code


def _check_string_bytes(string_bytes: int | None) -> None:
    if string_bytes is not None and not 1 <= string_bytes <= MAX_ITEM_BYTES:
        raise UsageError(f"strings of {string_bytes} bytes: 1 to {MAX_ITEM_BYTES} are possible")


def _byte_order(dtype: np.dtype[Any]) -> str:
    return ">" if dtype.str.startswith(">") else "<"


def _typestr(dtype: np.dtype[Any], byte_order: str | None) -> Json:
    """Return the type string of a numpy dtype, or the list of its fields."""
    if dtype.names is not None:
        return [_field(name, dtype[name], byte_order) for name in dtype.names]
    if small_number(dtype) is not None:
        raise Unsupported(f"{_WHERE}: Zarr v2 has no type {dtype}; use the format zarr3")
    if dtype.itemsize == 0:
        raise Unsupported(f"{_WHERE}: type {dtype.str} has no length; give one")
    if dtype.itemsize > _WIDEST.get(dtype.kind, MAX_ITEM_BYTES):
        raise Unsupported(f"{_WHERE}: type {dtype} has no portable form; use another one")
    if dtype.kind in "Mm" and np.datetime_data(dtype)[0] == "generic":
        raise Unsupported(f"{_WHERE}: type {dtype} has no unit; give one, as in datetime64[s]")
    text = dtype.str
    if text.startswith("|"):
        return text
    return (byte_order or _byte_order(dtype)) + text[1:]


def _field(name: str, dtype: np.dtype[Any], byte_order: str | None) -> Json:
    base = _typestr(dtype.base, byte_order)
    return [name, base, list(dtype.shape)] if dtype.shape else [name, base]
