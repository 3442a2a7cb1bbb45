"""The dimensions of a variable: by reference (NCZarr), by name (xarray), or anonymous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nczfs.formats.names import is_name, parent_of, split_path
from nczfs.formats.problems import Problems
from nczfs.messages import shown
from nczfs.model.hierarchy import Dimension, Json
from nczfs.plaindata import frozen

Declared = Callable[[str], Mapping[str, Dimension]]
"""Returns the dimensions that the group at a path declares, by name; none without a group."""

DIMENSION_NAMES = "dimension_names"  # of Zarr v3
SCALAR_NAME = "_scalar_"  # netcdf-c 4.10's name for the only dimension of a scalar


@frozen
class VariablePlace:
    """A variable whose dimensions are looked up.

    Attributes
    ----------
    group : path of the group that it lies in.
    shape : its lengths.
    where : the key with the names, for messages.
    """

    group: str
    shape: tuple[int, ...]
    where: str


def anonymous(size: int) -> Dimension:
    """Return an anonymous dimension in the root, with the name from netcdf-c 4.9.3 and later."""
    return Dimension(f"_Anonymous_Dim_{size}", size, anonymous=True)


def anonymous_for(shape: tuple[int, ...]) -> tuple[Dimension, ...]:
    return tuple(anonymous(size) for size in shape)


def by_reference(
    references: Json,
    place: VariablePlace,
    declared: Declared,
    problems: Problems,
    *,
    is_whole: bool,
) -> tuple[Dimension, ...]:
    """Return the dimensions that NCZarr refers to by their full names.

    Parameters
    ----------
    references : a list of names like ``/g1/lon``, one per dimension, in any group of the dataset.
    is_whole : whether the root is that of the dataset. If it is a group below, names begin at an
        unseen root: a dimension that is not found keeps its last component, with the length from
        the shape, unless a dimension of that name with another length is found.

    Notes
    -----
    An unlimited dimension may be shorter than the shape after an interrupted append, because the
    dimension is written last. It may be longer while another client is appending, when the shape
    was read first. The smaller length counts, and the array ends there.
    """
    if not isinstance(references, list) or len(references) != len(place.shape):
        problems.add(
            f"{place.where}: the dimension references {shown(references)} do not fit "
            f"a shape of {len(place.shape)} dimensions; they have no names"
        )
        return anonymous_for(place.shape)
    return tuple(
        _referred(reference, size, place, declared, problems, is_whole=is_whole)
        for reference, size in zip(references, place.shape, strict=True)
    )


def _referred(
    reference: Json,
    size: int,
    place: VariablePlace,
    declared: Declared,
    problems: Problems,
    *,
    is_whole: bool,
) -> Dimension:
    parts = split_path(reference) if isinstance(reference, str) else None
    if parts is None:
        problems.add(f"{place.where}: {shown(reference)} is not the full name of a dimension")
        return anonymous(size)
    group, name = parts
    # Below the root of the dataset, "/a/b/lon" may be "b/lon" or "lon" as seen from here.
    candidates = [group]
    if not is_whole:
        steps = group.split("/") if group else []
        candidates = ["/".join(steps[i:]) for i in range(len(steps) + 1)]
    sizes: list[int] = []
    unlimited: list[Dimension] = []
    for candidate in candidates:
        found = declared(candidate).get(name)
        if found is not None and found.size == size:
            return found
        if found is not None:
            sizes.append(found.size)
            if found.unlimited:
                unlimited.append(found)
    if unlimited:
        nearest = unlimited[0]
        problems.add(
            f"{place.where}: dimension {shown(str(reference))} has length {nearest.size}, "
            f"and the shape has {size}; the rest is ignored"
        )
        return replace(nearest, size=min(nearest.size, size))
    if not is_whole:
        return anonymous(size) if sizes else Dimension(name, size)
    if sizes:
        problems.add(
            f"{place.where}: dimension {shown(str(reference))} has length {sizes[0]}, "
            f"and the shape has {size}; it has no name here"
        )
    else:
        problems.add(f"{place.where}: there is no dimension {shown(str(reference))}")
    return anonymous(size)


def by_name(
    names: Json,
    place: VariablePlace,
    declared: Declared,
    problems: Problems,
    member: str = "_ARRAY_DIMENSIONS",
) -> tuple[Dimension, ...]:
    """Return the dimensions that ``_ARRAY_DIMENSIONS`` names (the xarray convention).

    They belong to the variable's own group, as in netcdf-c since 4.10.0, unless a group above
    declares one of that name and length.

    Parameters
    ----------
    member : of the document, for messages. In ``dimension_names`` null is the name of none.
    """
    if not isinstance(names, list) or len(names) != len(place.shape):
        problems.add(
            f"{place.where}: {member} {shown(names)} does not fit a shape of "
            f"{len(place.shape)} dimensions; they have no names"
        )
        return anonymous_for(place.shape)
    found: list[Dimension] = []
    for name, size in zip(names, place.shape, strict=True):
        if name is None and member == DIMENSION_NAMES:
            found.append(anonymous(size))
            continue
        if not isinstance(name, str) or not is_name(name):
            problems.add(f"{place.where}: {shown(name)} cannot be the name of a dimension")
            found.append(anonymous(size))
            continue
        dimension = _visible(str(name), size, place.group, declared)
        if any(other.name == dimension.name and other.size != size for other in found):
            problems.add(
                f"{place.where}: dimension {shown(str(name))} has two lengths, {size} is one; "
                "it has no name here"
            )
            dimension = anonymous(size)
        found.append(dimension)
    return tuple(found)


def _visible(name: str, size: int, group: str, declared: Declared) -> Dimension:
    above = group
    while True:
        found = declared(above).get(name)
        if found is not None and found.size == size:
            return found
        if not above:
            return Dimension(name, size, group=group)
        above = parent_of(above)


def declared_dimensions(
    value: Json, group: str, where: str, problems: Problems
) -> dict[str, Dimension]:
    """Return the dimensions that an NCZarr group declares, by name.

    Parameters
    ----------
    value : an object of name and length, or ``{"size": n, "unlimited": 0 or 1}``.
    """
    if not isinstance(value, dict):
        problems.add(f"{where}: dimensions {shown(value)} is not an object; there are none")
        return {}
    found: dict[str, Dimension] = {}
    for name, given in value.items():
        size = given.get("size") if isinstance(given, dict) else given
        unlimited = isinstance(given, dict) and given.get("unlimited") not in (None, 0, False)
        if not is_name(name):
            problems.add(f"{where}: {shown(name)} cannot be the name of a dimension; ignored")
        elif not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**63:
            problems.add(f"{where}: dimension {shown(name)}: {shown(given)} is not a length")
        else:
            found[name] = Dimension(name, size, unlimited, group)
    return found
