"""The coordinates of a variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from nczfs.engine.dataset import Dataset
from nczfs.errors import NczfsError
from nczfs.model.hierarchy import Variable
from nczfs.pictures.conventions import Role, role, text
from nczfs.pictures.unpacking import is_number
from nczfs.plaindata import frozen
from nczfs.views.netcdf.surroundings import variable_group


@frozen
class Coordinates:
    """The coordinates of a variable, as descriptions.

    Attributes
    ----------
    of_dimension : one-dimensional ones with the names of their dimensions.
    curvilinear : latitudes and longitudes of two dimensions.
    """

    of_dimension: Mapping[str, Variable] = field(default_factory=dict)
    curvilinear: tuple[Variable, ...] = ()


def coordinates_of(dataset: Dataset, variable: Variable) -> Coordinates:
    """Return the coordinates of a variable: of its dimensions, and those that it names.

    What cannot be found or read is left out. Reads documents, but no values.
    """
    try:
        found = variable_group(dataset, variable.path).variables
    except NczfsError:
        return Coordinates()
    usable = [
        each
        for each in found
        if each.path != variable.path
        and each.array.dtype.vlen is None
        and is_number(each.array.dtype.native)
    ]
    named = {word.rpartition("/")[2] for word in text(variable, "coordinates").split()}
    return Coordinates(
        {
            each.name: each
            for each in usable
            if len(each.array.shape) == 1 and each.dimensions[0].name == each.name
        },
        tuple(
            each
            for each in usable
            if len(each.array.shape) == 2
            and each.name in named
            and role(each) in (Role.LATITUDE, Role.LONGITUDE)
        ),
    )
