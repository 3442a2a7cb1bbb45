"""Groups for formats without dependent arrays, where these become variables of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nczfs.formats.zarr3.dependents import SPELLINGS
from nczfs.model.hierarchy import Group, Variable


def flattened(group: Group) -> Group:
    """Return a group in which each dependent array is a variable ``PRIMARY.NAME`` behind its
    primary, which does not declare it any more.

    Where the name is taken, it ends with as many ``~`` as needed. A group without dependent arrays
    is returned itself, so that nothing is copied.
    """
    ordered, pending = [], [group]
    while pending:  # groups may be nested deeper than calls
        ordered.append(pending.pop())
        pending += ordered[-1].groups
    made: dict[int, Group] = {}
    for each in reversed(ordered):
        made[id(each)] = _flattened_level(each, tuple(made[id(child)] for child in each.groups))
    return made[id(group)]


def _flattened_level(group: Group, groups: tuple[Group, ...]) -> Group:
    """Return a group with the given groups below it, and with variables for dependent arrays."""
    has_dependents = any(variable.dependents for variable in group.variables)
    if has_dependents:
        taken = {each.name for each in group.variables} | {each.name for each in group.groups}
        variables = [v for each in group.variables for v in _with_dependents(each, taken)]
        group = replace(group, variables=tuple(variables))
    is_same = all(one is other for one, other in zip(groups, group.groups, strict=True))
    return group if is_same else replace(group, groups=groups)


def _with_dependents(variable: Variable, taken: set[str]) -> Iterator[Variable]:
    """Yield a variable and what depends on it, each with a name that nothing else has."""
    name = variable.name
    yield _alone(variable)
    for dependent in variable.dependents:
        label = f"{name}.{dependent.name}"
        while label in taken:
            label += "~"
        taken.add(label)
        yield from _with_dependents(replace(dependent, label=label), taken)


def _alone(variable: Variable) -> Variable:
    if not variable.dependents:
        return variable
    attributes = tuple(a for a in variable.attributes if a.name not in SPELLINGS)
    return replace(variable, attributes=attributes, dependents=())
