"""Numbers of a CF time coordinate as dates, in any calendar."""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from typing import Any, Final

import cftime

from nczfs.plaindata import frozen

_DAYS: Final = {
    "d": 1.0,
    "day": 1.0,
    "days": 1.0,
    "h": 1 / 24,
    "hr": 1 / 24,
    "hrs": 1 / 24,
    "hour": 1 / 24,
    "hours": 1 / 24,
    "min": 1 / 1440,
    "mins": 1 / 1440,
    "minute": 1 / 1440,
    "minutes": 1 / 1440,
    "s": 1 / 86400,
    "sec": 1 / 86400,
    "secs": 1 / 86400,
    "second": 1 / 86400,
    "seconds": 1 / 86400,
    "millisecond": 1 / 86400e3,
    "milliseconds": 1 / 86400e3,
    "microsecond": 1 / 86400e6,
    "microseconds": 1 / 86400e6,
}
_CIVIL: Final = frozenset({"standard", "gregorian", "proleptic_gregorian"})
_CIVIL_YEARS: Final = range(1600, 9000)
"""In which these calendars agree, and Python has dates."""
_UNITS_LENGTH_MAX: Final = 100
_SINCE: Final = re.compile(r"\s*([A-Za-z_]+)\s+since\s+(\d{1,4})-\S", re.IGNORECASE)


@frozen
class Calendar:
    """The units of times.

    Attributes
    ----------
    units : such as ``hours since 1970-01-01``.
    name : of the calendar.
    year : in which they begin to count.
    """

    units: str
    name: str
    year: int

    @property
    def days(self) -> float:
        """The days of one unit."""
        found = _SINCE.match(self.units)
        assert found is not None
        return _DAYS.get(found[1].lower(), 0.0)

    def date(self, number: float) -> Any | None:
        """Return the date (of cftime) of a number; None: the calendar has none.

        Before the year 1 calendars of CF have no dates, and cftime warns.
        """
        if not 2 <= self.year + number * self.days / 365.25 < 9999:
            return None
        try:
            return cftime.num2date(number, self.units, self.name, only_use_cftime_datetimes=True)
        except (ValueError, OverflowError, TypeError):
            return None

    def written(self, number: float, *, span: float | None = None) -> str:
        """Format a date.

        Parameters
        ----------
        span : of all dates in units, which decides how exact it is; None: as exact as needed.
        """
        found = self.date(number)
        if found is None:
            return f"{number:g}"
        day = f"{found.year:04}-{found.month:02}-{found.day:02}"
        midnight = not (found.hour or found.minute or found.second)
        if midnight if span is None else span * self.days > 5:
            return day
        if not found.second or (span is not None and span * self.days > 0.01):
            return f"{day} {found.hour:02}:{found.minute:02}"
        return f"{day} {found.hour:02}:{found.minute:02}:{found.second:02}"

    def civil(self, number: float) -> datetime.datetime | None:
        """Return the date of the Gregorian calendar; None: this is another calendar, or no date."""
        found = self.date(number) if self.name in _CIVIL else None
        if found is None or found.year not in _CIVIL_YEARS:
            return None
        return datetime.datetime(
            found.year, found.month, found.day, found.hour, found.minute, found.second
        )


@lru_cache(maxsize=64)  # the texts come from documents
def _checked(units: str, name: str) -> Calendar | None:
    stated = _SINCE.match(units)
    if stated is None or name not in _NAMES or not (year := int(stated[2])):
        return None
    found = Calendar(units, name, year)
    # A day of the year 3, because a count may begin in the year 1.
    is_known = found.days > 0 and found.date(max(0, 3 - year) * 366 / found.days) is not None
    return found if is_known else None


_NAMES: Final = _CIVIL | {
    "noleap",
    "365_day",
    "360_day",
    "julian",
    "all_leap",
    "366_day",
}


def calendar_of(units: str, name: str) -> Calendar | None:
    """Return the calendar of a variable's `units` and `calendar`; None: these are no dates."""
    if len(units) > _UNITS_LENGTH_MAX or _SINCE.match(units) is None:
        return None
    return _checked(units, name.lower() or "standard")
