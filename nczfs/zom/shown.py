"""The text of a group's hierarchy that a mount can show, and what is declared by writing one.

A text declares a hierarchy where nothing is. Over an existing one, only attributes may change, and
members may be added; a member that is left out would be removed, which is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from nczfs.engine.dataset import Dataset
from nczfs.formats.zom.nodes import Node
from nczfs.formats.zom.pointers import parts_of
from nczfs.formats.zom.text import LIMITS, TextLimits, dumps, loads
from nczfs.zom.differences import Change, Difference, diff
from nczfs.zom.stored import Problem, read_stored

NODES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ShownHierarchy:
    """The text of a group and all below it.

    Attributes
    ----------
    problems : nodes that it lacks, and groups whose members are left out.
    """

    text: bytes
    problems: tuple[Problem, ...] = ()


def shown_hierarchy(dataset: Dataset, path: str, *, nodes_max: int = NODES_MAX) -> ShownHierarchy:
    """Return the text of a node's hierarchy, as it is stored.

    Raises
    ------
    NoSuchNode, MetadataError, StoreError : as `read_stored`.
    """
    stored = read_stored(dataset, path, nodes_max=nodes_max)
    return ShownHierarchy(f"{dumps(stored.node)}\n".encode(), stored.problems)


@dataclass(frozen=True, slots=True)
class DeclaredChange:
    """What a text makes of the hierarchy that is there.

    Attributes
    ----------
    node : that the text declares.
    difference : from what is there; None: nothing is there.
    refused : the changes among these that a declaration cannot make.
    """

    node: Node
    difference: Difference | None = None
    refused: tuple[Change, ...] = ()


def declared_change(
    text: bytes, present: Node | None, *, limits: TextLimits = LIMITS
) -> DeclaredChange:
    """Return what a text that is written declares.

    Parameters
    ----------
    present : the hierarchy that is there; None: none is.

    Raises
    ------
    BadMetadata : the text is no hierarchy. The error's pointer leads to what is wrong.
    """
    node = loads(text, limits=limits)
    if present is None:
        return DeclaredChange(node)
    difference = diff(present, node)
    refused = [
        each
        for changes in (difference.changed, difference.removed)
        for each in changes
        if not _is_attribute(each.pointer)
    ]
    refused += [
        each
        for each in difference.added
        if not (_is_attribute(each.pointer) or _is_member(each.pointer))
    ]
    return DeclaredChange(node, difference, tuple(refused))


def _is_attribute(pointer: str) -> bool:
    parts = _below_members(pointer)
    return len(parts) > 1 and parts[0] == "attributes"


def _is_member(pointer: str) -> bool:
    return not _below_members(pointer)


def _below_members(pointer: str) -> list[str]:
    """Return the names of a pointer behind those of the node that it leads into."""
    parts = parts_of(pointer)
    while len(parts) > 1 and parts[0] == "members":
        parts = parts[2:]
    return parts
