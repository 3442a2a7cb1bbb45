"""Patterns of hierarchies: which attributes, members and dimensions nodes must have.

A pattern is JSON in the form of a hierarchy, in which everything may be left out::

    {"attributes": {"title": {"type": "string"}, "history": {"required": false}},
     "members": {"time": {"node_type": "array", "dimension_names": ["time"],
                          "attributes": {"units": {"type": "string"}}},
                 "*": {"node_type": "array"}}}

A rule for a value has keywords of JSON Schema: ``type``, ``const``, ``enum``, ``items``. Rules and
members with ``"required": false`` may be missing. The member ``*`` describes all that are not
named, and need not be there. In ``shape`` and ``dimension_names``, null stands for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nczfs.formats.zom.checking import json_at, object_at, wrong
from nczfs.formats.zom.dimensions import declared_names
from nczfs.formats.zom.nodes import FIELDS, ArrayV2, ArrayV3, Node
from nczfs.formats.zom.pointers import below
from nczfs.formats.zom.writing import document_of
from nczfs.messages import shown
from nczfs.model.hierarchy import Json


@dataclass(frozen=True, slots=True)
class ConventionFault:
    """A place where a hierarchy does not follow a convention.

    Attributes
    ----------
    pointer : a JSON pointer.
    text : what is wrong there.
    """

    pointer: str
    text: str


@dataclass(frozen=True, slots=True)
class ValueRule:
    """What a value must be.

    Attributes
    ----------
    types : names of JSON Schema, any of them; (): any type.
    values : all that are permitted; None: any.
    items : what those of a list must be.
    required : whether it must be there.
    """

    types: tuple[str, ...] = ()
    values: tuple[Json, ...] | None = None
    items: ValueRule | None = None
    required: bool = True
    _known: frozenset[Hashable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(map(_key, self.values or ())))

    def permits(self, value: Json) -> bool:
        """Return whether a value is one of those that are permitted."""
        return self.values is None or _key(value) in self._known


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a node must be.

    Attributes
    ----------
    is_array : None: either.
    attributes : what those of these names must be.
    fields : what other members of the node must be.
    shape, dimension_names : None: any, as it is for single dimensions.
    members : those that a group has, by name; ``*`` is for all others.
    required : whether the node must be there.
    """

    is_array: bool | None = None
    attributes: Mapping[str, ValueRule] = field(default_factory=dict)
    fields: Mapping[str, ValueRule] = field(default_factory=dict)
    shape: tuple[Json, ...] | None = None
    dimension_names: tuple[Json, ...] | None = None
    members: Mapping[str, Pattern] = field(default_factory=dict)
    required: bool = True


ANY = "*"

_Test: TypeAlias = Callable[[Json], bool]

_TYPES: Mapping[str, _Test] = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: (
        not isinstance(v, bool)
        and (isinstance(v, int) or (isinstance(v, float) and v.is_integer()))
    ),
    "number": lambda v: not isinstance(v, bool) and isinstance(v, int | float),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}


def read_pattern(value: object, pointer: str = "") -> Pattern:
    """Return the pattern that JSON describes. Raises BadMetadata."""
    members = object_at(value, pointer)
    is_array = None
    if "node_type" in members:
        kind = members.pop("node_type")
        if kind not in ("array", "group"):
            where = below(pointer, "node_type")
            raise wrong(where, f"{shown(kind)} is neither 'array' nor 'group'")
        is_array = kind == "array"
    required = _flag(members, pointer)
    attributes = _mapping(members, "attributes", pointer)
    below_it = _mapping(members, "members", pointer)
    shape = _list(members, "shape", pointer)
    names = _list(members, "dimension_names", pointer)
    for name in members:
        if name not in FIELDS:
            raise wrong(below(pointer, name), "is no member of a node")
    place = below(pointer, "attributes")
    return Pattern(
        is_array,
        {name: _rule(each, below(place, name)) for name, each in attributes.items()},
        {name: _rule(each, below(pointer, name)) for name, each in members.items()},
        shape,
        names,
        {
            name: read_pattern(each, below(below(pointer, "members"), name))
            for name, each in below_it.items()
        },
        required,
    )


def faults_of(node: Node, pattern: Pattern, pointer: str = "") -> Iterator[ConventionFault]:
    """Yield where a hierarchy does not fit a pattern."""
    is_array = isinstance(node, ArrayV2 | ArrayV3)
    if pattern.is_array is not None and pattern.is_array is not is_array:
        found, wanted = ("an array", "a group") if is_array else ("a group", "an array")
        yield ConventionFault(pointer, f"is {found}, not {wanted}")
        return
    yield from _members_faults(node.attributes, pattern.attributes, below(pointer, "attributes"))
    yield from _members_faults(document_of(node), pattern.fields, pointer)
    if isinstance(node, ArrayV2 | ArrayV3):
        yield from _list_faults(pattern.shape, node.shape, below(pointer, "shape"))
        if pattern.dimension_names is not None:
            declared = declared_names(node)
            if declared.fault is not None:
                yield ConventionFault(f"{pointer}{declared.fault[0]}", declared.fault[1])
            place = f"{pointer}{declared.place}"
            yield from _list_faults(pattern.dimension_names, declared.names or (), place)
        return
    place = below(pointer, "members")
    members: Mapping[str, Node] = node.members or {}
    for name, each in pattern.members.items():
        if name != ANY and name not in members and each.required:
            yield ConventionFault(below(place, name), "is missing")
    for name, member in members.items():
        wanted_member = pattern.members.get(name, pattern.members.get(ANY))
        if wanted_member is not None:
            yield from faults_of(member, wanted_member, below(place, name))


def _members_faults(
    members: Mapping[str, Json], rules: Mapping[str, ValueRule], pointer: str
) -> Iterator[ConventionFault]:
    for name, rule in rules.items():
        place = below(pointer, name)
        if name in members:
            yield from _value_faults(members[name], rule, place)
        elif rule.required:
            yield ConventionFault(place, "is missing")


def _value_faults(value: Json, rule: ValueRule, pointer: str) -> Iterator[ConventionFault]:
    if rule.types and not any(_TYPES[name](value) for name in rule.types):
        yield ConventionFault(
            pointer, f"{shown(value)} is not of the type {' or '.join(rule.types)}"
        )
    elif rule.values is not None and not rule.permits(value):
        yield ConventionFault(pointer, f"{shown(value)} is not {_choice(rule.values)}")
    if rule.items is not None and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _value_faults(item, rule.items, f"{pointer}/{place}")


def _list_faults(
    wanted: tuple[Json, ...] | None, found: tuple[Json, ...], pointer: str
) -> Iterator[ConventionFault]:
    if wanted is None:
        return
    if len(wanted) != len(found):
        yield ConventionFault(pointer, f"{shown(list(found))} has not {len(wanted)} dimensions")
        return
    for place, (each, value) in enumerate(zip(wanted, found, strict=True)):
        if each is not None and _key(each) != _key(value):
            yield ConventionFault(f"{pointer}/{place}", f"{shown(value)} is not {shown(each)}")


def _key(value: Json) -> Hashable:
    """Return what is equal for equal values: 1 is 1.0, and true is not 1.

    Looked up, because a list and the values that its items may have can both be very long.
    """
    match value:
        case list():
            return list, tuple(map(_key, value))
        case dict():
            return dict, frozenset((name, _key(each)) for name, each in value.items())
        case _:
            return isinstance(value, bool), value


def _choice(values: tuple[Json, ...]) -> str:
    return shown(values[0]) if len(values) == 1 else f"one of {shown(list(values[:_NAMED_MAX]))}"


_NAMED_MAX = 100  # more than a message shows


def _rule(value: Json, pointer: str) -> ValueRule:
    if not isinstance(value, dict):  # a value stands for itself
        return ValueRule(values=(json_at(value, pointer),))
    members = dict(value)
    required = _flag(members, pointer)
    types = members.pop("type", [])
    listed = tuple(types) if isinstance(types, list) else (types,)
    for name in listed:
        if not isinstance(name, str) or name not in _TYPES:
            raise wrong(below(pointer, "type"), f"{shown(name)} is no type of JSON Schema")
    values: tuple[Json, ...] | None = None
    if "const" in members:
        values = (members.pop("const"),)
    elif "enum" in members:
        values = _list(members, "enum", pointer)
    items = None
    if "items" in members:
        items = _rule(members.pop("items"), below(pointer, "items"))
    if members:
        place = below(pointer, next(iter(members)))
        raise wrong(place, "is no keyword of a rule; there are type, const, enum, items, required")
    return ValueRule(tuple(dict.fromkeys(map(str, listed))), values, items, required)


def _flag(members: dict[str, Json], pointer: str) -> bool:
    value = members.pop("required", True)
    if not isinstance(value, bool):
        raise wrong(below(pointer, "required"), f"{shown(value)} is neither true nor false")
    return value


def _mapping(members: dict[str, Json], name: str, pointer: str) -> dict[str, Json]:
    return object_at(members.pop(name, {}), below(pointer, name))


def _list(members: dict[str, Json], name: str, pointer: str) -> tuple[Json, ...] | None:
    if name not in members:
        return None
    value = members.pop(name)
    if not isinstance(value, list):
        raise wrong(below(pointer, name), f"{shown(value)} is not a list")
    return tuple(value)
