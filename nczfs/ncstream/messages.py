"""What the messages of an ncstream say, as plain data."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.plaindata import frozen


class DataType(IntEnum):
    """The types of elements, by their numbers in messages."""

    CHAR = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    STRUCTURE = 8
    SEQUENCE = 9
    ENUM1 = 10
    ENUM2 = 11
    ENUM4 = 12
    OPAQUE = 13
    UBYTE = 14
    USHORT = 15
    UINT = 16
    ULONG = 17

    @property
    def dtype(self) -> np.dtype[Any]:
        """The big-endian dtype of a number or character; object for anything else."""
        code = _CODES.get(self)
        return np.dtype(object) if code is None else np.dtype(f">{code}")

    @property
    def is_fixed(self) -> bool:
        """Whether every element is the same number of bytes: a number or a character."""
        return self in _CODES

    @property
    def is_record(self) -> bool:
        """Whether elements have members."""
        return self in (DataType.STRUCTURE, DataType.SEQUENCE)


_CODES = {
    DataType.CHAR: "S1",
    DataType.BYTE: "i1",
    DataType.SHORT: "i2",
    DataType.INT: "i4",
    DataType.LONG: "i8",
    DataType.FLOAT: "f4",
    DataType.DOUBLE: "f8",
    DataType.ENUM1: "u1",
    DataType.ENUM2: "u2",
    DataType.ENUM4: "u4",
    DataType.UBYTE: "u1",
    DataType.USHORT: "u2",
    DataType.UINT: "u4",
    DataType.ULONG: "u8",
}
UNSIGNED = {
    DataType.BYTE: DataType.UBYTE,
    DataType.SHORT: DataType.USHORT,
    DataType.INT: DataType.UINT,
    DataType.LONG: DataType.ULONG,
}
"""What signed types mean where something else says that they are unsigned."""

AttributeValues: TypeAlias = "tuple[str, ...] | tuple[int, ...] | tuple[float, ...]"


@frozen
class Dimension:
    """A dimension, of a group or as part of a shape.

    Attributes
    ----------
    is_vlen : whether each element has its own length; `length` is 0 then.
    is_private : whether no group defines it; it may lack a name then.
    """

    name: str
    length: int
    is_unlimited: bool = False
    is_vlen: bool = False
    is_private: bool = False


@frozen
class Attribute:
    """A named value. `values` is () if there is none; strings if `type` is STRING."""

    name: str
    type: DataType
    values: AttributeValues


@frozen
class Variable:
    """A variable, or a member of a structure.

    Attributes
    ----------
    data : all its values, if the header has them; big-endian, in C order.
    """

    name: str
    type: DataType
    shape: tuple[Dimension, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    enum_type: str = ""
    data: bytes | None = None


@frozen
class Structure:
    """A variable whose elements have members: first `variables`, then `structures`."""

    name: str
    type: DataType
    shape: tuple[Dimension, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    variables: tuple[Variable, ...] = ()
    structures: tuple[Structure, ...] = ()

    @property
    def members(self) -> tuple[Variable | Structure, ...]:
        """All members, in the order of their bytes."""
        return (*self.variables, *self.structures)


@frozen
class EnumType:
    """An enumeration: its codes and their names."""

    name: str
    members: tuple[tuple[int, str], ...]


@frozen
class Group:
    """A group. `name` is "" for the root."""

    name: str = ""
    dimensions: tuple[Dimension, ...] = ()
    variables: tuple[Variable, ...] = ()
    structures: tuple[Structure, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    groups: tuple[Group, ...] = ()
    enum_types: tuple[EnumType, ...] = ()

    @property
    def nodes(self) -> tuple[Variable | Structure, ...]:
        """All variables."""
        return (*self.variables, *self.structures)


@frozen
class Header:
    """What a stream describes; a later one adds to it."""

    root: Group = field(default_factory=Group)
    location: str = ""
    title: str = ""
    id: str = ""


@frozen
class Range:
    """Indexes along a dimension: `size` of them, from `start` on, `stride` apart."""

    start: int
    size: int
    stride: int = 1


@frozen
class Section:
    """The elements that a message has; no ranges: a scalar."""

    ranges: tuple[Range, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each dimension."""
        return tuple(each.size for each in self.ranges)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def part(self, start: tuple[int, ...], shape: tuple[int, ...]) -> Section:
        """Return a box of these elements, counted from the first one."""
        parts = zip(self.ranges, start, shape, strict=True)
        return Section(tuple(Range(r.start + a * r.stride, n, r.stride) for r, a, n in parts))


def whole_section(shape: tuple[int, ...]) -> Section:
    """Return the section of all elements of an array."""
    return Section(tuple(Range(0, size) for size in shape))


@frozen
class StreamError:
    """The last message of a stream that could not go on."""

    message: str
    code: int = 0
