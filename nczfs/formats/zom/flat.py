"""The flat form of a hierarchy: nodes by their paths, with groups that have no members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nczfs.formats.zom.checking import Notice, object_at, unheard, wrong
from nczfs.formats.zom.nodes import Array, ArrayV2, ArrayV3, Group, Node, walk, with_members
from nczfs.formats.zom.nodes import group_of as new_group
from nczfs.formats.zom.pointers import below
from nczfs.formats.zom.reading import member_fault, read
from nczfs.formats.zom.writing import json_of
from nczfs.messages import shown
from nczfs.model.hierarchy import Json


def to_flat(node: Node) -> dict[str, Node]:
    """Return all nodes by their paths: "" is the root, and others begin with a slash.

    The members of groups are None. A group whose members are unknown looks like an empty one.
    """
    return {
        path: each if isinstance(each, ArrayV2 | ArrayV3) else with_members(each, None)
        for path, each in walk(node)
    }


def from_flat(nodes: Mapping[str, Node]) -> Node:
    """Return the hierarchy of nodes by their paths.

    Missing groups above others are made, without attributes. Members that a group has are ignored.

    Raises
    ------
    BadMetadata : there are no nodes, a path is wrong, or something is below an array or of another
        version. The error's pointer leads into the flat form.
    """
    if not nodes:
        raise wrong("", "there are no nodes")
    version = next(iter(nodes.values())).zarr_format
    tree = _Branch()
    for path, node in nodes.items():
        pointer = below("", path)
        if node.zarr_format != version:
            other = f"a node of Zarr v{node.zarr_format} among those of Zarr v{version}"
            raise wrong(pointer, other)
        branch = tree
        for name in _names(path, pointer, version):
            branch = branch.members.setdefault(name, _Branch())
        branch.node = node
        branch.path = path
    return _grown(tree, version)


def flat_json(nodes: Mapping[str, Node], *, is_explicit: bool = False) -> dict[str, Json]:
    """Return the JSON of the flat form, in which groups have no ``members``.

    Parameters
    ----------
    is_explicit : as `document_of`.
    """
    found: dict[str, Json] = {}
    for path, node in nodes.items():
        members = json_of(node, is_explicit=is_explicit)
        members.pop("members", None)
        found[path] = members
    return found


def is_flat(value: object) -> bool:
    """Return whether JSON is a flat form, by the names of its members."""
    return isinstance(value, dict) and bool(value) and all(n[:1] in ("", "/") for n in value)


def read_flat(
    value: object,
    *,
    strict: bool = False,
    notice: Notice = unheard,
    nodes_max: int | None = None,
) -> Node:
    """Return the hierarchy whose flat form JSON describes; see `read`. Raises BadMetadata."""
    nodes: dict[str, Node] = {}
    given = object_at(value, "")
    if nodes_max is not None and len(given) > nodes_max:
        raise wrong("", f"{len(given)} nodes are not read (max {nodes_max})")
    for path, each in given.items():
        pointer = below("", path)
        members = object_at(each, pointer)
        if "members" in members:
            raise wrong(below(pointer, "members"), "a group in the flat form has no members")
        nodes[path] = read(members, strict=strict, notice=notice, pointer=pointer)
    return from_flat(nodes)


@dataclass
class _Branch:
    """A node, or the place of one that nobody has given, and what lies below."""

    node: Node | None = None
    path: str = ""
    members: dict[str, _Branch] = field(default_factory=dict)


def _names(path: str, pointer: str, version: int) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise wrong(pointer, f"the path {shown(path)} does not begin with a slash")
    names = path[1:].split("/")
    for name in names:
        if fault := member_fault(name, version):
            raise wrong(pointer, f"{shown(name)} cannot be the name of a member: {fault}")
    return names


def _grown(branch: _Branch, version: int) -> Node:
    node = branch.node
    if isinstance(node, ArrayV2 | ArrayV3):
        return _leaf(node, branch)
    members = {name: _grown(each, version) for name, each in branch.members.items()}
    group: Group = new_group(version, None) if node is None else node
    return with_members(group, members)


def _leaf(node: Array, branch: _Branch) -> Array:
    if branch.members:
        name = next(iter(branch.members))
        raise wrong(below("", f"{branch.path}/{name}"), "is below an array")
    return node
