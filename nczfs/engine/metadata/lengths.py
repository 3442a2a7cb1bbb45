"""Lengths and dimensions that are not in the store yet, in the nodes that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from nczfs.engine.metadata.changes import Change, Resize, ResizeDimension
from nczfs.engine.metadata.documents import StoreDocuments
from nczfs.formats.base import MetadataFormat
from nczfs.formats.names import parent_of
from nczfs.model.hierarchy import Dimension, GroupHeader, Variable


def is_length(change: Change) -> TypeGuard[Resize | ResizeDimension]:
    """Return whether a change is one of a length."""
    return isinstance(change, Resize | ResizeDimension)


def as_long_as_stored(
    written_as: MetadataFormat,
    variable: Variable,
    changes: Iterable[Change],
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


def declaring(group: GroupHeader, declared: Mapping[str, Dimension]) -> GroupHeader:
    """Return a group that declares some dimensions, too."""
    known = {dimension.name: dimension for dimension in group.dimensions}
    return replace(group, dimensions=tuple({**known, **declared}.values()))


def having(variable: Variable, declared: Mapping[str, Mapping[str, Dimension]]) -> Variable:
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
