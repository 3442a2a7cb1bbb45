"""The variables that the headers of a stream have described so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from nczfs.model.dtypes import DEFAULT_FILL
from nczfs.ncstream.messages import (
    DataType,
    Group,
    Section,
    Structure,
    Variable,
)
from nczfs.ncstream.names import steps_of, unescaped
from nczfs.ncstream.nctypes import NC_TYPES
from nczfs.plaindata import frozen

Node: TypeAlias = "Variable | Structure"

RANK_MAX = 32 + 32  # of arrays of NumPy
ITEM_BYTES_MAX = 1 << 30


@frozen
class Described:
    """A variable of a stream.

    Attributes
    ----------
    shape : without a dimension of variable length, which is the last one.
    row : dtype of an element of a structure as messages have it, big-endian: strings are indexes of
        the heap; None: it has no members.
    """

    path: str
    node: Node
    shape: tuple[int, ...]
    is_ragged: bool
    row: np.dtype[Any] | None

    @property
    def type(self) -> DataType:
        return self.node.type

    def member(self, name: str) -> Described | None:
        """Return a member of this structure, for all its elements; None: there is none."""
        if self.type is not DataType.STRUCTURE or not isinstance(self.node, Structure):
            return None
        for node in self.node.members:
            if node.name == name:
                inner = _described(f"{self.path}.{name}", node)
                return replace(inner, shape=(*self.shape, *inner.shape))
        return None

    def misfit(self, section: Section) -> str | None:
        """Return what of a section is outside of the variable; None: nothing."""
        if self.type is DataType.SEQUENCE:
            return None
        if len(section.ranges) != len(self.shape):
            return f"has {len(section.ranges)} dimensions, not {len(self.shape)}"
        for d, (part, length) in enumerate(zip(section.ranges, self.shape, strict=True)):
            if part.size and part.start + (part.size - 1) * part.stride >= length:
                return (
                    f"has {part.size} elements from {part.start} on, {part.stride} apart, along "
                    f"dimension {d} of length {length}"
                )
        return None


def described(root: Group) -> Iterator[Described]:
    """Yield the variables of a header.

    Raises
    ------
    ValueError : one cannot be; the message names it.
    """
    waiting = [("", root)]
    while waiting:
        prefix, group = waiting.pop()
        for node in group.nodes:
            if not node.name or "/" in node.name:
                raise ValueError(f"a variable in /{prefix} has the name {node.name!r}")
            yield _described(f"{prefix}{node.name}", node)
        for child in group.groups:
            if not child.name or "/" in child.name:
                raise ValueError(f"a group in /{prefix} has the name {child.name!r}")
            waiting.append((f"{prefix}{child.name}/", child))


def _described(path: str, node: Node) -> Described:
    if len(node.shape) > RANK_MAX:
        raise ValueError(f"/{path} has {len(node.shape)} dimensions, more than {RANK_MAX}")
    if any(d.is_vlen for d in node.shape[:-1]):
        raise ValueError(f"/{path}: a dimension of variable length is not the last one")
    is_ragged = bool(node.shape) and node.shape[-1].is_vlen
    shape = tuple(d.length for d in node.shape[: -1 if is_ragged else None])
    if is_ragged and not node.type.is_fixed:
        if node.type is DataType.SEQUENCE:
            is_ragged = False
        else:
            raise ValueError(f"/{path}: {node.type.name} has a dimension of variable length")
    row = _row(path, node) if isinstance(node, Structure) else None
    if node.type.is_record and row is None:
        raise ValueError(f"/{path} is of type {node.type.name}, but has no members")
    return Described(path, node, shape, is_ragged, row)


def _row(path: str, structure: Structure) -> np.dtype[Any]:
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    for member in structure.members:
        where = f"{path}.{member.name}"
        if not member.name:
            raise ValueError(f"/{path} has a member without a name")
        if any(d.is_vlen for d in member.shape):
            raise ValueError(f"/{where} has a variable length, which no message of rows carries")
        if isinstance(member, Structure):
            base = _row(where, member)
        elif member.type is DataType.STRING:
            base = np.dtype(">i4")
        elif member.type.is_fixed:
            base = member.type.dtype
        else:
            raise ValueError(f"/{where} is of type {member.type.name}")
        shape = tuple(d.length for d in member.shape)
        size = base.itemsize
        for length in shape:
            size *= length
        if size > ITEM_BYTES_MAX or len(shape) > RANK_MAX:
            raise ValueError(f"/{where} has elements of {size} bytes, more than {ITEM_BYTES_MAX}")
        fields.append((member.name, base, shape))
    try:
        found = np.dtype(fields)
    except (ValueError, TypeError) as error:
        raise ValueError(f"/{path}: its members cannot be one element: {error}") from None
    if not 0 < found.itemsize <= ITEM_BYTES_MAX:
        raise ValueError(f"/{path} has elements of {found.itemsize} bytes")
    return found


def fill_value(variable: Variable) -> object:
    """Return what elements hold that no message has: `_FillValue`, or netCDF's default.

    A `_FillValue` of another type counts only if it is an integer of the same size, as in old
    streams, whose types are all signed.
    """
    type_ = variable.type
    for attribute in variable.attributes:
        if attribute.name != "_FillValue" or len(attribute.values) != 1:
            continue
        (value,) = attribute.values
        if type_ is DataType.CHAR and isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")[:1]
        if attribute.type is type_:
            return value
        if has_bytes_of(attribute.type, type_):
            return np.array(value, attribute.type.dtype).view(type_.dtype).item()
    default = NC_TYPES.get(type_)
    return None if default is None else DEFAULT_FILL[default]


def has_bytes_of(one: DataType, other: DataType) -> bool:
    """Return whether elements differ only in their sign or their meaning.

    Messages before version 5 of netcdf-java have no unsigned types.
    """
    dtypes = one.dtype, other.dtype
    return all(d.kind in "iu" for d in dtypes) and dtypes[0].itemsize == dtypes[1].itemsize


class Catalog:
    """What the headers of a stream describe together.

    Attributes
    ----------
    is_empty : whether there was no header.
    """

    def __init__(self) -> None:
        self._found: dict[str, Described] = {}
        self.is_empty = True

    def add(self, root: Group) -> list[Described]:
        """Add a header. Returns its variables.

        Raises
        ------
        ValueError : it cannot be, or changes what an earlier one described.
        """
        self.is_empty = False
        added = list(described(root))
        for each in added:
            known = self._found.setdefault(each.path, each)
            if not _is_same(known, each):
                raise ValueError(f"/{each.path} is not what an earlier header says")
            self._found[each.path] = each
        return added

    def find(self, path: str) -> Described | None:
        """Return the variable of a path."""
        return self._found.get(path)

    def named(self, name: str) -> Described | None:
        """Return the variable, or the member of a structure, that a name in a message means."""
        if (known := self.find(unescaped(name))) is not None:
            return known
        path, *members = steps_of(name)
        found = self.find(path)
        for member in members:
            found = None if found is None else found.member(member)
        return found


def _is_same(one: Described, other: Described) -> bool:
    return (one.type, one.shape, one.is_ragged, one.row) == (
        other.type,
        other.shape,
        other.is_ragged,
        other.row,
    )
