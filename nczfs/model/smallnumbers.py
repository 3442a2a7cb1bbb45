"""Numbers that numpy itself does not have: ``bfloat16``, ``float8_*``, ``int4`` and others.

The package ml_dtypes adds them to numpy, which takes their dtypes for raw bytes (kind V), or for
floats of one byte. Their names are those of Zarr v3.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np

SMALL_NUMBERS: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "int2": np.dtype(ml_dtypes.int2),
        "int4": np.dtype(ml_dtypes.int4),
        "uint2": np.dtype(ml_dtypes.uint2),
        "uint4": np.dtype(ml_dtypes.uint4),
        "bfloat16": np.dtype(ml_dtypes.bfloat16),
        "float4_e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
        "float6_e2m3fn": np.dtype(ml_dtypes.float6_e2m3fn),
        "float6_e3m2fn": np.dtype(ml_dtypes.float6_e3m2fn),
        "float8_e3m4": np.dtype(ml_dtypes.float8_e3m4),
        "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
        "float8_e4m3b11fnuz": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
        "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
        "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
        "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
        "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
        "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
        "complex_float16": np.dtype(ml_dtypes.complex32),
        "complex_bfloat16": np.dtype(ml_dtypes.bcomplex32),
    }
)
"""The dtypes by name, in this machine's byte order.

In registered data types and in practice (``float8_e4m3fn``). ml_dtypes has none for the complex
numbers of other small floats.
"""

_NAMES: Final = {dtype.num: name for name, dtype in SMALL_NUMBERS.items()}
_KINDS: Final = {"i": "i", "u": "u", "b": "f", "f": "f", "c": "c"}  # by the first letter
_UNPACKED_BITS: Final = {
    "int2": 2, "int4": 4, "uint2": 2, "uint4": 4,
    "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6,
}  # fmt: skip


def small_number(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a dtype of ml_dtypes, in either byte order; None: it is none of these."""
    return _NAMES.get(dtype.num)


def number_kind(dtype: np.dtype[Any]) -> str:
    """Return numpy's kind of a dtype, and i, u, f or c for those of ml_dtypes."""
    name = small_number(dtype)
    return dtype.kind if name is None else _KINDS[name[0]]


def bits_of(dtype: np.dtype[Any]) -> int:
    """Return how many bits a number has; for complex ones, each of its two parts.

    Numbers of fewer than eight bits take a byte each, of which they use the lowest bits.
    """
    name = small_number(dtype)
    if name in _UNPACKED_BITS:
        return _UNPACKED_BITS[name]
    if dtype.kind == "b":
        return 1
    return 8 * dtype.itemsize // (2 if number_kind(dtype) == "c" else 1)


def ordered(dtype: np.dtype[Any], byte_order: str) -> np.dtype[Any]:
    """Return a dtype in a byte order, "<", ">" or "="; of one byte it stays as it is.

    numpy gives even a byte of ml_dtypes an order, and then takes it for another type.
    """
    if dtype.itemsize == 1 and small_number(dtype) is not None:
        return dtype.newbyteorder("=")
    return dtype.newbyteorder(byte_order)  # type: ignore[arg-type]  # a string of one of them
