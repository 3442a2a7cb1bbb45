"""What is copied: declarations, which are plain data, and values that can be read box by box."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.engine.loaded import Values
from nczfs.errors import NoSuchNode
from nczfs.formats.names import below, parent_of
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.hierarchy import Dimension

STRING_BYTES = 64
"""Assumed for a string of unknown length, and for what Python adds to each string."""

Selection: TypeAlias = tuple[slice, ...]

Notice: TypeAlias = Callable[[str], object]
"""Takes a line for the user about what could not be carried over as it is."""

Progress: TypeAlias = Callable[[float], object]
"""Takes the number of bytes of values that were done since the last call; may raise."""


@dataclass(frozen=True, slots=True)
class Content:
    """The values of a variable of a source.

    Attributes
    ----------
    chunks : boxes of this shape, from the origin, cost no more to read than any part of them.
    item_bytes : of an element, by which progress is counted.
    read : the elements of a box; numbers in any byte order, S1 for CHAR, objects for strings.
    release : forget what reading has left in memory.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    item_bytes: int
    read: Callable[[Selection], Values]
    release: Callable[[], object] = lambda: None

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * self.item_bytes


@dataclass(frozen=True, slots=True)
class Source:
    """What is copied.

    Attributes
    ----------
    name : for messages.
    contents : by path without a leading slash; a variable that is not there has no values.
    """

    name: str
    root: GroupDeclaration
    contents: Mapping[str, Content]

    @property
    def nbytes(self) -> int:
        """Bytes of all values together."""
        return sum(content.nbytes for content in self.contents.values())


def item_bytes(dtype: np.dtype[Any]) -> int:
    """What an element of a type counts for in progress; strings have an assumed length."""
    return STRING_BYTES if dtype.hasobject else max(1, dtype.itemsize)


def groups_of(group: GroupDeclaration, path: str = "") -> Iterator[tuple[str, GroupDeclaration]]:
    """A group and all below it, with their paths, the upper ones first."""
    yield path, group
    for child in group.groups:
        yield from groups_of(child, below(path, child.name))


def variables_of(group: GroupDeclaration) -> Iterator[tuple[str, VariableDeclaration]]:
    """The variables of a group and of all below it, with their paths."""
    for path, found in groups_of(group):
        for variable in found.variables:
            yield below(path, variable.name), variable


def with_variables(
    group: GroupDeclaration,
    change: Callable[[str, VariableDeclaration], VariableDeclaration],
    path: str = "",
) -> GroupDeclaration:
    """A group whose variables, and those of all groups below it, are changed one by one."""
    return replace(
        group,
        variables=tuple(change(below(path, v.name), v) for v in group.variables),
        groups=tuple(with_variables(g, change, below(path, g.name)) for g in group.groups),
    )


class Scopes:
    """The dimensions of a declaration, and what a name of one means in a group."""

    def __init__(self, root: GroupDeclaration) -> None:
        self._dimensions = {
            below(path, dimension.name): dimension
            for path, group in groups_of(root)
            for dimension in group.dimensions
        }
        self.names = frozenset(dimension.name for dimension in self._dimensions.values())

    def find(self, name: str, group: str) -> tuple[str, Dimension]:
        """The nearest dimension of a name upwards, or the one of a full name; with its path.

        Raises
        ------
        NoSuchNode : there is none.
        """
        if name.startswith("/"):
            return name[1:], self._dimensions[name[1:]]
        place = group
        while (found := self._dimensions.get(below(place, name))) is None:
            if not place:
                raise NoSuchNode(f"/{group}: no dimension {name!r}")
            place = parent_of(place)
        return below(place, name), found
