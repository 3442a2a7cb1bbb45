"""Reading a hierarchy from its JSON: it is checked, and brought into normal form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nczfs.formats.names import is_name
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr3.inline import CONSOLIDATED
from nczfs.formats.zarr3.names import name_fault
from nczfs.formats.zom.arrays import read_array
from nczfs.formats.zom.checking import (
    LEVELS_MAX,
    PLAIN,
    Corrections,
    Notice,
    json_at,
    object_at,
    unheard,
    wrong,
)
from nczfs.formats.zom.nodes import Group, GroupV2, GroupV3, Node
from nczfs.formats.zom.pointers import below
from nczfs.formats.zom.writing import json_of
from nczfs.messages import shown
from nczfs.model.hierarchy import Json

__all__ = ["Notice", "checked", "read", "unheard"]


def read(
    value: object,
    *,
    strict: bool = False,
    notice: Notice = unheard,
    pointer: str = "",
    nodes_max: int | None = None,
) -> Node:
    """Return the hierarchy that JSON describes; see `loads`.

    Parameters
    ----------
    pointer : of the value, where it is part of something else.
    nodes_max : a hierarchy of more is refused; None: any number.
    """
    return _node(value, pointer, Corrections(strict, notice, nodes_max), None, 0)


def checked(node: Node) -> Node:
    """Return a hierarchy that was made by hand in normal form. Raises BadMetadata."""
    return read(json_of(node))


def _node(
    value: object, pointer: str, corrections: Corrections, version: int | None, level: int
) -> Node:
    if level > LEVELS_MAX:
        raise wrong(pointer, f"groups within groups more than {LEVELS_MAX} times")
    if corrections.is_full():
        raise wrong(pointer, f"is beyond {corrections.nodes_max} nodes, which are all that is read")
    fields = object_at(value, pointer)
    found = _version(fields, pointer, corrections)
    if version is not None and found != version:
        raise wrong(pointer, f"a member of Zarr v{found} in a group of Zarr v{version}")
    attributes = fields.pop("attributes", None)
    kept = {} if attributes is None else _attributes(attributes, below(pointer, "attributes"))
    if _is_array(fields, found, pointer):
        if "members" in fields:
            raise wrong(below(pointer, "members"), "an array has no members")
        array = read_array(fields, found, pointer, corrections)
        return replace(array, attributes=kept, others=_others(fields, found, pointer))
    members = _members(fields.pop("members", None), pointer, corrections, found, level)
    fields.pop(CONSOLIDATED, None)  # a copy of what the members say
    others = _others(fields, found, pointer) if fields else {}
    kind: Any = GroupV2 if found == 2 else GroupV3  # no type says the version of the members
    group: Group = kind(members, kept, others)
    return group


def _attributes(value: Json, place: str) -> dict[str, Json]:
    return {
        name: v if type(v) in PLAIN else json_at(v, below(place, name), 1)
        for name, v in object_at(value, place).items()
    }


def _version(fields: dict[str, Json], pointer: str, corrections: Corrections) -> int:
    if "zarr_format" not in fields and "zarr_version" in fields:
        corrections.note(below(pointer, "zarr_version"), "is called zarr_format")
        fields["zarr_format"] = fields.pop("zarr_version")
    if "zarr_format" not in fields:
        raise wrong(below(pointer, "zarr_format"), "is missing")
    version = fields.pop("zarr_format")
    if type(version) is not int or version not in (2, 3):
        raise wrong(below(pointer, "zarr_format"), f"{shown(version)} is neither 2 nor 3")
    return version


def _is_array(fields: dict[str, Json], version: int, pointer: str) -> bool:
    if version == 2 or "node_type" not in fields:
        return "shape" in fields
    kind = fields.pop("node_type")
    if kind not in ("array", "group"):
        raise wrong(below(pointer, "node_type"), f"{shown(kind)} is neither 'array' nor 'group'")
    return kind == "array"


def _members(
    value: Json, pointer: str, corrections: Corrections, version: int, level: int
) -> dict[str, Node] | None:
    if value is None:
        return None
    place = below(pointer, "members")
    found: dict[str, Node] = {}
    for name, member in object_at(value, place).items():
        here = below(place, name)
        if fault := member_fault(name, version):
            raise wrong(here, f"{shown(name)} cannot be the name of a member: {fault}")
        found[str(name)] = _node(member, here, corrections, version, level + 1)
    return found


def member_fault(name: str, version: int) -> str | None:
    """Tell why a member of a group can have no such name, in a clause about "it"."""
    if not name:
        return "it is empty"
    if not is_name(name):
        return "it is no single component of a key"
    if name in FORMATS.documents:
        return "it is that of a document"
    return name_fault(name) if version == 3 else None


def _others(fields: dict[str, Json], version: int, pointer: str) -> dict[str, Json]:
    found = {name: json_at(value, below(pointer, name), 1) for name, value in fields.items()}
    if version == 3:
        for name, value in found.items():
            if not isinstance(value, dict) or value.get("must_understand") is not False:
                raise wrong(below(pointer, name), "is unknown, and not marked as may be ignored")
    return found
