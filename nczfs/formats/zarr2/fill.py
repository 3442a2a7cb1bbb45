"""Reading the ``fill_value`` of a Zarr v2 array, in every form that was ever written."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import numpy as np

from nczfs.formats.jsontext import compact, plain
from nczfs.formats.numbers import as_float, as_integer, rounded
from nczfs.formats.problems import Problems
from nczfs.messages import shown
from nczfs.model.dtypes import (
    DEFAULT_FILL,
    DataType,
    EmptyArray,
    NcType,
    VlenKind,
    ZeroBytes,
    ZeroText,
)
from nczfs.model.hierarchy import Json

# NC_FILL_FLOAT and NC_FILL_DOUBLE as netcdf-c prints them, with six digits. The chunks hold the
# exact value, so the printed one would equal no element.
PRINTED_DEFAULT_FILL = 9.96921e36
_PRINTED = {
    NcType.FLOAT: float(np.float32(PRINTED_DEFAULT_FILL)),
    NcType.DOUBLE: PRINTED_DEFAULT_FILL,
}


class _Unfit(Exception):
    """The value does not fit the type."""


def fill_value(
    value: Json, dtype: DataType, where: str, problems: Problems, *, literal_text: bool
) -> object:
    """Return the fill value, as `numpy.full` takes it; None: undefined.

    Parameters
    ----------
    value : the member ``fill_value``, parsed; None if it is null or missing.
    where : the key of the document, for messages.
    literal_text : for ``S`` types: netcdf-c writes the text itself, all others base64.

    Notes
    -----
    A value that does not fit the type is a problem and counts as undefined: the array is readable
    without it. Beyond the specification these are accepted: a list of one value (netcdf-c 4.8.0), a
    number of the wrong kind without loss, numbers as text, NaN and infinities in any case, 0 for an
    empty string, and for structured types and ``V`` all bytes zero.
    """
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 1 and dtype.vlen is None:
        value = value[0]
        if value is None:
            return None
    try:
        if dtype.vlen is not None:
            return _of_vlen(value, dtype.vlen)
        if dtype.stored.kind == "S":
            return _of_bytes(value, dtype.stored.itemsize, literal=literal_text)
        return _READERS[dtype.stored.kind](value, dtype.stored)
    except _Unfit:
        problems.add(
            f"{where}: fill_value {shown(value)} is not of type {shown(dtype.typestr)}; "
            "taken as undefined"
        )
        return None


def exact_default(fill: object, dtype: DataType) -> object:
    """Return netcdf-c's exact default fill value if its six printed digits are given.

    This is for arrays without a ``_FillValue`` attribute: with one, a user chose the printed
    number.
    """
    nc_type = dtype.nc_type
    if nc_type in _PRINTED and isinstance(fill, float) and fill == _PRINTED[nc_type]:
        return DEFAULT_FILL[nc_type]
    return fill


def _of_bool(value: Json, stored: np.dtype[Any]) -> object:
    number = as_integer(value)
    if number not in (0, 1):
        raise _Unfit
    return bool(number)


def _of_integer(value: Json, stored: np.dtype[Any]) -> object:
    number = as_integer(value)
    limits = np.iinfo(stored)
    if number is None or not limits.min <= number <= limits.max:
        raise _Unfit
    return number


def _of_float(value: Json, stored: np.dtype[Any]) -> object:
    number = as_float(value)
    nearest = None if number is None else rounded(number, stored)
    if nearest is None or isinstance(value, bool):
        raise _Unfit
    return nearest


def _of_complex(value: Json, stored: np.dtype[Any]) -> object:
    parts = value if isinstance(value, list) else [value, 0]
    if len(parts) != 2:
        raise _Unfit
    part_type = np.dtype(f"f{stored.itemsize // 2}")
    real, imaginary = (_of_float(part, part_type) for part in parts)
    assert isinstance(real, float)
    assert isinstance(imaginary, float)
    return complex(real, imaginary)


def _of_time(value: Json, stored: np.dtype[Any]) -> object:
    number = -(2**63) if value == "NaT" else as_integer(value)
    if number is None or not -(2**63) <= number < 2**63:
        raise _Unfit
    return np.array(number, np.int64).view(stored.newbyteorder("="))[()]


def _of_bytes(value: Json, size: int, *, literal: bool) -> bytes:
    if _is_zero(value):
        return b""
    if not isinstance(value, str):
        raise _Unfit
    # zarr-python drops the NULs at the end before it encodes, so shorter values are fine.
    decoded = None if literal else _base64(value)
    if decoded is None or len(decoded) > size:
        decoded = value.encode("utf-8", "surrogatepass")
    if len(decoded) > size:
        raise _Unfit
    return decoded.rstrip(b"\0")


def _of_text(value: Json, stored: np.dtype[Any]) -> object:
    if _is_zero(value):
        return ""
    if not isinstance(value, str) or len(value) > stored.itemsize // 4:
        raise _Unfit
    return str(value).rstrip("\0")


def _of_void(value: Json, stored: np.dtype[Any]) -> object:
    size = stored.itemsize
    if _is_zero(value) or value == "":
        item = bytes(size)
    else:
        decoded = _base64(value) if isinstance(value, str) else None
        if decoded is None or len(decoded) > size:
            raise _Unfit
        item = decoded.ljust(size, b"\0")
    return np.frombuffer(item, stored)[0] if stored.names is not None else item


def _of_vlen(value: Json, kind: VlenKind) -> object:
    match kind:
        case VlenKind.TEXT:
            if _is_zero(value):
                return ZeroText()
            if isinstance(value, str):
                return str(value)
        case VlenKind.BYTES:
            if _is_zero(value):
                return ZeroBytes()
            if isinstance(value, str):
                decoded = _base64(value)
                return value.encode("utf-8", "surrogatepass") if decoded is None else decoded
        case VlenKind.ARRAY:
            if _is_zero(value):
                return EmptyArray("0")
            if value in ("", []):
                return EmptyArray(compact(value))
        case VlenKind.JSON:
            if not isinstance(value, list):
                return plain(value)
    raise _Unfit


def _is_zero(value: Json) -> bool:
    return isinstance(value, int | float) and value == 0


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


_READERS: dict[str, Callable[[Json, np.dtype[Any]], object]] = {
    "b": _of_bool,
    "i": _of_integer,
    "u": _of_integer,
    "f": _of_float,
    "c": _of_complex,
    "M": _of_time,
    "m": _of_time,
    "U": _of_text,
    "V": _of_void,
}
