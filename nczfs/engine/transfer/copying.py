"""Copying between netCDF files, CDL and datasets: what both sides agree on.

A `Source` says what there is (declarations, plain data) and lets parts of the values be read. Who
writes them asks for boxes that are whole chunks of the target and, where memory allows, of the
source, so that neither side handles a chunk twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from nczfs.engine.loaded import Values
from nczfs.formats.names import below
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration

BLOCK_SHARE = 4  # of the memory budget: one in so many bytes is a block of values on its way
CACHE_SHARE = 8  # the same for the chunk cache of the netCDF library
STRING_BYTES = 64  # taken for a string whose length is not known, and for what Python adds to one

Selection: TypeAlias = tuple[slice, ...]
Told: TypeAlias = Callable[[str], object]
"""Hears a line about what could not be taken over as it is."""


@dataclass(frozen=True, slots=True)
class Content:
    """The values of a variable of a source.

    Attributes
    ----------
    chunks : boxes of this shape, from the origin, cost no more to read than any part of them.
    read : the elements of a box; numbers in any byte order, S1 for CHAR, objects for strings.
    release : forget what reading has left in memory.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    read: Callable[[Selection], Values]
    release: Callable[[], object] = lambda: None

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


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
    def element_count(self) -> int:
        """Of all variables together."""
        return sum(content.size for content in self.contents.values())


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


def copy(
    content: Content,
    chunks: Sequence[int],
    write: Callable[[Selection, Values], object],
    elements_max: int,
    told: Callable[[int], object],
) -> None:
    """Copy all values, block by block.

    Parameters
    ----------
    chunks : of the target.
    elements_max : of a block, as long as a chunk of the target has no more.
    told : hears how many elements each block had.
    """
    try:
        for selection in blocks(content.shape, chunks, content.chunks, elements_max):
            values = content.read(selection)
            write(selection, values)
            told(values.size)
    finally:
        content.release()


def blocks(
    shape: Sequence[int], unit: Sequence[int], wish: Sequence[int], elements_max: int
) -> Iterator[Selection]:
    """Cut an array into equal boxes of whole `unit`s, in C order; see `block_shape`."""
    if not prod(shape):
        return
    block = block_shape(shape, unit, wish, elements_max)
    starts = (range(0, n, b) for n, b in zip(shape, block, strict=True))
    for start in product(*starts):
        yield tuple(slice(a, min(a + b, n)) for a, b, n in zip(start, block, shape, strict=True))


def block_shape(
    shape: Sequence[int], unit: Sequence[int], wish: Sequence[int], elements_max: int
) -> tuple[int, ...]:
    """The shape of a block that is whole units in every dimension.

    It has at least one unit. As far as there is room it grows, the fastest dimension first, until
    it covers a box of the shape `wish`, and then until it is everything.
    """
    block = [min(u, n) for u, n in zip(unit, shape, strict=True)]
    for goal in (wish, shape):
        for d in reversed(range(len(shape))):
            others = prod(block) // block[d]
            room = elements_max // others // unit[d]
            steps = min(-(-min(goal[d], shape[d]) // unit[d]), room)
            block[d] = min(shape[d], max(block[d], steps * unit[d]))
    return tuple(block)


def longest_string(content: Content, elements_max: int) -> int:
    """Bytes of the longest string of a variable in UTF-8."""
    longest = 0
    for selection in blocks(content.shape, content.chunks, content.chunks, elements_max):
        for text in content.read(selection).reshape(-1):
            longest = max(longest, len(text.encode("utf-8", "surrogateescape")))
    return longest


def elements_in(block_bytes: int, dtype: np.dtype[np.generic], string_bytes: int | None) -> int:
    """How many elements a block of so many bytes can have."""
    if not dtype.hasobject:
        return max(1, block_bytes // max(1, dtype.itemsize))
    # A string is a Python object, an element of four bytes a character, and what is stored.
    return max(1, block_bytes // (STRING_BYTES + 5 * (string_bytes or STRING_BYTES)))
