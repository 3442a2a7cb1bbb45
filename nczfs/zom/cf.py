"""The structural part of the CF conventions: what metadata alone can tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from nczfs.formats.zom.dimensions import declared_names
from nczfs.formats.zom.nodes import Array, ArrayV2, ArrayV3, Group, Node
from nczfs.formats.zom.pointers import below
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.zom.patterns import ConventionFault, Pattern, ValueRule

PATTERN = Pattern(is_array=False, attributes={"Conventions": ValueRule(("string",))})

_CF = re.compile(r"CF-\d+\.\d+")
_TEXTS = ("units", "long_name", "standard_name", "calendar", "cell_methods", "positive", "axis")


def faults(node: Node) -> Iterator[ConventionFault]:
    """Yield where a hierarchy does not follow CF.

    Notes
    -----
    CF 1.12, sections 2.4 (dimensions), 2.6.1 (Conventions), 2.7 (scope in groups), 3.1 and 3.5
    (units, flags), 5 to 7 (what the attributes of variables refer to).
    """
    if isinstance(node, ArrayV2 | ArrayV3):
        return
    named = node.attributes.get("Conventions")
    if isinstance(named, str) and not any(map(_CF.fullmatch, re.split(r"[,\s]+", named))):
        yield ConventionFault("/attributes/Conventions", f"{shown(named)} names no version of CF")
    yield from _group(node, "", ())


def _group(group: Group, pointer: str, above: tuple[Group, ...]) -> Iterator[ConventionFault]:
    scope = (*above, group)
    for name, member in (group.members or {}).items():
        place = below(below(pointer, "members"), name)
        if isinstance(member, ArrayV2 | ArrayV3):
            yield from _variable(name, member, place, scope)
        else:
            yield from _group(member, place, scope)


def _variable(
    name: str, array: Array, pointer: str, scope: Sequence[Group]
) -> Iterator[ConventionFault]:
    declared = declared_names(array)
    names = declared.names or ()
    if len(set(names)) != len(names):
        yield ConventionFault(
            f"{pointer}{declared.place}", f"{shown(list(names))} has one name twice"
        )
    place = below(pointer, "attributes")
    for attribute in _TEXTS:
        value = array.attributes.get(attribute, "")
        if not isinstance(value, str):
            yield ConventionFault(below(place, attribute), f"{shown(value)} is not a text")
    yield from _flags(array.attributes, place)
    for attribute, referred in _REFERENCES.items():
        text = array.attributes.get(attribute)
        if text is None:
            continue
        where = below(place, attribute)
        if not isinstance(text, str):
            yield ConventionFault(where, f"{shown(text)} is not a text")
            continue
        for other in referred(text):
            found = _found(other, scope)
            if found is None:
                if attribute != "cell_measures":  # which may be in another file
                    yield ConventionFault(where, f"there is no variable {shown(other)}")
            elif attribute in ("bounds", "climatology"):
                yield from _bounds(other, found, names, array, where)


def _bounds(
    name: str, bounds: Array, names: tuple[str, ...], array: Array, where: str
) -> Iterator[ConventionFault]:
    """Check that bounds have the dimensions of their variable, and one more (section 7.1)."""
    if bounds.shape[:-1] != array.shape or len(bounds.shape) != len(array.shape) + 1:
        text = f"{name!r} has the shape {list(bounds.shape)}, not {list(array.shape)} and one more"
        yield ConventionFault(where, text)
    elif (of_bounds := declared_names(bounds).names) and of_bounds[:-1] != names:
        yield ConventionFault(where, f"{shown(name)} has the dimensions {shown(list(of_bounds))}")


def _flags(attributes: Mapping[str, Json], place: str) -> Iterator[ConventionFault]:
    """Check that all flags have a meaning (section 3.5)."""
    meanings = attributes.get("flag_meanings")
    for name in ("flag_values", "flag_masks"):
        values = attributes.get(name)
        if values is None:
            continue
        count = len(values) if isinstance(values, list) else 1
        if not isinstance(meanings, str):
            yield ConventionFault(below(place, "flag_meanings"), f"{name} needs a text of meanings")
        elif len(meanings.split()) != count:
            text = f"has {len(meanings.split())} meanings, and {name} {count} values"
            yield ConventionFault(below(place, "flag_meanings"), text)


def _words(text: str) -> list[str]:
    return text.split()


def _after_colons(text: str) -> list[str]:
    """Return the names in ``area: cell_area volume: cell_volume``."""
    return [word for word in text.split() if not word.endswith(":")]


def _grid_mappings(text: str) -> list[str]:
    """Return the names in ``crs``, or in ``crs: x y other: lat lon``, coordinates included."""
    return [word.removesuffix(":") for word in text.split()]


_REFERENCES: Mapping[str, Callable[[str], list[str]]] = {
    "coordinates": _words,
    "bounds": _words,
    "climatology": _words,
    "ancillary_variables": _words,
    "grid_mapping": _grid_mappings,
    "formula_terms": _after_colons,
    "cell_measures": _after_colons,
}


def _found(name: str, scope: Sequence[Group]) -> Array | None:
    """Return the variable of a name: in the group, in one above, or at a path."""
    groups = scope[:1] if name.startswith("/") else tuple(reversed(scope))
    parts = name.strip("/").split("/")
    if parts[0] == "..":
        while parts and parts[0] == ".." and len(groups) > 1:
            parts, groups = parts[1:], groups[1:]
        groups = groups[:1]
    for group in groups:
        node: Node | None = group
        for part in parts:
            members = None if isinstance(node, ArrayV2 | ArrayV3 | None) else node.members
            node = (members or {}).get(part)
        if isinstance(node, ArrayV2 | ArrayV3):
            return node
    return None
