"""Where the dimensions of a tree of groups are declared when it becomes a file or a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from nczfs.formats.dimensions import anonymous
from nczfs.formats.names import below
from nczfs.model.hierarchy import Dimension, Group, Variable

Spare: TypeAlias = Callable[[Dimension, Dimension], Dimension]
"""Returns what stands for a dimension if the declared one of its group and name has another length.

The declared one is the first argument, which may stand for both. Otherwise the result is declared
in its own group.
"""


class DeclaredDimensions:
    """The declared dimensions, by the path of their group and their name.

    A dimension of a group above the tree, which becomes a file of its own, is declared in the root.

    Parameters
    ----------
    top : becomes the root.
    only_above : whether a variable sees only dimensions of its own group and of those above it.
        Where it refers to one of another group, the root declares that, too.
    spare : for a second dimension of one name in a group, which netCDF does not allow; None: it
        becomes an anonymous dimension of the root.

    Attributes
    ----------
    root : path of the root in the dataset.
    declared : a member for each group of the tree; the path of a dimension's `group` is one of
        these.
    """

    def __init__(self, top: Group, *, only_above: bool = False, spare: Spare | None = None) -> None:
        self.root = top.header.path
        self._spare = spare or self._anonymous
        self._only_above = only_above
        self._found: dict[str, dict[str, Dimension]] = {}
        self.declared: Mapping[str, Mapping[str, Dimension]] = self._found
        groups = list(groups_of(top))
        for group in groups:
            path = group.header.path
            self._found[path] = {d.name: _at(d, path) for d in group.dimensions}
        for group in groups:
            for variable in group.variables:
                for dimension in variable.dimensions:
                    self._declare(dimension, group.header.path)

    def of(self, variable: Variable, here: str) -> list[Dimension]:
        """Return the declared dimensions of a variable in the group at the path `here`."""
        return [self._settled(dimension, here) for dimension in variable.dimensions]

    def _declare(self, dimension: Dimension, here: str) -> None:
        group = self._declaring_group(dimension, here)
        known = self._found[group].setdefault(dimension.name, _at(dimension, group))
        if known.size != dimension.size:
            self._other(known, _at(dimension, group))

    def _anonymous(self, _: Dimension, dimension: Dimension) -> Dimension:
        return replace(anonymous(dimension.size), group=self.root)

    def _other(self, known: Dimension, dimension: Dimension) -> Dimension:
        """Return what stands for a dimension, where a known one of its name has another length."""
        spare = self._spare(known, dimension)
        if spare is known:
            return known
        declared = self._found[spare.group]
        while (found := declared.setdefault(spare.name, spare)).size != dimension.size:
            spare = replace(spare, name=f"{spare.name}_")
        return found

    def _settled(self, dimension: Dimension, here: str) -> Dimension:
        group = self._declaring_group(dimension, here)
        known = self._found[group][dimension.name]
        if known.size == dimension.size:
            return known
        return self._other(known, _at(dimension, group))

    def _declaring_group(self, dimension: Dimension, here: str) -> str:
        group = dimension.group
        if group not in self._found:
            return self.root
        if self._only_above and not f"{here}/".startswith(below(group, "")):
            return self.root
        return group


def groups_of(top: Group) -> Iterator[Group]:
    """Yield a group and every group below it, each before those below it, in stored order."""
    waiting = [top]
    while waiting:
        group = waiting.pop()
        yield group
        waiting += reversed(group.groups)


def _at(dimension: Dimension, group: str) -> Dimension:
    return dimension if dimension.group == group else replace(dimension, group=group)
