"""Lengths and dimensions that are not in the store yet, in the nodes that have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from nczfs.engine.metadata.changes import NodeChange, Resize, ResizeDimension
from nczfs.engine.metadata.documents import StoreDocuments
from nczfs.formats.base import MetadataFormat, Node
from nczfs.formats.names import parent_of
from nczfs.model.hierarchy import Dimension, GroupHeader, Variable
from nczfs.zmap.keys import is_within, moved

Pending: TypeAlias = "Mapping[str, Mapping[tuple[str, ...], NodeChange]]"
"""Changes by the path of their node and their subject."""

Lengths: TypeAlias = "Mapping[str, Sequence[NodeChange]]"
"""New lengths, as of one time, by the path of their node."""


def is_length(change: NodeChange) -> TypeGuard[Resize | ResizeDimension]:
    """Return whether a change is one of a length."""
    return isinstance(change, Resize | ResizeDimension)


def growing(pending: Pending) -> dict[str, set[int]]:
    """Return the paths of the variables with new lengths, and the axes."""
    found = {
        path: {change.axis for change in changes.values() if isinstance(change, Resize)}
        for path, changes in pending.items()
    }
    return {path: axes for path, axes in found.items() if axes}


def lengths_of(
    pending: Pending, variables: Collection[str], others: Collection[tuple[str, str]]
) -> Lengths:
    """Return the new lengths of variables, and of all but some dimensions.

    Parameters
    ----------
    others : the groups and names of these dimensions.
    """

    def is_wanted(path: str, change: NodeChange) -> bool:
        if isinstance(change, Resize):
            return path in variables
        return isinstance(change, ResizeDimension) and (path, change.name) not in others

    return {
        path: [change for change in changes.values() if is_wanted(path, change)]
        for path, changes in pending.items()
    }


def groups_to_lengthen(wanted: Mapping[str, Sequence[NodeChange]]) -> set[str]:
    """Return the paths of the groups of which only dimensions grow; none if others change, too.

    Parameters
    ----------
    wanted : changes that are stored together, by the path of their node.
    """
    groups = {p for p, all_ in wanted.items() if all(isinstance(c, ResizeDimension) for c in all_)}
    variables = (changes for path, changes in wanted.items() if path not in groups)
    if all(any(isinstance(change, Resize) for change in changes) for changes in variables):
        return groups
    return set()


def with_lengths(
    changes: Mapping[tuple[str, ...], NodeChange], lengths: Lengths | None, path: str
) -> list[NodeChange]:
    """Return the changes of a node with those of its new lengths that still hold; None: all.

    A length that has grown since is stored as it was: what was appended may have no values yet.
    """
    if lengths is None:
        return list(changes.values())
    found = [change for change in changes.values() if not is_length(change)]
    for length in filter(is_length, lengths.get(path, ())):
        now = changes.get(length.subject)
        if now is length or (now is not None and is_length(now) and now.grows and length.grows):
            found.append(length)
    return found


def are_growth(changes: Iterable[NodeChange]) -> bool:
    """Return whether all of some changes are lengths that grow, and right where it is longer."""
    return all(is_length(change) and change.grows for change in changes)


def as_long_as_declared(variable: Variable, group: Callable[[str], Node | None]) -> Variable:
    """Return a variable with the lengths of its unlimited dimensions.

    Parameters
    ----------
    group : returns the group at a path, which declares dimensions.
    """
    for axis, dimension in enumerate(variable.dimensions):
        if dimension.unlimited:
            found = group(dimension.group)
            known = found.dimensions if isinstance(found, GroupHeader) else ()
            sizes = (other.size for other in known if other.name == dimension.name)
            variable = Resize(axis, max(sizes, default=0), grows=True).apply(variable)
    return variable


def as_long_as_stored(
    written_as: MetadataFormat,
    variable: Variable,
    changes: Iterable[NodeChange],
    documents: StoreDocuments,
) -> Variable:
    """Return a growing variable, no shorter than its document says.

    It reads as long as its dimension, which another client that appends stores after the shape.
    """
    key = written_as.array_key(variable.path)
    data = documents.get(key)
    stored = () if data is None else written_as.stored_shape(data, key)
    for change in changes:
        if isinstance(change, Resize) and change.grows and change.axis < len(stored):
            variable = Resize(change.axis, stored[change.axis], grows=True).apply(variable)
    return variable


def with_dimensions(node: Node, declared: Mapping[str, Mapping[str, Dimension]]) -> Node:
    """Return a node with the dimensions that groups declare for it, by the path of the group."""
    if not declared:
        return node
    if isinstance(node, GroupHeader):
        return _declaring(node, declared.get(node.path, {}))
    return _having(node, declared)


def moved_dimensions(
    declared: Mapping[str, dict[str, Dimension]], path: str, goal: str
) -> dict[str, dict[str, Dimension]]:
    """Return what groups declare, by their paths, after a node has moved with all below it."""
    found: dict[str, dict[str, Dimension]] = {}
    for group, dimensions in declared.items():
        new = moved(group, path, goal) if is_within(group, path) else group
        found[new] = {name: replace(each, group=new) for name, each in dimensions.items()}
    return found


def keys_with_dimensions(node: Node, written_as: MetadataFormat) -> list[str]:
    """Return the keys of the documents that describe a node and its dimensions."""
    paths = [node.path]
    if isinstance(node, Variable) and written_as.declares:
        paths += [dimension.group for dimension in node.dimensions]
    return [key for path in paths for key in written_as.keys(path)]


def _declaring(group: GroupHeader, declared: Mapping[str, Dimension]) -> GroupHeader:
    """Return a group that declares some dimensions, too."""
    known = {dimension.name: dimension for dimension in group.dimensions}
    return replace(group, dimensions=tuple({**known, **declared}.values()))


def _having(variable: Variable, declared: Mapping[str, Mapping[str, Dimension]]) -> Variable:
    """Return the variable with the dimensions declared for it, if their lengths match its own."""

    def found(dimension: Dimension) -> Dimension:
        above = variable.path
        while above:
            above = parent_of(above)
            known = declared.get(above, {}).get(dimension.name)
            if known is not None:
                return known if known.size == dimension.size else dimension
        return dimension

    return replace(variable, dimensions=tuple(map(found, variable.dimensions)))
