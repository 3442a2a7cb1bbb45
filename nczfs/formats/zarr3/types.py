"""The ``data_type`` of a Zarr v3 array, from JSON and to JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeAlias

import numpy as np

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.zarr3.extensions import Extension, extension
from nczfs.messages import shown
from nczfs.model.dtypes import MAX_ITEM_BYTES, DataType, NcType, VlenKind, nc_type_of
from nczfs.model.hierarchy import Json
from nczfs.model.smallnumbers import SMALL_NUMBERS, ordered, small_number

FIELDS_MAX = 4096
FIELD_DEPTH_MAX = 32

ByteOrder: TypeAlias = Literal["<", ">"]

CORE_TYPES: dict[str, str] = {
    "bool": "b1",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "complex128": "c16",
    "complex_float32": "c8",  # registered, too; the names above are written
    "complex_float64": "c16",
}
"""The codes of numpy's own types, by their names in Zarr."""

_NAMES = {code: name for name, code in CORE_TYPES.items() if "_" not in name}
_RAW_BITS = re.compile(r"r([1-9]\d{0,10})\Z")
_VLEN = {
    "string": VlenKind.TEXT,
    "bytes": VlenKind.BYTES,
    "variable_length_bytes": VlenKind.BYTES,  # as zarr-python 3.1 calls it
}
_VLEN_NAMES = {VlenKind.TEXT: "string", VlenKind.BYTES: "bytes"}
_CELLS = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1)}
_CELL_NAMES = {kind: name for name, (kind, _) in _CELLS.items()}
_TIMES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
_TIME_NAMES = {code[0]: name for name, code in _TIMES.items()}
_UNITS = frozenset(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"])
_MICRO = {"\u03bcs": "us", "\u00b5s": "us"}
_RECORDS = ("struct", "structured")


def data_type(value: Json, byte_order: ByteOrder, where: str) -> DataType:
    """Return the type of the elements of an array.

    Parameters
    ----------
    value : the member ``data_type``, parsed.
    byte_order : "<" or ">", which the codecs of the array state.
    where : the key of the document, for messages.

    Raises
    ------
    BadMetadata : it is not a Zarr v3 type. Unsupported : it is one that nczfs does not read.

    Notes
    -----
    Zarr v3.1 core specification, "Data types", and the registry of extensions. All fields of a
    structured type have the byte order of the array, without padding between them.
    """
    found = extension(value, f"{where}: data_type")
    if (kind := _VLEN.get(found.name)) is not None:
        found.check_members(())
        nc_type = NcType.STRING if kind is VlenKind.TEXT else None
        return DataType("|O", np.dtype(object), kind, nc_type)
    stored, typestr = _fixed(found, byte_order, [0], 1)
    if not isinstance(typestr, str):
        typestr = json.dumps(typestr, separators=(",", ":"), ensure_ascii=False)
    return DataType(typestr, stored, nc_type=nc_type_of(stored))


def data_type_json(dtype: DataType, where: str) -> Json:
    """Return the member ``data_type`` of an array.

    Core types are strings and all others objects, which more programs read than other forms.

    Raises
    ------
    Unsupported : Zarr v3 has no such type.
    """
    if dtype.vlen is not None:
        if dtype.vlen not in _VLEN_NAMES:
            raise Unsupported(f"{where}: Zarr v3 has no type for elements of {dtype.vlen.value}")
        return _VLEN_NAMES[dtype.vlen]
    return fixed_json(dtype.stored, where)


def _fixed(
    found: Extension, byte_order: ByteOrder, count: list[int], depth: int
) -> tuple[np.dtype[Any], Json]:
    """Return a type of a fixed size, and how Zarr v2 spells it.

    Parameters
    ----------
    count : of the fields of all levels so far; it is counted up.
    depth : levels of structured types around it, and its own.
    """
    name = found.name
    code = CORE_TYPES.get(name)
    if code is not None:
        found.check_members(())
        dtype = np.dtype(byte_order + code)
    elif name in SMALL_NUMBERS:
        found.check_members(())
        return ordered(SMALL_NUMBERS[name], byte_order), name
    elif (raw := _RAW_BITS.match(name)) is not None:
        found.check_members(())
        if int(raw[1]) % 8:
            raise Unsupported(f"{found.where} {shown(name)}: elements are no whole bytes")
        dtype = _cells(found, "|V", int(raw[1]) // 8, 1)
    elif name in _CELLS:
        found.check_members(("length_bytes",))
        length = found.configuration.get("length_bytes")
        if type(length) is not int or length < 1:
            raise BadMetadata(f"{found.where}: {name}: length_bytes is {shown(length)}")
        kind, unit = _CELLS[name]
        dtype = _cells(found, byte_order + kind, length, unit)
    elif name in _TIMES:
        dtype = np.dtype(byte_order + _time(found))
    elif name in _RECORDS:
        return _record(found, byte_order, count, depth)
    else:
        raise Unsupported(f"{found.where} {shown(name)} is not supported")
    return dtype, dtype.str


def _cells(found: Extension, kind: str, length: int, unit: int) -> np.dtype[Any]:
    if length % unit:
        raise BadMetadata(f"{found.where} {shown(found.name)}: {length} is no multiple of {unit}")
    if length > MAX_ITEM_BYTES:
        raise BadMetadata(f"{found.where}: an element of {shown(length)} bytes is too large")
    return np.dtype(f"{kind}{length // unit}")


def _time(found: Extension) -> str:
    found.check_members(("unit", "scale_factor"))
    unit, scale = found.configuration.get("unit"), found.configuration.get("scale_factor", 1)
    unit = _MICRO.get(str(unit), unit)
    if unit == "generic":
        raise Unsupported(f"{found.where} {shown(found.name)} without a unit is not supported")
    if unit not in _UNITS:
        raise BadMetadata(f"{found.where}: {found.name}: {shown(unit)} is not a unit")
    if type(scale) is not int or not 1 <= scale < 2**31:
        raise BadMetadata(f"{found.where}: {found.name}: scale_factor is {shown(scale)}")
    return f"{_TIMES[found.name]}[{scale if scale > 1 else ''}{unit}]"


def _record(
    found: Extension, byte_order: ByteOrder, count: list[int], depth: int
) -> tuple[np.dtype[Any], Json]:
    found.check_members(("fields",))
    fields = found.configuration.get("fields")
    if not isinstance(fields, list) or not fields:
        raise BadMetadata(f"{found.where}: {found.name}: fields {shown(fields)}")
    if depth > FIELD_DEPTH_MAX:
        raise BadMetadata(f"{found.where}: fields within fields {FIELD_DEPTH_MAX} times")
    types: dict[str, np.dtype[Any]] = {}
    spelled: list[Json] = []
    total = 0
    for field in fields:
        count[0] += 1
        if count[0] > FIELDS_MAX:
            raise BadMetadata(f"{found.where}: more than {FIELDS_MAX} fields")
        name, inner = _field(field, found)
        if not name or name in types:
            raise BadMetadata(
                f"{found.where}: field name {shown(name)} is empty or present more than once"
            )
        below = extension(inner, f"{found.where}: field {shown(name)}")
        types[name], typestr = _fixed(below, byte_order, count, depth + 1)
        total += types[name].itemsize
        if total > MAX_ITEM_BYTES:
            raise BadMetadata(f"{found.where}: an element of {total} bytes or more is too large")
        spelled.append([name, typestr])
    try:
        return np.dtype(list(types.items())), spelled
    except (ValueError, TypeError) as error:
        raise Unsupported(f"{found.where}: fields {shown(list(types))}: {error}") from error


def _field(field: Json, found: Extension) -> tuple[str, Json]:
    if isinstance(field, dict) and field.keys() == {"name", "data_type"}:
        name, inner = field["name"], field["data_type"]
    elif isinstance(field, list) and len(field) == 2:
        name, inner = field
    else:
        raise BadMetadata(f"{found.where}: {shown(field)} is not a field with a name and a type")
    if not isinstance(name, str):
        raise BadMetadata(f"{found.where}: {shown(name)} is not the name of a field")
    return str(name), inner


def fixed_json(stored: np.dtype[Any], where: str) -> Json:
    """Return the member ``data_type`` of elements of a fixed size. Raises Unsupported."""
    if (name := small_number(stored)) is not None:
        return name
    code = f"{stored.kind}{stored.itemsize}"
    if code in _NAMES:
        return _NAMES[code]
    if stored.names is not None:
        fields: list[Json] = [[name, fixed_json(stored[name], where)] for name in stored.names]
        return {"name": "structured", "configuration": {"fields": fields}}
    if stored.shape:
        raise Unsupported(f"{where}: Zarr v3 has no structured types with arrays as fields")
    if stored.kind in _TIME_NAMES:
        unit, scale = np.datetime_data(stored)
        members: dict[str, Json] = {"unit": unit, "scale_factor": scale}
        return {"name": _TIME_NAMES[stored.kind], "configuration": members}
    if stored.kind in _CELL_NAMES:
        length: dict[str, Json] = {"length_bytes": stored.itemsize}
        return {"name": _CELL_NAMES[stored.kind], "configuration": length}
    raise Unsupported(f"{where}: Zarr v3 has no type {stored}")
