"""Parts of netcdf-c that netCDF4-python hides: types of attributes and variables, filters.

netCDF4-python returns text and a string as the same `str`, removes NULs from texts, skips variables
of types that it does not know, and has only its own filters. The functions here call the library
that it is linked to, with its identifiers. They raise RuntimeError as it does, and are not
thread-safe either.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import netCDF4
import numpy as np
from netCDF4 import _netCDF4

from nczfs.errors import BadValue, Unsupported
from nczfs.formats.jsontext import one_line
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute

GLOBAL = -1
"""In place of a variable: the group itself."""

# netcdf.h numbers the types from 1, in the order in which CDL names them.
_TYPE_OF_NUMBER: dict[int, NcType] = dict(enumerate((t for t in NcType if t is not NcType.JSON), 1))
_NUMBER_OF_TYPE: dict[NcType, int] = {
    nc_type: number for number, nc_type in _TYPE_OF_NUMBER.items()
}
_CLASSES = {13: "variable-length", 14: "opaque", 15: "enum", 16: "compound"}
_CHUNKED, _BIG_ENDIAN, _NO_FILL = 0, 2, 1  # NC_CHUNKED, NC_ENDIAN_BIG, NC_NOFILL
_NAME_BYTES = 257  # NC_MAX_NAME and the end

Filter = tuple[int, tuple[int, ...]]
"""HDF5's number of a filter, and its parameters."""


def attribute(group: int, variable: int, name: str) -> Attribute:
    """Read an attribute with its type and all its characters.

    Raises
    ------
    Unsupported : its type is user-defined.
    """
    number, count = ctypes.c_int(), ctypes.c_size_t()
    place = (group, variable, name.encode())
    _call("nc_inq_att", *place, ctypes.byref(number), ctypes.byref(count))
    nc_type = _TYPE_OF_NUMBER.get(number.value)
    if nc_type is None:
        raise Unsupported(f"attribute {name!r} is of the {_user_type(group, number.value)}")
    if nc_type is NcType.STRING:
        return Attribute(name, nc_type, _strings(place, count.value))
    dtype = np.dtype("S1" if nc_type is NcType.CHAR else CODE_OF_NC_TYPE[nc_type])
    values = np.empty(count.value, dtype)
    _call("nc_get_att", *place, _pointer(values))
    if nc_type is NcType.CHAR:
        return Attribute(name, nc_type, values.tobytes().decode("utf-8", "surrogateescape"))
    return Attribute(name, nc_type, tuple(values.tolist()))


def set_attribute(group: int, variable: int, given: Attribute) -> None:
    """Write an attribute; a value that only JSON has becomes its text, as in netcdf-c.

    Raises
    ------
    BadValue : netcdf-c refuses it.
    """
    values, count, nc_type = _stored(given)
    place = (group, variable, given.name.encode("utf-8", "surrogateescape"))
    try:
        _call("nc_put_att", *place, _NUMBER_OF_TYPE[nc_type], ctypes.c_size_t(count), values)
    except RuntimeError as error:
        raise BadValue(f"attribute {given.name!r}: {error}") from error


def close(file: Any) -> None:
    """Close a netCDF4.Dataset; an error does not have it closed a second time."""
    try:
        file.close()
    except RuntimeError:
        _is_closed(file)
        raise


def abandon(file: Any) -> None:
    """Leave a netCDF4.Dataset open until the process ends, because of an error.

    Closing it, like nc_abort, writes what the library still holds of it, and crashes the process
    where a write failed before (netcdf-c 4.10.1 with HDF5 2.2.0, on full disks).
    """
    _is_closed(file)


def _is_closed(file: Any) -> None:
    """Keep netCDF4-python from closing a file when it forgets it."""
    # Set on the object, it would be taken for an attribute of the file. The stubs do not know it.
    netCDF4.Dataset._isopen.__set__(file, 0)  # type: ignore[attr-defined]


@contextmanager
def defining(group: int) -> Iterator[None]:
    """Allow definitions during the block, for which a classic file has a separate mode."""
    _function("nc_redef")(group)  # netCDF-4 has no modes, and a new file is in this one
    yield
    _function("nc_enddef")(group)


def variable_types(group: int) -> dict[str, NcType | str]:
    """Return the variables of a group with their types; a text describes a user-defined type."""
    count = ctypes.c_int()
    _call("nc_inq_nvars", group, ctypes.byref(count))
    found: dict[str, NcType | str] = {}
    for variable in range(count.value):
        name, number = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
        _call("nc_inq_varname", group, variable, name)
        _call("nc_inq_vartype", group, variable, ctypes.byref(number))
        nc_type = _TYPE_OF_NUMBER.get(number.value)
        found[name.value.decode()] = nc_type or _user_type(group, number.value)
    return found


def dimensions(group: int, variable: int) -> tuple[int, ...]:
    """Return the identifiers of the dimensions of a variable."""
    count = ctypes.c_int()
    _call("nc_inq_varndims", group, variable, ctypes.byref(count))
    found = (ctypes.c_int * max(1, count.value))()
    _call("nc_inq_vardimid", group, variable, found)
    return tuple(found[: count.value])


def is_filled(group: int, variable: int) -> bool:
    """Return whether elements that were never written read as a fill value."""
    no_fill = ctypes.c_int()
    _call("nc_inq_var_fill", group, variable, ctypes.byref(no_fill), None)
    return not no_fill.value


def filters(group: int, variable: int) -> tuple[Filter, ...]:
    """Return the filters of a netCDF-4 variable, in encoding order."""
    count = ctypes.c_size_t()
    _call("nc_inq_var_filter_ids", group, variable, ctypes.byref(count), None)
    numbers = (ctypes.c_uint * max(1, count.value))()
    _call("nc_inq_var_filter_ids", group, variable, ctypes.byref(count), numbers)
    return tuple(
        (number, _parameters(group, variable, number)) for number in numbers[: count.value]
    )


def has_filter(group: int, number: int) -> bool:
    """Return whether the installed library can encode with a filter."""
    status: int = _function("nc_inq_filter_avail")(group, ctypes.c_uint(number))
    return status == 0


def define_variable(
    group: int,
    name: str,
    nc_type: NcType,
    dimensions: Sequence[int],
    *,
    chunks: Sequence[int] = (),
    filters: Sequence[Filter] = (),
    big_endian: bool = False,
    filled: bool = True,
) -> int:
    """Make a variable; netCDF4-python sees it when the file is opened again.

    Parameters
    ----------
    dimensions : identifiers.
    chunks, filters, big_endian : for netCDF-4 files only.

    Returns
    -------
    its identifier.
    """
    number = ctypes.c_int()
    places = (ctypes.c_int * max(1, len(dimensions)))(*dimensions)
    spelled = name.encode("utf-8", "surrogateescape")
    rank = len(dimensions)
    _call(
        "nc_def_var",
        group,
        spelled,
        _NUMBER_OF_TYPE[nc_type],
        rank,
        places,
        ctypes.byref(number),
    )
    variable = number.value
    if chunks:
        lengths = (ctypes.c_size_t * rank)(*chunks)
        _call("nc_def_var_chunking", group, variable, _CHUNKED, lengths)
    for filter_number, parameters in filters:
        values = (ctypes.c_uint * max(1, len(parameters)))(*parameters)
        count = ctypes.c_size_t(len(parameters))
        _call("nc_def_var_filter", group, variable, filter_number, count, values)
    if big_endian:
        _call("nc_def_var_endian", group, variable, _BIG_ENDIAN)
    if not filled:
        _call("nc_def_var_fill", group, variable, _NO_FILL, None)
    return variable


def _parameters(group: int, variable: int, number: int) -> tuple[int, ...]:
    count = ctypes.c_size_t()
    of_filter = (group, variable, ctypes.c_uint(number), ctypes.byref(count))
    _call("nc_inq_var_filter_info", *of_filter, None)
    values = (ctypes.c_uint * max(1, count.value))()
    _call("nc_inq_var_filter_info", *of_filter, values)
    return tuple(values[: count.value])


def _strings(place: tuple[int, int, bytes], count: int) -> tuple[str, ...]:
    pointers = (ctypes.c_char_p * max(1, count))()
    _call("nc_get_att", *place, pointers)
    try:
        return tuple((p or b"").decode("utf-8", "surrogateescape") for p in pointers[:count])
    finally:
        _call("nc_free_string", ctypes.c_size_t(count), pointers)


def _stored(given: Attribute) -> tuple[Any, int, NcType]:
    value = given.value
    if given.type is NcType.JSON and not isinstance(value, tuple):
        value = value if isinstance(value, str) else one_line(value)
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        return text, len(text), NcType.CHAR
    assert isinstance(value, tuple)
    if given.type is NcType.STRING:
        return _pointers(given.name, [str(item) for item in value]), len(value), NcType.STRING
    values = np.array(value, CODE_OF_NC_TYPE[given.type])
    return _pointer(values), len(value), given.type


def _pointers(name: str, texts: Sequence[str]) -> Any:
    if any("\0" in text for text in texts):
        raise BadValue(f"attribute {name!r}: a string of netCDF cannot contain NUL")
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    return (ctypes.c_char_p * max(1, len(encoded)))(*encoded)


def _pointer(values: np.ndarray[Any, np.dtype[Any]]) -> Any:
    return values.ctypes.data_as(ctypes.c_void_p)


def _user_type(group: int, number: int) -> str:
    name, kind = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
    _call("nc_inq_user_type", group, number, name, None, None, None, ctypes.byref(kind))
    return f"{_CLASSES.get(kind.value, 'unknown')} type {name.value.decode()!r}"


def _call(name: str, *arguments: Any) -> None:
    status = _function(name)(*arguments)
    if status != 0:
        raise RuntimeError(_function("nc_strerror", ctypes.c_char_p)(status).decode())


@cache
def _function(name: str, result: Any = ctypes.c_int) -> Any:
    # The module gives access to the symbols of the libraries that it is linked to.
    found = getattr(ctypes.CDLL(_netCDF4.__file__), name)
    found.restype = result
    return found
