"""Numbers of an element type in JSON, as Zarr v3 writes fill values."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from nczfs.model.hierarchy import Json
from nczfs.model.smallnumbers import bits_of, number_kind, ordered

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BITS = re.compile(r"0x([0-9a-fA-F]{1,16})\Z")


class Unfit(ValueError):
    """The value does not fit the type."""


def as_integer(value: Json, dtype: np.dtype[Any]) -> int:
    """Return an integer of a type. Raises Unfit: the value is none of these."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit
    if isinstance(value, float) and not value.is_integer():
        raise Unfit
    number = int(value)
    bits = bits_of(dtype)
    low = -(1 << (bits - 1)) if number_kind(dtype) == "i" else 0
    if not low <= number < low + (1 << bits):
        raise Unfit
    return number


def as_float(value: Json, dtype: np.dtype[Any]) -> Any:
    """Return a float of a type: the nearest one, or that of the bits which a text spells.

    One that has bits which a Python number loses is a scalar of its numpy type.

    Raises
    ------
    Unfit : the type has no such number.
    """
    native = ordered(dtype, "=")
    if isinstance(value, str) and (bits := _BITS.match(value)) is not None:
        return _of_bits(int(bits[1], 16), native)
    if isinstance(value, str) and value in _WORDS:
        return _in_type(_WORDS[value], native)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit
    try:
        return _in_type(float(value), native)
    except OverflowError:
        raise Unfit from None


def _in_type(number: float, native: np.dtype[Any]) -> float:
    """Return the nearest number of a float type, of which some have no infinities, or no NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = float(np.array([number]).astype(native)[0])
    if math.isnan(nearest) != math.isnan(number) or math.isinf(nearest) != math.isinf(number):
        raise Unfit
    return nearest


def _of_bits(bits: int, native: np.dtype[Any]) -> Any:
    if bits.bit_length() > 8 * native.itemsize:
        raise Unfit
    element = np.array([bits], f"u{native.itemsize}").view(native)
    number = float(element[0])
    is_kept = np.array([number], native).tobytes() == element.tobytes()
    return number if is_kept else element[0]
