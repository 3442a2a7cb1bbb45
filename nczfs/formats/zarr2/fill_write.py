"""Writing the ``fill_value`` of a Zarr v2 array: the inverse of `fill`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from nczfs.errors import Unsupported
from nczfs.formats.jsonwrite import shortest
from nczfs.model.dtypes import DataType, EmptyArray, VlenKind, ZeroBytes, ZeroText
from nczfs.model.hierarchy import Json


def fill_json(fill: object, dtype: DataType, where: str, *, literal_text: bool) -> Json:
    """Return the member ``fill_value`` of an array.

    Parameters
    ----------
    fill : as `ArrayDescription.fill_value` has it; None: undefined.
    where : the key it is written to, for messages.
    literal_text : for ``S`` types: the text itself, as in netcdf-c, otherwise base64.

    Raises
    ------
    Unsupported : bytes that are not text, where only text can be stored.

    Notes
    -----
    Zarr v2 specification, "Fill value encoding".
    """
    if fill is None:
        return None
    if dtype.vlen is not None:
        return _of_vlen(fill, dtype.vlen)
    if dtype.stored.kind == "S":
        assert isinstance(fill, bytes)
        if literal_text:
            return _literal(fill, where)
        return _base64(fill.ljust(dtype.item_size, b"\0"))
    return _WRITERS[dtype.stored.kind](fill, dtype.stored)


def _literal(fill: bytes, where: str) -> str:
    try:
        return fill.rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise Unsupported(
            f"{where}: the fill value {fill!r} is not UTF-8; NCZarr stores it as text"
        ) from error


def _of_bool(fill: Any, _stored: np.dtype[Any]) -> Json:
    return bool(fill)


def _of_integer(fill: Any, _stored: np.dtype[Any]) -> Json:
    return int(fill)


def _of_float(fill: Any, stored: np.dtype[Any]) -> Json:
    return shortest(float(fill), stored.newbyteorder("="))


def _of_complex(fill: Any, stored: np.dtype[Any]) -> Json:
    part = np.dtype(f"f{stored.itemsize // 2}")
    number = complex(fill)
    return [shortest(number.real, part), shortest(number.imag, part)]


def _of_time(fill: Any, stored: np.dtype[Any]) -> Json:
    number = int(np.array(fill, stored.newbyteorder("=")).view(np.int64))
    return "NaT" if number == -(2**63) else number


def _of_text(fill: Any, _stored: np.dtype[Any]) -> Json:
    return str(fill)


def _of_void(fill: Any, stored: np.dtype[Any]) -> Json:
    if isinstance(fill, bytes):
        return _base64(fill.ljust(stored.itemsize, b"\0"))
    return _base64(np.array(fill, stored).tobytes())


def _of_vlen(fill: object, kind: VlenKind) -> Json:
    if isinstance(fill, ZeroText | ZeroBytes):
        return 0
    match kind:
        case VlenKind.TEXT:
            return str(fill)
        case VlenKind.BYTES:
            assert isinstance(fill, bytes)
            return _base64(fill)
        case VlenKind.JSON:
            assert fill is None or isinstance(fill, bool | int | float | str | dict)
            return fill
        case VlenKind.ARRAY:
            assert isinstance(fill, EmptyArray)
            empty: Json = json.loads(fill.spelling)
            return empty


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_WRITERS: dict[str, Callable[[Any, np.dtype[Any]], Json]] = {
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
