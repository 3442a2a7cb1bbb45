"""Numbers in metadata, in all spellings of their writers."""

from __future__ import annotations

import math
import re

import numpy as np

from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Json

FLOAT_DIGITS, DOUBLE_DIGITS = 7, 15
"""The significant digits that ncdump prints without ``-p``; 9 and 17 read back to the same bits."""

_INTEGER = re.compile(r"\s*[+-]?\d{1,400}\s*\Z")
# netcdf-c reads these in upper and lower case, and writes those with an f for floats.
_FLOAT_WORD = re.compile(r"\s*([+-]?)(nan|nanf|inf|inff|infinity|infinityf)\s*\Z", re.IGNORECASE)


def as_integer(value: Json) -> int | None:
    """Return the integer that a value spells: a whole number, a boolean, or such a text."""
    match value:
        case bool() | int():
            return int(value)
        case float() if math.isfinite(value) and value == int(value):
            return int(value)
        case str() if _INTEGER.match(value):
            return int(value)
        case _:
            return None


def as_float(value: Json) -> float | None:
    """Return the float that a value spells, also by name (NaN, infinities); None: none."""
    match value:
        case float():
            return float(value)
        case int():
            try:
                return float(value)
            except OverflowError:
                return None
        case str():
            if (word := _FLOAT_WORD.match(value)) is not None:
                number = math.nan if word[2].lower().startswith("nan") else math.inf
                return -number if word[1] == "-" else number
            try:
                return float(value) if len(value) <= 400 else None
            except ValueError:
                return None
        case _:
            return None


def in_type(value: Json, nc_type: NcType) -> int | float | None:
    """Convert a value to a netCDF number type; None if it does not fit.

    Floats are rounded to the type; those beyond its range do not fit.
    """
    code = CODE_OF_NC_TYPE[nc_type]
    if code.startswith("f"):
        number = as_float(value)
        return None if number is None else rounded(number, np.dtype(code))
    integer = as_integer(value)
    if integer is None:
        return None
    limits = np.iinfo(code)
    return integer if limits.min <= integer <= limits.max else None


def rounded(number: float, dtype: np.dtype[np.floating]) -> float | None:
    """Return the nearest number of a float type; None beyond its range."""
    with np.errstate(over="ignore"):
        nearest = float(dtype.type(number))
    return None if math.isinf(nearest) and not math.isinf(number) else nearest


def exact_number(number: float, nc_type: NcType) -> str:
    """Format a number without a suffix, with the digits that reading it back needs.

    These are ncdump's seven and fifteen digits if they suffice, otherwise more.
    """
    if nc_type is NcType.FLOAT:
        for digits in (FLOAT_DIGITS, 8, 9):
            text = float_text(number, digits)
            if math.isnan(number) or float(np.float32(text)) == number:
                return text
    if nc_type is NcType.DOUBLE:
        for digits in (DOUBLE_DIGITS, 16, 17):
            text = float_text(number, digits)
            if math.isnan(number) or float(text) == number:
                return text
    return float_text(number, 17) if isinstance(number, float) else str(number)


def float_text(number: float, digits: int) -> str:
    """Format as C's ``%#.{digits}g``, without the zeros at the end of a fraction."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    text = f"{number:#.{digits}g}"
    mantissa, exponent, power = text.partition("e")
    return mantissa.rstrip("0") + exponent + power
