"""The ``dtype`` of a Zarr v2 array: type strings, structured types, objects."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.jsontext import plain
from nczfs.messages import shown
from nczfs.model.dtypes import (
    MAX_ITEM_BYTES,
    DataType,
    NcType,
    VlenKind,
    nc_type_of,
    parse_typestr,
)
from nczfs.model.hierarchy import CodecSpec, Json

FIELDS_MAX = 4096
FIELD_NDIM_MAX = 32  # limit of numpy 1; numpy 2 has 64

# The filters that turn objects into bytes (numcodecs). One of them comes first in the chain.
OBJECT_CODECS = {
    "vlen-utf8": VlenKind.TEXT,
    "categorize": VlenKind.TEXT,
    "vlen-bytes": VlenKind.BYTES,
    "vlen-array": VlenKind.ARRAY,
    "json2": VlenKind.JSON,
    "msgpack2": VlenKind.JSON,
    # Described, so that the variable can be shown; the codecs refuse its values.
    "pickle": VlenKind.JSON,
}


def data_type(value: Json, filters: tuple[CodecSpec, ...], where: str) -> DataType:
    """Return the type of the elements of an array.

    Parameters
    ----------
    value : the member ``dtype``, parsed.
    filters : of the array; the first one determines the objects of ``|O``.
    where : the key of the document, for messages.

    Raises
    ------
    BadMetadata : it is not a Zarr v2 type. Unsupported : it is not supported (long doubles).

    Notes
    -----
    Zarr v2 specification, "Data type encoding". A structured type is packed: there is no padding
    between its fields, each of which has its own byte order.
    """
    if value == "|O":
        return _object_type(filters, where)
    if isinstance(value, str):
        stored = parse_typestr(value, where)
        typestr = str(value)
    else:
        stored = _structured(value, where, [0])
        typestr = json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)
    if stored.itemsize == 0:
        raise BadMetadata(f"{where}: dtype {shown(typestr)}: elements have no bytes")
    return DataType(typestr, stored, nc_type=nc_type_of(stored))


def as_char(dtype: DataType) -> DataType:
    """Return the type as netCDF text: one byte an element.

    netcdf-c up to 4.9.0 calls it ``<U1`` but stores one byte (four in numpy).
    """
    return DataType(dtype.typestr, np.dtype("S1"), nc_type=NcType.CHAR)


def _object_type(filters: tuple[CodecSpec, ...], where: str) -> DataType:
    if not filters:
        raise BadMetadata(f"{where}: dtype '|O' needs a filter that says what the objects are")
    first = filters[0]
    # An array with an unknown object codec can be described, too; its values are refused.
    kind = OBJECT_CODECS.get(first.name, VlenKind.JSON)
    base = None
    if kind is VlenKind.ARRAY:
        of_items = first.configuration.get("dtype")
        if not isinstance(of_items, str):
            raise BadMetadata(f"{where}: filter 'vlen-array' without a dtype")
        # numcodecs takes numpy's spelling here, also without a byte order.
        base = parse_typestr(of_items if of_items[:1] in "<>|" else f"<{of_items}", where)
    nc_type = NcType.STRING if kind is VlenKind.TEXT else None
    return DataType("|O", np.dtype(object), kind, nc_type, base)


def _structured(value: Json, where: str, count: list[int]) -> np.dtype[Any]:
    """Return the packed type of a list of fields; `count` sums up the fields of all levels."""
    if not isinstance(value, list) or not value:
        raise BadMetadata(f"{where}: dtype {shown(value)} is not a type")
    names: list[str] = []
    types: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    total = 0
    for field in value:
        count[0] += 1
        if count[0] > FIELDS_MAX:
            raise BadMetadata(f"{where}: dtype: more than {FIELDS_MAX} fields")
        if not isinstance(field, list) or len(field) not in (2, 3):
            raise BadMetadata(f"{where}: dtype: a field is [name, type] or [name, type, shape]")
        name, inner = field[0], field[1]
        if not isinstance(name, str) or not name or name in names:
            raise BadMetadata(f"{where}: dtype: field name {shown(name)} is empty or used twice")
        if isinstance(inner, str):
            base = parse_typestr(inner, where)
        else:
            base = _structured(inner, where, count)
        shape = _field_shape(field[2], where) if len(field) == 3 else ()
        total += base.itemsize * prod(shape)
        if total > MAX_ITEM_BYTES:
            raise BadMetadata(f"{where}: dtype: an element of {total} bytes or more is too large")
        names.append(str(name))
        types.append((str(name), base, shape))
    try:
        return np.dtype(types)
    except (ValueError, TypeError) as error:
        raise Unsupported(f"{where}: dtype {shown(names)}: {error}") from error


def _field_shape(value: Json, where: str) -> tuple[int, ...]:
    lengths = value if isinstance(value, list) else [value]
    shape: list[int] = []
    for length in lengths:
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise BadMetadata(f"{where}: dtype: field shape {shown(value)} is not a shape")
        shape.append(length)
    if len(shape) > FIELD_NDIM_MAX:
        raise BadMetadata(f"{where}: dtype: a field of {len(shape)} dimensions")
    return tuple(shape)
