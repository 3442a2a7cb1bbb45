"""The data lists of CDL: the constants after ``v =``, and the array that they form.

A list gives the elements in C order. If a dimension other than the first is unlimited, each of its
runs is in braces, and so the lengths of unlimited dimensions follow from the lists. Elements that a
list omits at its end, or at the end of a part in braces, are filler.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.cdl.constants import Misfit, item_of
from nczfs.cdl.leaves import CharLeaf, Leaf, NumberLeaf, TextLeaf, dtype_of
from nczfs.cdl.tokens import Scanner
from nczfs.errors import Unsupported
from nczfs.model.dtypes import NcType
from nczfs.plaindata import frozen

BYTES_MAX = 1 << 32
"""The most bytes of a variable with values in CDL; all of it becomes one array."""


@frozen
class Branch:
    """Parts in braces, each with the elements of another unlimited dimension."""

    parts: list[ListNode]

    @property
    def count(self) -> int:
        return len(self.parts)


ListNode: TypeAlias = "Leaf | Branch"


@frozen(slots=False)
class ListLayout:
    """The required form of a variable's list.

    Attributes
    ----------
    fixed : the length of each dimension, slowest first; None if unlimited.
    """

    type: NcType
    fixed: tuple[int | None, ...]

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """The unlimited dimensions whose runs are in braces."""
        return tuple(i for i, length in enumerate(self.fixed) if i and length is None)

    def leaf(self) -> Leaf:
        if self.type is NcType.STRING:
            return TextLeaf()
        if self.type is NcType.CHAR:
            return CharLeaf((self.fixed[-1] or None) if len(self.fixed) > 1 else None)
        return NumberLeaf(self.type)


def read_list(scanner: Scanner, layout: ListLayout, level: int = 0) -> ListNode:
    """Read the list that begins with the next token, up to its end (``;`` or ``}``).

    Raises
    ------
    BadMetadata : a constant does not fit the type, or braces are misplaced.
    """
    if level == len(layout.inner):
        leaf = layout.leaf()
        _read_row(scanner, leaf)
        return leaf
    parts: list[ListNode] = []
    while not _at_end(scanner):
        if not scanner.take(b"{"):
            scanner.fail(
                f"{scanner.shown()} found; expected `{{`: runs of an unlimited dimension other "
                "than the first are in braces"
            )
        parts.append(read_list(scanner, layout, level + 1))
        scanner.expect(b"}", "the values of a run")
        if not _at_end(scanner):
            scanner.expect(b",", "`}`")
    return Branch(parts)


def _at_end(scanner: Scanner) -> bool:
    return scanner.token.is_mark(b";") or scanner.token.is_mark(b"}")


def _read_row(scanner: Scanner, leaf: Leaf) -> None:
    """Read constants and commas. Braces around some of them mean nothing if lengths are fixed."""
    depth = 0
    more = not _at_end(scanner)
    while more:
        while scanner.take(b"{"):
            depth += 1
        if _take_run(scanner, leaf):
            continue
        _add(scanner, leaf)
        while depth and scanner.take(b"}"):
            depth -= 1
        more = scanner.take(b",")
    if depth:
        scanner.expect(b"}", "values in braces")


def _take_run(scanner: Scanner, leaf: Leaf) -> bool:
    try:
        return leaf.take_run(scanner)
    except Misfit as error:
        scanner.fail(str(error))


def _add(scanner: Scanner, leaf: Leaf) -> None:
    try:
        item = item_of(scanner.token)
        if item is None:
            scanner.fail(f"{scanner.shown()} found; expected a value")
        leaf.add(item)
    except Misfit as error:
        scanner.fail(str(error))
    scanner.next()


def needed_lengths(node: ListNode, layout: ListLayout) -> dict[int, int]:
    """Return the lengths that a list gives the unlimited dimensions, by their position."""
    lengths: dict[int, int] = {}
    starts = (0, *layout.inner, len(layout.fixed))
    nodes: list[ListNode] = [node]
    for start, stop in pairwise(starts):
        if layout.fixed[start:stop] and layout.fixed[start] is None:
            row = prod(length or 0 for length in layout.fixed[start + 1 : stop])
            most = max((part.count for part in nodes), default=0)
            lengths[start] = -(-most // row) if row else 0
        nodes = [part for parent in nodes if isinstance(parent, Branch) for part in parent.parts]
    return lengths


def placed(
    node: ListNode, layout: ListLayout, shape: tuple[int, ...]
) -> tuple[tuple[int, Leaf], ...]:
    """Yield the rows of a list, each with the index of its first element in the whole array.

    Raises
    ------
    Misfit : there are more elements than the array has.
    """
    found: list[tuple[int, ListNode]] = [(0, node)]
    start = 0
    for stop in (*layout.inner, len(shape)):
        room = prod(shape[start:stop])
        step = prod(shape[stop:])
        below: list[tuple[int, ListNode]] = []
        for offset, part in found:
            if part.count > room:
                raise Misfit(f"{part.count} values, but there is room for {room}")
            if isinstance(part, Branch):
                below += [(offset + i * step, child) for i, child in enumerate(part.parts)]
            else:
                below.append((offset, part))
        found, start = below, stop
    return tuple((offset, part) for offset, part in found if isinstance(part, Leaf))


@frozen
class CdlData:
    """The values that CDL gives a variable.

    Attributes
    ----------
    path : of the variable, without a leading slash.
    shape : with the final lengths of unlimited dimensions.
    fill : the filler, as `numpy.full` takes it.
    rows : the constants, with the index of the first element of each row.
    """

    path: str
    type: NcType
    shape: tuple[int, ...]
    fill: Any
    rows: tuple[tuple[int, Leaf], ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype: S1 for CHAR, object (str) for STRING, in this machine's byte order."""
        return dtype_of(self.type)

    @property
    def values(self) -> Values:
        """All elements in C order, including filler; a new array each time.

        Raises
        ------
        Unsupported : there are too many values.
        """
        size = prod(self.shape)
        if size * self.dtype.itemsize > BYTES_MAX:
            raise Unsupported(
                f"{self.path}: {size} values are more than CDL can give a variable "
                f"(max {BYTES_MAX} bytes); write it in parts"
            )
        if len(self.rows) == 1 and self.rows[0][1].count == size:
            return self.rows[0][1].values(self.fill)
        values = np.full(size, self.fill, self.dtype)
        for offset, leaf in self.rows:
            values[offset : offset + leaf.count] = leaf.values(self.fill)
        return values

    @property
    def array(self) -> Values:
        """The values in the shape of the variable; a new array each time. Raises as `values`."""
        return self.values.reshape(self.shape)
