"""Stored values as numbers to draw: unpacked, with missing ones masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.values.fillvalues import FILL_VALUE, marks_missing
from nczfs.model.hierarchy import Variable
from nczfs.pictures.conventions import factor, numbers, text
from nczfs.pictures.dates import Calendar

Masked: TypeAlias = "np.ma.MaskedArray[Any, np.dtype[np.float64]]"

DAYS_SINCE_1970 = Calendar("days since 1970-01-01", "proleptic_gregorian", 1970)
"""Of values of the type datetime64, after unpacking."""

MONTHS_MAX: Final = 1e15
"""Dates of months and years that are further from 1970 are unknown."""

_PER_DAY: Final[Mapping[str, float]] = {
    "W": 1 / 7,
    "D": 1.0,
    "h": 24.0,
    "m": 1440.0,
    "s": 86400.0,
    "ms": 86400e3,
    "us": 86400e6,
    "ns": 86400e9,
    "ps": 86400e12,
    "fs": 86400e15,
    "as": 86400e18,
}
"""Units of datetime64. NumPy itself cannot divide a day by the smallest three."""


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether elements can be drawn: numbers, truth values, dates and durations."""
    if dtype.kind in "biufcmM":
        return True
    # bfloat16, int4 and so on
    return dtype.kind == "V" and dtype.names is None and dtype.type is not np.void


def unpacked(values: Values, variable: Variable) -> Masked:
    """Return values as CF readers see them; complex numbers by their magnitude.

    Left out are values that are not finite, equal `_FillValue` or a `missing_value`, or are outside
    of `valid_range`, `valid_min` or `valid_max`, all in the packed type (CF conventions, section
    2.5.1). The fill value of a Zarr v2 array is its `_FillValue`, as for xarray, unless it is 0,
    which zarr-python sets by itself.
    """
    if values.dtype.kind == "M":
        return _dates(values)
    if values.dtype.kind == "m":
        unknown = np.isnat(values)
        return np.ma.array(np.where(unknown, 0, values.view(np.int64)).astype(float), mask=unknown)
    if values.dtype.kind == "V":
        values = values.astype(np.complex128 if _is_complex(values.dtype) else np.float64)
    if values.dtype.kind == "i" and text(variable, "_Unsigned").lower() == "true":
        values = values.view(f"u{values.dtype.itemsize}")
    with np.errstate(all="ignore"):
        missing = np.zeros(values.shape, bool)
        for number in _missing_values(variable):
            missing |= _equal(values, number)
        if values.dtype.kind in "iuf":
            least, most = _valid_range(variable)
            if least is not None:
                missing |= values < least
            if most is not None:
                missing |= values > most
        drawn = np.abs(values) if values.dtype.kind == "c" else values
        numbers_ = drawn.astype(np.float64)
        numbers_ = numbers_ * factor(variable, "scale_factor", 1.0)
        numbers_ += factor(variable, "add_offset", 0.0)
    return np.ma.array(numbers_, mask=missing | ~np.isfinite(numbers_))


def _dates(values: Values) -> Masked:
    unknown = np.isnat(values)
    unit, count = np.datetime_data(values.dtype)
    since_1970 = np.where(unknown, 0, values.view(np.int64))
    if unit in ("Y", "M"):
        # NumPy would wrap around where a date is beyond its days.
        unknown |= np.abs(since_1970.astype(float)) * count > MONTHS_MAX
        known = np.where(unknown, 0, since_1970).view(values.dtype)
        return np.ma.array(known.astype("M8[D]").view(np.int64).astype(float), mask=unknown)
    if unit not in _PER_DAY:
        return np.ma.array(np.zeros(values.shape), mask=True)
    return np.ma.array(since_1970 * (count / _PER_DAY[unit]), mask=unknown)


def _missing_values(variable: Variable) -> list[int | float]:
    found = [*numbers(variable, FILL_VALUE), *numbers(variable, "missing_value")]
    fill = variable.array.fill_value
    if marks_missing(variable.array) and isinstance(fill, int | float) and fill:
        found.append(fill)
    return found


def _valid_range(variable: Variable) -> tuple[int | float | None, int | float | None]:
    both = numbers(variable, "valid_range")
    if len(both) == 2:
        return both[0], both[1]
    least, most = numbers(variable, "valid_min"), numbers(variable, "valid_max")
    return least[0] if len(least) == 1 else None, most[0] if len(most) == 1 else None


def _equal(values: Values, number: int | float) -> Any:
    if values.dtype.kind == "b":
        return False
    return values == number


def _is_complex(dtype: np.dtype[Any]) -> bool:
    return "complex" in dtype.name
