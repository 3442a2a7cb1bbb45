"""What is drawn, as plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from nczfs.pictures.dates import Calendar
from nczfs.pictures.unpacking import Masked
from nczfs.plaindata import frozen

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


@frozen
class Title:
    """The text above a picture.

    Attributes
    ----------
    title : what the values are.
    name : of the variable, with its dimensions.
    notes : what of it is shown.
    """

    title: str
    name: str
    notes: tuple[str, ...] = ()


@frozen
class Scale:
    """What numbers along an axis, or of a colour, mean.

    Attributes
    ----------
    label : with units.
    calendar : if they are dates.
    flags : if they are an enumeration: values and their meanings, ascending.
    """

    label: str
    calendar: Calendar | None = None
    flags: tuple[tuple[float, str], ...] = ()


@frozen
class Axis:
    """A side of a picture.

    Attributes
    ----------
    values : finite and strictly monotonic; of a curvilinear map two-dimensional, NaN: unknown.
    is_index : whether they are positions in the array, for want of coordinates.
    is_down : whether larger numbers are further down.
    """

    scale: Scale
    values: Numbers
    is_index: bool = False
    is_down: bool = False


@frozen
class Plane:
    """Values of two dimensions, as colours.

    Attributes
    ----------
    values : rows along `y`, columns along `x`.
    is_map : whether `x` is the longitude and `y` the latitude, in degrees.
    """

    heading: Title
    x: Axis
    y: Axis
    values: Masked
    scale: Scale
    is_map: bool = False


@frozen
class Line:
    """Values of one dimension.

    Attributes
    ----------
    is_broken : whether chunks between the values were left out, so that no line connects them.
    """

    heading: Title
    x: Axis
    values: Masked
    scale: Scale
    is_broken: bool = False


@frozen
class Words:
    """Lines of text."""

    heading: Title
    lines: tuple[str, ...]


@frozen
class Sheet:
    """The variables of a group, each as a small picture."""

    heading: Title
    tiles: tuple[Scene, ...]


Scene: TypeAlias = Plane | Line | Words
Drawable: TypeAlias = Plane | Line | Words | Sheet


def noted(heading: Title, *notes: str) -> Title:
    """Return a heading with more notes."""
    return replace(heading, notes=(*heading.notes, *filter(None, notes)))
