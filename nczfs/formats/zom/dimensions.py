"""The names that an array gives its dimensions, in either version of Zarr."""

from __future__ import annotations

from nczfs.formats.dimensions import DIMENSION_NAMES
from nczfs.formats.zarr2.nodes import ARRAY_DIMENSIONS
from nczfs.formats.zom.nodes import Array, ArrayV2
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen


@frozen
class DeclaredNames:
    """The names of the dimensions of an array.

    Attributes
    ----------
    place : of the names, a pointer relative to the array.
    names : of all dimensions; None: they are not all named, or not in the right way.
    fault : the place and the reason of the latter; None: all are named.
    """

    place: str
    names: tuple[str, ...] | None
    fault: tuple[str, str] | None = None


def declared_names(array: Array) -> DeclaredNames:
    """Return the names of the dimensions, as xarray finds them."""
    found: Json
    if isinstance(array, ArrayV2):
        place, found = f"/attributes/{ARRAY_DIMENSIONS}", array.attributes.get(ARRAY_DIMENSIONS)
        is_missing = ARRAY_DIMENSIONS not in array.attributes
    else:
        place = f"/{DIMENSION_NAMES}"
        found = None if array.dimension_names is None else list(array.dimension_names)
        is_missing = found is None
        if is_missing and not array.shape:
            return DeclaredNames(place, ())
    fault = (place, "is missing") if is_missing else _fault(found, array, place)
    if fault is not None:
        return DeclaredNames(place, None, fault)
    assert isinstance(found, list)
    return DeclaredNames(place, tuple(str(name) for name in found))


def _fault(value: Json, array: Array, place: str) -> tuple[str, str] | None:
    if not isinstance(value, list):
        return place, f"{shown(value)} is not a list of names"
    if len(value) != len(array.shape):
        return place, f"has {len(value)} names, and the array {len(array.shape)} dimensions"
    for number, name in enumerate(value):
        if not isinstance(name, str):
            where = place if isinstance(array, ArrayV2) else f"{place}/{number}"
            return where, f"{shown(name)} is not a name"
    return None
