"""The ``fill_value`` of a Zarr v3 array: from JSON to the model, to the bit."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import numpy as np

from nczfs.errors import BadMetadata
from nczfs.formats.problems import Problems
from nczfs.messages import shown
from nczfs.model.dtypes import DataType, VlenKind
from nczfs.model.hierarchy import Json
from nczfs.model.jsonnumbers import Unfit, as_float, as_integer
from nczfs.model.smallnumbers import SMALL_NUMBERS, number_kind, ordered, small_number


def fill_value(value: Json, dtype: DataType, where: str, problems: Problems) -> object:
    """Return the fill value, as `numpy.full` takes it; None: undefined.

    A float that has bits of its own, which a Python number loses, is a scalar of its numpy type.

    Parameters
    ----------
    value : the member ``fill_value``, parsed; None if it is null or missing.
    where : the key of the document, for messages.

    Raises
    ------
    BadMetadata : it is not a value of the type, so missing chunks would have wrong values.

    Notes
    -----
    Zarr v3.1 core specification, "Fill value", and the specifications of the types. A missing one
    is an error by the specification, and only a problem here.
    """
    if value is None:
        problems.add(f"{where}: fill_value is missing; taken as undefined")
        return None
    try:
        if dtype.vlen is not None:
            return _of_vlen(value, dtype.vlen)
        found = _element(value, dtype.stored)
    except Unfit:
        raise BadMetadata(
            f"{where}: fill_value {shown(value)} is not of the type {shown(dtype.typestr)}"
        ) from None
    return found


def _element(value: Json, stored: np.dtype[Any]) -> object:
    return _READERS[number_kind(stored)](value, stored)


def _of_bool(value: Json, _stored: np.dtype[Any]) -> object:
    if isinstance(value, bool) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise Unfit


def _of_complex(value: Json, stored: np.dtype[Any]) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise Unfit
    part = part_of(stored)
    parts = np.zeros(2, part)
    for place, of_part in enumerate(value):
        parts[place] = as_float(of_part, part)
    element = parts.view(ordered(stored, "="))
    number = complex(element[0])
    is_kept = np.array([number], element.dtype).tobytes() == element.tobytes()
    return number if is_kept else element[0]


def part_of(stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the two parts of a complex type, in this machine's byte order."""
    if (name := small_number(stored)) is None:
        return np.dtype(f"f{stored.itemsize // 2}")
    part = name.removeprefix("complex_")
    return SMALL_NUMBERS.get(part, np.dtype(np.float16))


def _of_time(value: Json, stored: np.dtype[Any]) -> object:
    number = -(2**63) if value == "NaT" else value
    if type(number) is not int or not -(2**63) <= number < 2**63:
        raise Unfit
    return np.array(number, np.int64).view(stored.newbyteorder("="))[()]


def _of_cell(value: Json, stored: np.dtype[Any]) -> object:
    found = _bytes(value)
    if len(found) > stored.itemsize:
        raise Unfit
    return found.rstrip(b"\0")


def _of_text(value: Json, stored: np.dtype[Any]) -> object:
    if not isinstance(value, str) or len(value) > stored.itemsize // 4:
        raise Unfit
    return str(value).rstrip("\0")


def _of_void(value: Json, stored: np.dtype[Any]) -> object:
    if isinstance(value, dict) and stored.names is not None:
        if value.keys() != set(stored.names):
            raise Unfit
        record = np.zeros(1, stored)
        for name in stored.names:
            # Through an array of one field: numpy copies the bits of a scalar of the same type.
            record[name] = np.array([_element(value[name], stored[name])], stored[name])
        return record[0]
    found = _bytes(value)
    if len(found) != stored.itemsize:
        raise Unfit
    if stored.names is None:
        return found
    # zarr-python writes the packed record, of which it knows no byte order but this one.
    little = np.frombuffer(found, stored.newbyteorder("<"))
    return little.astype(stored)[0]


def _of_vlen(value: Json, kind: VlenKind) -> object:
    if kind is VlenKind.TEXT:
        if not isinstance(value, str):
            raise Unfit
        return str(value)
    return _bytes(value)


def _bytes(value: Json) -> bytes:
    """Return the bytes that base64 or a list of numbers spells."""
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise Unfit from None
    if isinstance(value, list) and all(type(n) is int and 0 <= n < 256 for n in value):
        return bytes(n for n in value if isinstance(n, int))
    raise Unfit


_READERS: dict[str, Callable[[Json, np.dtype[Any]], object]] = {
    "b": _of_bool,
    "i": as_integer,
    "u": as_integer,
    "f": as_float,
    "c": _of_complex,
    "M": _of_time,
    "m": _of_time,
    "S": _of_cell,
    "U": _of_text,
    "V": _of_void,
}
