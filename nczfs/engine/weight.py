"""Estimates of memory for a budget: approximate, and never far too low."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from sys import getsizeof
from typing import Any, Final

import numpy as np

from nczfs.model.hierarchy import Group, GroupHeader, Variable

_COUNTED_AT_ONCE: Final = 1 << 16
_NOTHING: Final = object()
_HOLDERS: Final = (list, dict, tuple, np.ndarray)
_NODE_BYTES: Final = 2000  # of a node without attributes and members
_ATTRIBUTE_BYTES: Final = 150
_DIMENSION_BYTES: Final = 200


def weight_of_values(values: np.ndarray[Any, np.dtype[Any]]) -> int:
    """Estimate the memory of an array of values, including its objects and all that they hold."""
    return values.nbytes + weight_held(values)


def weight_held(values: np.ndarray[Any, np.dtype[Any]], shared: object = _NOTHING) -> int:
    """Estimate the memory of the objects that an array refers to, without its own.

    Parameters
    ----------
    shared : an object that many elements refer to, and which does not count.
    """
    if not values.dtype.hasobject:
        return 0
    total = 0
    flat = values.reshape(-1)
    for start in range(0, flat.size, _COUNTED_AT_ONCE):
        objects = flat[start : start + _COUNTED_AT_ONCE].tolist()
        total += weight_of_objects(each for each in objects if each is not shared)
    return total


def weight_of_objects(objects: Iterable[object]) -> int:
    """Estimate the memory of JSON objects, texts and arrays, and of all that they hold."""
    total = 0
    waiting: list[Iterable[object]] = [objects]
    while waiting:
        items = list(waiting.pop())
        total += sum(map(getsizeof, items))
        for item in items:
            if not isinstance(item, _HOLDERS):
                continue
            if isinstance(item, np.ndarray):
                total += 0 if item.base is None else item.nbytes
            elif isinstance(item, dict):
                waiting += [item.keys(), item.values()]
            else:
                waiting.append(item)
    return total


def weight_of_group(group: Group) -> int:
    """Estimate the memory of a group and of everything below it, as `weight_of_node` does."""
    own = weight_of_node(group.header) + sum(map(weight_of_node, group.variables))
    return own + sum(map(weight_of_group, group.groups))


def weight_of_node(node: GroupHeader | Variable) -> int:
    """Estimate the memory of a node with its attributes, dimensions and names of members.

    Attributes that dependent arrays have inherited count once.
    """
    weight = _weight_alone(node)
    waiting = list(node.dependents) if isinstance(node, Variable) else []
    known = {id(node.attributes)}
    while waiting:
        each = waiting.pop()
        is_shared = id(each.attributes) in known
        known.add(id(each.attributes))
        weight += _weight_alone(replace(each, attributes=()) if is_shared else each)
        waiting += each.dependents
    return weight


def _weight_alone(node: GroupHeader | Variable) -> int:
    attributes = [value for each in node.attributes for value in (each.name, each.value)]
    held: list[object] = [*attributes, *node.problems, *node.omissions]
    if isinstance(node, Variable):
        held += [dict(codec.configuration) for codec in node.array.codecs.codecs]
        held += [node.array.fill_value, node.array.dtype.typestr]
    # Names of members hold nothing; counted apart, since each new member is a reason to count them.
    names = () if isinstance(node, Variable) else (*(node.arrays or ()), *(node.groups or ()))
    return (
        _NODE_BYTES
        + sum(map(getsizeof, names))
        + _ATTRIBUTE_BYTES * len(node.attributes)
        + _DIMENSION_BYTES * len(node.dimensions)
        + weight_of_objects(held)
    )
