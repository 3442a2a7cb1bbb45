"""Stored values as CF readers see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.pictures.dates import calendar_of
from nczfs.pictures.unpacking import DAYS_SINCE_1970, unpacked
from tests.support.groups import number, said, variable

SHORT, DOUBLE = NcType.SHORT, NcType.DOUBLE


def seen(values: Any, *attributes: Attribute, fill: object = None) -> list[float | None]:
    """The values as a reader sees them, None for missing ones."""
    stored = np.asarray(values)
    described = variable("v", stored.dtype.str, {"x": 4}, attributes=attributes, fill=fill)
    found: list[float | None] = unpacked(stored, described).tolist()
    return found


def packed(*numbers: int) -> Any:
    return np.array(numbers, "<i2")


def test_packed_values_are_unpacked() -> None:
    scale, offset = number("scale_factor", DOUBLE, 0.5), number("add_offset", DOUBLE, 10.0)
    assert seen(packed(0, 1, -2), scale, offset) == [10.0, 10.5, 9.0]


@pytest.mark.parametrize(
    "attribute",
    [
        number("_FillValue", SHORT, -1),
        number("missing_value", SHORT, -1),
        number("missing_value", SHORT, 99, -1),
        number("valid_min", SHORT, 0),
        number("valid_range", SHORT, 0, 100),
    ],
)
def test_missing_values_are_left_out_before_unpacking(attribute: Attribute) -> None:
    assert seen(packed(3, -1), number("scale_factor", DOUBLE, 2.0), attribute) == [6.0, None]


def test_what_is_beyond_the_valid_range_is_left_out() -> None:
    assert seen(packed(5, 6), number("valid_max", SHORT, 5)) == [5.0, None]


def test_the_fill_value_of_zarr_v2_is_missing_unless_it_is_zero() -> None:
    assert seen(packed(7, 0), fill=7) == [None, 0.0]
    assert seen(packed(7, 0), fill=0) == [7.0, 0.0]


def test_numbers_that_are_not_finite_are_left_out() -> None:
    assert seen(np.array([np.nan, np.inf, 1.0])) == [None, None, 1.0]


def test_a_rounded_fill_value_of_floats_is_found() -> None:
    assert seen(np.array([1e20, 1], "<f4"), number("_FillValue", NcType.FLOAT, 1e20)) == [None, 1.0]


def test_unsigned_numbers_in_signed_ones() -> None:
    assert seen(np.array([-1, 1], "i1"), said("_Unsigned", "true")) == [255.0, 1.0]


def test_truth_complex_and_durations() -> None:
    assert seen(np.array([True, False])) == [1.0, 0.0]
    assert seen(np.array([3 + 4j])) == [5.0]
    assert seen(np.array([3, "NaT"], "m8[s]")) == [3.0, None]


def test_dates_become_days() -> None:
    found = seen(np.array(["1970-01-02T12", "NaT"], "M8[h]"))
    assert found == [1.5, None]
    assert DAYS_SINCE_1970.written(1.5) == "1970-01-02 12:00"
    assert seen(np.array(["1970-02"], "M8[M]")) == [31.0]
    assert seen(np.array([2], "M8[W]")) == [14.0]


@pytest.mark.parametrize("unit", ["ns", "ps", "fs", "as"])
def test_dates_of_the_smallest_units(unit: str) -> None:
    days = seen(np.array([1 << 62, "NaT"], f"M8[25{unit}]"))
    per_day = 86400 * 10 ** {"ns": 9, "ps": 12, "fs": 15, "as": 18}[unit]
    assert days == [pytest.approx((25 << 62) / per_day), None]


@pytest.mark.parametrize("unit", ["Y", "M"])
def test_dates_beyond_the_days_of_numpy_are_unknown(unit: str) -> None:
    assert seen(np.array([1 << 62, -(1 << 62)]).view(f"M8[{unit}]")) == [None, None]


@pytest.mark.parametrize(
    "attribute",
    [
        said("scale_factor", "nonsense"),
        number("scale_factor", DOUBLE, float("nan")),
        number("scale_factor", DOUBLE, 1.0, 2.0),
        said("valid_range", ({"a": 1},)),
        Attribute("missing_value", NcType.JSON, [None, {}]),
        Attribute("_FillValue", NcType.JSON, 10**400),
        Attribute("scale_factor", NcType.JSON, 10**400),
    ],
)
def test_attributes_that_are_nonsense_change_nothing(attribute: Attribute) -> None:
    assert seen(packed(1, 2), attribute) == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["<f4", "<u8", "<c16"])
@pytest.mark.parametrize("name", ["_FillValue", "missing_value", "valid_min", "valid_range"])
def test_numbers_beyond_all_floats_change_nothing(name: str, dtype: str) -> None:
    far = Attribute(name, NcType.JSON, [-(10**400), 10**400])
    assert seen(np.array([0, 1], dtype), far) == [0.0, 1.0]


@pytest.mark.parametrize("name", ["360_day", "noleap", "julian", "standard", "", "Gregorian"])
def test_dates_of_any_calendar(name: str) -> None:
    found = calendar_of("days since 2000-02-28", name)
    assert found is not None
    expected = {"360_day": "2000-02-30", "noleap": "2000-03-02"}
    assert found.written(2.0) == expected.get(name, "2000-03-01")
    assert (found.civil(2.0) is None) == (name in ("360_day", "noleap", "julian"))


@pytest.mark.parametrize(
    ("units", "name"),
    [
        ("days since nonsense", ""),
        ("fortnights since 2000-01-01", ""),
        ("days", ""),
        ("days since 2000-01-01", "mayan"),
        ("K", ""),
        ("days since 2000-13-45", ""),
        ("days since " + "9" * 5000, ""),
    ],
)
def test_units_that_are_nonsense_make_no_dates(units: str, name: str) -> None:
    assert calendar_of(units, name) is None


def test_a_number_beyond_all_dates_stays_a_number() -> None:
    found = calendar_of("days since 2000-01-01", "standard")
    assert found is not None
    assert found.written(1e300) == "1e+300"
