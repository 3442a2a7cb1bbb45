"""Sources of copies: declarations, which are plain data, and values that are read box by box."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.errors import NoSuchNode
from nczfs.formats.names import below, parent_of
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import Dimension
from nczfs.plaindata import frozen

STRING_BYTES = 64
"""Assumed bytes of a string of unknown length, and of what Python adds to each string."""

Notice: TypeAlias = Callable[[str], object]
"""Takes a line for the user about what could not be carried over unchanged."""


@frozen
class Content:
    """The values of a variable of a source.

    Attributes
    ----------
    chunks : boxes of this shape, from the origin, cost no more to read than any part of them.
    item_bytes : of an element, for counting progress.
    read : reads the elements of a box: numbers in any byte order, S1 for CHAR, objects for strings.
    release : frees what reading has left in memory.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    item_bytes: int
    read: Callable[[Slices], Values]
    release: Callable[[], object] = lambda: None

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return prod(self.shape) * self.item_bytes


@frozen
class Source:
    """The source of a copy.

    Attributes
    ----------
    name : for messages.
    contents : by path without a leading slash; a missing variable has no values.
    """

    name: str
    root: GroupDeclaration
    contents: Mapping[str, Content]

    @property
    def nbytes(self) -> int:
        """The number of bytes of all values together."""
        return sum(content.nbytes for content in self.contents.values())


def item_bytes(dtype: np.dtype[Any]) -> int:
    """Return the bytes of an element for counting progress; strings have an assumed length."""
    return STRING_BYTES if dtype.hasobject else max(1, dtype.itemsize)


def groups_of(group: GroupDeclaration, path: str = "") -> Iterator[tuple[str, GroupDeclaration]]:
    """Yield a group and all groups below it, with their paths, from the top."""
    yield path, group
    for child in group.groups:
        yield from groups_of(child, below(path, child.name))


def variables_of(group: GroupDeclaration) -> Iterator[tuple[str, VariableDeclaration]]:
    """Yield the variables of a group and of all below it, with their paths."""
    for path, found in groups_of(group):
        for variable in found.variables:
            yield below(path, variable.name), variable


def with_variables(
    group: GroupDeclaration,
    change: Callable[[str, VariableDeclaration], VariableDeclaration],
    path: str = "",
) -> GroupDeclaration:
    """Return a group with its variables, and those of all groups below it, changed one by one."""
    return replace(
        group,
        variables=tuple(change(below(path, v.name), v) for v in group.variables),
        groups=tuple(with_variables(g, change, below(path, g.name)) for g in group.groups),
    )


class Scopes:
    """The dimensions of declarations, and the meaning of their names in a group.

    Attributes
    ----------
    names : of all dimensions.
    """

    def __init__(self, root: GroupDeclaration) -> None:
        self._dimensions: dict[str, Dimension] = {}
        self.names: set[str] = set()
        self.add(root)

    def add(self, root: GroupDeclaration) -> None:
        """Add the dimensions of another part of the same hierarchy."""
        for path, group in groups_of(root):
            for dimension in group.dimensions:
                self._dimensions[below(path, dimension.name)] = dimension
                self.names.add(dimension.name)

    def find(self, name: str, group: str) -> tuple[str, Dimension]:
        """Return the nearest dimension of a name upwards, or that of a full name, with its path.

        Raises
        ------
        NoSuchNode : there is no such dimension.
        """
        if name.startswith("/"):
            return name[1:], self._dimensions[name[1:]]
        place = group
        while (found := self._dimensions.get(below(place, name))) is None:
            if not place:
                raise NoSuchNode(f"/{group}: no dimension {name!r}")
            place = parent_of(place)
        return below(place, name), found
