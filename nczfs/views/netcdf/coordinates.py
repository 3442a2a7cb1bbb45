"""A variable with its coordinates, as a group of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nczfs.formats.names import split_path
from nczfs.model.hierarchy import Group, Variable

_NAMING = frozenset({"coordinates", "bounds", "climatology", "grid_mapping", "formula_terms"})
"""The attributes with names of variables that describe this one (CF conventions, appendix A)."""


def with_coordinates(variable: Variable, groups: Sequence[Group]) -> Group:
    """Return a group of a variable and what describes it, without anything below.

    That is the variables named as its dimensions, those that CF attributes name, and what describes
    these; each the nearest one of its name. Those of groups above come first, each group's in its
    order. The attributes are those of the variable's group.

    Parameters
    ----------
    groups : the variable's own and those above it, nearest first. What lies below does not matter.
    """
    known = _Visible(groups)
    waiting, taken = [variable], {variable.path: variable}
    while waiting:
        for found in known.describing(waiting.pop()):
            if found.path not in taken:
                taken[found.path] = found
                waiting.append(found)
    members = [v for group in reversed(groups) for v in group.variables if v.path in taken]
    own = groups[0]
    # Only the dimensions that these variables have.
    return Group(replace(own.header, dimensions=()), (), tuple(members))


class _Visible:
    """The variables that are seen from the first of some groups, by name and by path."""

    def __init__(self, groups: Sequence[Group]) -> None:
        variables = [v for group in reversed(groups) for v in group.variables]
        self._nearest = {variable.name: variable for variable in variables}
        self._by_path = {variable.path: variable for variable in variables}

    def describing(self, variable: Variable) -> Iterator[Variable]:
        """Yield the variables that describe one."""
        for name in names_beside(variable):
            found = self._nearest.get(name)
            if found is None and (place := split_path(name)) is not None:
                found = self._by_path.get("/".join(part for part in place if part))
            # Two of one name cannot lie in one group: the nearer one is taken.
            if found is not None and self._nearest[found.name] is found:
                yield found


def names_beside(variable: Variable) -> Iterator[str]:
    """Yield the names that lead to what describes a variable: words, some of them full names."""
    for dimension in variable.dimensions:
        yield dimension.name
    for attribute in variable.attributes:
        if attribute.name in _NAMING and isinstance(attribute.value, str):
            # "a: b c: d" in some of them: terms, or mappings before their coordinates.
            yield from attribute.value.replace(":", " ").split()
