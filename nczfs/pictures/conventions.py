"""What the CF conventions, and habits, say about a variable: its role, its texts, its numbers."""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import Final

from nczfs.model.hierarchy import Variable

LATITUDE_MAX: Final = 90.5
LONGITUDE_MAX: Final = 720.5
"""Beyond them coordinates are no angles, but mostly fill values."""


class Role(Enum):
    """What the values of a coordinate are."""

    LATITUDE = "latitude"
    LONGITUDE = "longitude"
    OTHER = "other"


_UNITS: Final = {
    "degrees_north": Role.LATITUDE,
    "degree_north": Role.LATITUDE,
    "degree_n": Role.LATITUDE,
    "degrees_n": Role.LATITUDE,
    "degreen": Role.LATITUDE,
    "degreesn": Role.LATITUDE,
    "degrees_east": Role.LONGITUDE,
    "degree_east": Role.LONGITUDE,
    "degree_e": Role.LONGITUDE,
    "degrees_e": Role.LONGITUDE,
    "degreee": Role.LONGITUDE,
    "degreese": Role.LONGITUDE,
}
_NAMES: Final = {
    "latitude": Role.LATITUDE,
    "lat": Role.LATITUDE,
    "nav_lat": Role.LATITUDE,
    "xlat": Role.LATITUDE,
    "longitude": Role.LONGITUDE,
    "lon": Role.LONGITUDE,
    "nav_lon": Role.LONGITUDE,
    "xlong": Role.LONGITUDE,
}
_AXES: Final = {"Y": Role.LATITUDE, "X": Role.LONGITUDE}


def role(variable: Variable) -> Role:
    """Return whether a variable is a latitude or longitude (CF conventions, sections 4.1 and 4.2).

    The standard name decides, then the units, then the axis if the units are degrees, then the
    name, unless units say something else.
    """
    standard = text(variable, "standard_name")
    if standard:
        found = _NAMES.get(standard)
        return found if found and standard == found.value else Role.OTHER
    units = text(variable, "units").lower()
    if units in _UNITS:
        return _UNITS[units]
    if units.startswith("degree") and (axis := text(variable, "axis").upper()) in _AXES:
        return _AXES[axis]
    if units and not units.startswith("degree"):
        return Role.OTHER
    return _NAMES.get(variable.name.lower(), Role.OTHER)


def is_depth(variable: Variable) -> bool:
    """Return whether values are larger further down."""
    return text(variable, "positive").lower() == "down"


def text(variable: Variable, name: str) -> str:
    """Return an attribute that is text; "": there is none."""
    value = _attribute(variable, name)
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return value.strip() if isinstance(value, str) else ""


def numbers(variable: Variable, name: str) -> tuple[int | float, ...]:
    """Return an attribute that is one or more numbers; (): there is none.

    Documents may have integers of any length. Those beyond a float64 are no numbers here, because
    no value equals them or can be compared with them.
    """
    value = _attribute(variable, name)
    items = value if isinstance(value, tuple | list) else (value,)
    found = tuple(n for n in items if isinstance(n, int | float) and _is_usable(n))
    return found if len(found) == len(items) else ()


def factor(variable: Variable, name: str, default: float) -> float:
    """Return an attribute that is one finite number; otherwise the default."""
    found = numbers(variable, name)
    value = float(found[0]) if len(found) == 1 else default
    return value if isfinite(value) else default


def flags(variable: Variable) -> tuple[tuple[float, str], ...]:
    """Return the values of an enumeration and their meanings (CF conventions, section 3.5)."""
    values, meanings = numbers(variable, "flag_values"), text(variable, "flag_meanings").split()
    if not values or len(values) != len(meanings) or text(variable, "flag_masks"):
        return ()
    pairs = {float(v): m for v, m in zip(values, meanings, strict=True) if abs(v) < 1 << 53}
    return tuple(sorted(pairs.items()))


def _is_usable(number: float) -> bool:
    try:
        float(number)
    except OverflowError:
        return False
    return not isinstance(number, bool)


def _attribute(variable: Variable, name: str) -> object:
    return next((a.value for a in variable.attributes if a.name == name), None)
