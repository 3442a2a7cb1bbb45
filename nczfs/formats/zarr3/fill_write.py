"""Writing the ``fill_value`` of a Zarr v3 array: the inverse of `fill`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from nczfs.formats.jsonwrite import shortest
from nczfs.formats.zarr3.fill import part_of
from nczfs.model.dtypes import DataType, VlenKind
from nczfs.model.hierarchy import Json
from nczfs.model.smallnumbers import number_kind, ordered


def fill_json(fill: object, dtype: DataType) -> Json:
    """Return the member ``fill_value`` of an array.

    Parameters
    ----------
    fill : as `ArrayDescription.fill_value` has it; None: undefined. The specification has no such
        value, so that becomes zero, as which it is read.
    """
    if dtype.vlen is not None:
        return _of_vlen(fill, dtype.vlen)
    element = np.zeros(1, ordered(dtype.stored, "="))
    if fill is not None:
        element[0] = fill
    return _WRITERS[number_kind(element.dtype)](element)


def _of_bool(element: Any) -> Json:
    return bool(element[0])


def _of_integer(element: Any) -> Json:
    return int(element[0])


def _of_float(element: Any) -> Json:
    dtype = element.dtype
    if np.isnan(element[0]) and element.tobytes() != np.array([np.nan]).astype(dtype).tobytes():
        bits = int(element.view(f"u{dtype.itemsize}")[0])
        return f"0x{bits:0{2 * dtype.itemsize}x}"
    return shortest(float(element[0]), dtype)


def _of_complex(element: Any) -> Json:
    parts = element.view(part_of(element.dtype))
    return [_of_float(parts[:1]), _of_float(parts[1:])]


def _of_time(element: Any) -> Json:
    # As zarr-python writes it. It reads "NaT", too, but other programs may know only numbers.
    return int(element.view(np.int64)[0])


def _of_bytes(element: Any) -> Json:
    # A structured type in the byte order that readers take.
    return _base64(element.astype(element.dtype.newbyteorder("<")).tobytes())


def _of_text(element: Any) -> Json:
    return str(element[0])


def _of_vlen(fill: object, kind: VlenKind) -> Json:
    if kind is VlenKind.TEXT:
        return str(fill or "")
    assert fill is None or isinstance(fill, bytes)
    return _base64(bytes(fill or b""))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_WRITERS: dict[str, Callable[[Any], Json]] = {
    "b": _of_bool,
    "i": _of_integer,
    "u": _of_integer,
    "f": _of_float,
    "c": _of_complex,
    "M": _of_time,
    "m": _of_time,
    "S": _of_bytes,
    "U": _of_text,
    "V": _of_bytes,
}
