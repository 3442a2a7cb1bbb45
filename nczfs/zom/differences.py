"""What differs between two hierarchies: JSON pointers, with values."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nczfs.errors import BadMetadata, UsageError
from nczfs.formats.zom.array3 import usual_fill
from nczfs.formats.zom.nodes import (
    FIELDS,
    ArrayV3,
    GroupV2,
    GroupV3,
    Node,
    walk,
    with_members,
)
from nczfs.formats.zom.pointers import below, parts_of
from nczfs.formats.zom.reading import checked, read
from nczfs.formats.zom.writing import json_of
from nczfs.messages import shown
from nczfs.model.hierarchy import Json


@dataclass(frozen=True, slots=True)
class Change:
    """A place where two hierarchies differ.

    Attributes
    ----------
    pointer : a JSON pointer.
    old, new : what is there; None on the side that has nothing.
    """

    pointer: str
    old: Json = None
    new: Json = None


@dataclass(frozen=True, slots=True)
class Difference:
    """All places where two hierarchies differ; false if there are none."""

    changed: tuple[Change, ...] = ()
    removed: tuple[Change, ...] = ()
    added: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed or self.added)

    def pointers(self) -> dict[str, list[str]]:
        """Return the JSON pointers by the kind of change."""
        return {
            "changed": [each.pointer for each in self.changed],
            "removed": [each.pointer for each in self.removed],
            "added": [each.pointer for each in self.added],
        }

    def patch(self) -> list[dict[str, Json]]:
        """Return the JSON Patch (RFC 6902) that makes the second hierarchy of the first."""
        steps: list[dict[str, Json]] = []
        for name, changes in (
            ("replace", self.changed),
            ("remove", self.removed),
            ("add", self.added),
        ):
            for each in changes:
                value: dict[str, Json] = {} if name == "remove" else {"value": each.new}
                steps.append({"op": name, "path": each.pointer, **value})
        return steps


@dataclass(frozen=True, slots=True)
class Fields:
    """Which members of nodes are compared. Those of groups called ``members`` always lead on.

    Attributes
    ----------
    include : only these; None: all.
    exclude : not these.
    """

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Return whether a member is compared."""
        if name in self.exclude:
            return False
        return self.include is None or name == "members" or name in self.include


def diff(
    a: Node,
    b: Node,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
) -> Difference:
    """Return what differs between two hierarchies, in their normal form.

    The order of members does not count, and neither does the form of a number (1 is 1.0). A list of
    another length, and an array in place of a group, is one change.

    Parameters
    ----------
    include : the names of the members of nodes to compare, such as ``attributes``; None: all.
    exclude : names that are not compared.

    Raises
    ------
    UsageError : one of the names is that of no member.
    """
    return _difference(checked(a), checked(b), include, exclude)


def like(
    a: Node,
    b: Node,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
) -> bool:
    """Return whether two hierarchies mean the same; see `diff`.

    Fill values are compared by value: ``"NaN"`` is like ``"0x7fc00000"``.
    """
    return not _difference(_usual(checked(a)), _usual(checked(b)), include, exclude)


def applied(node: Node, difference: Difference) -> Node:
    """Return a hierarchy with the changes that lead to another one.

    Raises
    ------
    BadMetadata : a change does not fit it, or makes it wrong.
    """
    found: Any = copy.deepcopy(json_of(node))
    for each in (*difference.changed, *difference.added):
        found = _put(found, each.pointer, copy.deepcopy(each.new))
    for each in difference.removed:
        *path, last = parts_of(each.pointer)
        above = _at(found, path, each.pointer)
        if not isinstance(above, dict) or last not in above:
            raise _unfit(each.pointer)
        del above[last]
    return read(found)


def _difference(
    a: Node, b: Node, include: Collection[str] | None, exclude: Collection[str]
) -> Difference:
    """Return what differs between two hierarchies in normal form; see `diff`."""
    comparison = _Comparison(_fields((a, b), include, exclude))
    comparison.nodes(json_of(a), json_of(b), "")
    found = comparison.changed, comparison.removed, comparison.added
    return Difference(*map(tuple, found))


@dataclass
class _Comparison:
    """A comparison of the normal forms of two hierarchies."""

    fields: Fields
    changed: list[Change] = field(default_factory=list)
    removed: list[Change] = field(default_factory=list)
    added: list[Change] = field(default_factory=list)

    def nodes(self, a: dict[str, Json], b: dict[str, Json], pointer: str) -> None:
        if ("shape" in a) != ("shape" in b):
            self.changed.append(Change(pointer, a, b))
            return
        self._objects(self._compared(a), self._compared(b), pointer, is_node=True)

    def _compared(self, node: dict[str, Json]) -> dict[str, Json]:
        return {name: value for name, value in node.items() if self.fields.has(name)}

    def _objects(
        self,
        a: Mapping[str, Json],
        b: Mapping[str, Json],
        pointer: str,
        *,
        is_node: bool = False,
        has_nodes: bool = False,
    ) -> None:
        for name, old in a.items():
            place = below(pointer, name)
            if name not in b:
                self.removed.append(Change(place, old))
                continue
            new = b[name]
            if isinstance(old, dict) and isinstance(new, dict):
                if has_nodes:
                    self.nodes(old, new, place)
                else:
                    is_members = is_node and name == "members"
                    self._objects(old, new, place, has_nodes=is_members)
            else:
                self._values(old, new, place)
        for name, new in b.items():
            if name not in a:
                self.added.append(Change(below(pointer, name), None, new))

    def _values(self, old: Json, new: Json, pointer: str) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            self._objects(old, new, pointer)
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for place, (x, y) in enumerate(zip(old, new, strict=True)):
                self._values(x, y, f"{pointer}/{place}")
        elif isinstance(old, bool) is not isinstance(new, bool) or old != new:
            self.changed.append(Change(pointer, old, new))


def _fields(
    nodes: Iterable[Node], include: Collection[str] | None, exclude: Collection[str]
) -> Fields:
    wanted = frozenset(include or ()) | frozenset(exclude)
    unknown = wanted - FIELDS
    if unknown:
        unknown -= {name for node in nodes for _, each in walk(node) for name in each.others}
    if unknown:
        names = ", ".join(sorted(FIELDS))
        raise UsageError(f"no member of a node is called {shown(min(unknown))}; there are {names}")
    return Fields(None if include is None else frozenset(include), frozenset(exclude))


def _usual(node: Node) -> Node:
    """Return a hierarchy with its fill values in their usual spelling."""
    if isinstance(node, ArrayV3):
        return replace(node, fill_value=usual_fill(node))
    if isinstance(node, GroupV2 | GroupV3) and node.members is not None:
        return with_members(node, {name: _usual(each) for name, each in node.members.items()})
    return node


def _put(whole: Any, pointer: str, value: Json) -> Any:
    """Return a document with a value at a place, whose surroundings are there."""
    if not pointer:
        return value
    *path, last = parts_of(pointer)
    above = _at(whole, path, pointer)
    if isinstance(above, list):
        above[_index(above, last, pointer)] = value
    elif isinstance(above, dict):
        above[last] = value
    else:
        raise _unfit(pointer)
    return whole


def _at(whole: Any, path: list[str], pointer: str) -> Any:
    for name in path:
        if isinstance(whole, list):
            whole = whole[_index(whole, name, pointer)]
        elif isinstance(whole, dict) and name in whole:
            whole = whole[name]
        else:
            raise _unfit(pointer)
    return whole


def _index(items: list[Json], name: str, pointer: str) -> int:
    if not name.isdecimal() or int(name) >= len(items):
        raise _unfit(pointer)
    return int(name)


def _unfit(pointer: str) -> BadMetadata:
    return BadMetadata(f"{pointer}: the hierarchy has no such place", pointer)
