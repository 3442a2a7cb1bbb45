"""Conventions that hierarchies follow: patterns, with rules as code for what depends on values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TypeAlias

from nczfs.errors import UsageError
from nczfs.formats.zom.checking import object_at, wrong
from nczfs.formats.zom.nodes import Node
from nczfs.formats.zom.pointers import below
from nczfs.messages import reason, shown
from nczfs.zom import cf, xarraynames
from nczfs.zom.patterns import ConventionFault, Pattern, faults_of, read_pattern

Rule: TypeAlias = Callable[[Node], Iterable[ConventionFault]]

ENTRY_POINTS = "nczfs.convention"


@dataclass(frozen=True, slots=True)
class Convention:
    """What a hierarchy must be.

    Attributes
    ----------
    rules : yield the places of a hierarchy that do not follow them.
    """

    name: str
    pattern: Pattern = Pattern()  # noqa: RUF009 - frozen
    rules: tuple[Rule, ...] = ()


XARRAY = Convention("xarray", rules=(xarraynames.faults,))
CF = Convention("cf", cf.PATTERN, (xarraynames.faults, cf.faults))

BUILT_IN: Mapping[str, Convention] = {each.name: each for each in (XARRAY, CF)}


def validate(node: Node, convention: Convention | str) -> Iterator[ConventionFault]:
    """Yield where a hierarchy does not follow a convention; nothing, if it does.

    Parameters
    ----------
    convention : or the name of one, see `convention_named`.

    Raises
    ------
    UsageError : no convention has that name.
    """
    if isinstance(convention, str):
        convention = convention_named(convention)
    yield from faults_of(node, convention.pattern)
    for rule in convention.rules:
        yield from rule(node)


def convention_named(name: str) -> Convention:
    """Return a convention by its name: a built-in one, or that of an entry point.

    The object of an entry point in the group ``nczfs.convention`` is a `Convention`, or a function
    that takes a hierarchy and yields each `ConventionFault`.

    Raises
    ------
    UsageError : none has that name, or it cannot be imported.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    installed = entry_points(group=ENTRY_POINTS)
    for point in installed:
        if point.name == name:
            try:
                found = point.load()
            except Exception as error:
                raise UsageError(f"the convention {name!r} fails: {reason(error)}") from error
            return found if isinstance(found, Convention) else Convention(name, rules=(found,))
    known = ", ".join((*BUILT_IN, *sorted(point.name for point in installed)))
    raise UsageError(f"no convention is called {name!r}; there are {known}")


def read_convention(value: object, name: str) -> Convention:
    """Return the convention that JSON describes: a pattern, and the names of others in a list.

    The list, ``conventions``, names those whose rules hold as well.

    Raises
    ------
    BadMetadata : it is none. UsageError : another convention is unknown.
    """
    members = object_at(value, "")
    others = members.pop("conventions", [])
    place = below("", "conventions")
    if not isinstance(others, list) or not all(isinstance(each, str) for each in others):
        raise wrong(place, f"{shown(others)} is not a list of names")

    def rule_of(other: Convention) -> Rule:
        return lambda node: validate(node, other)

    names = dict.fromkeys(map(str, others))
    rules = tuple(rule_of(convention_named(each)) for each in names)
    return Convention(name, read_pattern(members), rules)
