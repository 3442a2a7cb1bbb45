"""Where the dimensions of a tree of groups are declared when it becomes a netCDF file, or CDL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.formats.dimensions import anonymous
from nczfs.formats.names import below
from nczfs.model.hierarchy import Dimension, Group, Variable


class DimensionHomes:
    """The declared dimensions, by the path of their group and their name.

    A dimension of a group above the tree, which becomes a file of its own, is declared in the root.

    Parameters
    ----------
    top : becomes the root.
    only_above : whether a variable sees only dimensions of its own group and of those above it.
        Where it refers to one of another group, the root declares that, too.

    Attributes
    ----------
    root : path of the root in the dataset.
    declared : a member for each group of the tree; the path of a dimension's `group` is one of
        these.
    """

    def __init__(self, top: Group, *, only_above: bool = False) -> None:
        self.root = top.header.path
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
        home = self._home(dimension, here)
        known = self._found[home].setdefault(dimension.name, _at(dimension, home))
        if known.size != dimension.size:
            self._spare(dimension.size)

    def _spare(self, size: int) -> Dimension:
        """Return the anonymous dimension of a length, which the root declares."""
        name, in_root = anonymous(size).name, self._found[self.root]
        while True:
            spare = Dimension(name, size, group=self.root, anonymous=True)
            if in_root.setdefault(name, spare).size == size:
                return in_root[name]
            name += "_"

    def _settled(self, dimension: Dimension, here: str) -> Dimension:
        known = self._found[self._home(dimension, here)][dimension.name]
        if known.size == dimension.size:
            return known
        # Two arrays give one name two lengths, which is impossible in a netCDF group.
        return self._spare(dimension.size)

    def _home(self, dimension: Dimension, here: str) -> str:
        home = dimension.group
        if home not in self._found:
            return self.root
        if self._only_above and not f"{here}/".startswith(below(home, "")):
            return self.root
        return home


def groups_of(top: Group) -> Iterator[Group]:
    """Yield a group and every group below it, each before those below it, in stored order."""
    waiting = [top]
    while waiting:
        group = waiting.pop()
        yield group
        waiting += reversed(group.groups)


def _at(dimension: Dimension, group: str) -> Dimension:
    if dimension.group == group:
        return dimension
    return Dimension(
        dimension.name, dimension.size, dimension.unlimited, group, dimension.anonymous
    )
