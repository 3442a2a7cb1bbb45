"""The rows of structures, from messages that have them as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from nczfs.buffers import Values
from nczfs.ncstream.headers import data_type
from nczfs.ncstream.messages import DataType, Range, Section, Structure

Fail = Callable[[str], NoReturn]


def rows_of(found: Any, structure: Structure, row: np.dtype[Any], big: bool, fail: Fail) -> Values:
    """Return the rows of a parsed StructureData; strings are tuples of str.

    Parameters
    ----------
    row : as in `Described`.
    big : whether numbers are big-endian.
    """
    count = found.nrows or (1 if found.data else 0)
    if found.rowLength not in (0, row.itemsize):
        fail(f"has rows of {found.rowLength} bytes; its members have {row.itemsize}")
    if len(found.data) != count * row.itemsize:
        fail(f"has {len(found.data)} bytes, not {count} rows of {row.itemsize}")
    if len(found.member):
        fail("has a part of the members, which no program writes")
    rows = np.frombuffer(found.data, row if big else row.newbyteorder("<"))
    if DataType.STRING not in _types(structure):
        return rows
    return _with_strings(rows, structure, _heap(found, fail), fail)


def _types(structure: Structure) -> set[DataType]:
    found = {member.type for member in structure.variables}
    return found.union(*map(_types, structure.structures))


def _heap(found: Any, fail: Fail) -> list[tuple[str, ...]]:
    counts = list(found.heapCount)
    if sum(counts) != len(found.sdata):
        fail(f"has {len(found.sdata)} strings on its heap, not {sum(counts)}")
    strings, at = tuple(found.sdata), 0
    heap = []
    for count in counts:
        heap.append(strings[at : at + count])
        at += count
    return heap


def _with_strings(
    rows: Values, structure: Structure, heap: Sequence[tuple[str, ...]], fail: Fail
) -> Values:
    """Return rows with the strings in place of their indexes."""
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    columns: dict[str, Values] = {}
    for member in structure.members:
        column = rows[member.name]
        if isinstance(member, Structure):
            column = _with_strings(column, member, heap, fail)
        elif member.type is DataType.STRING:
            column = _strings(column, heap, fail)
        columns[member.name] = column
        fields.append((member.name, column.dtype, column.shape[rows.ndim :]))
    made = np.empty(rows.shape, np.dtype(fields))
    for name, column in columns.items():
        made[name] = column
    return made


def _strings(indexes: Values, heap: Sequence[tuple[str, ...]], fail: Fail) -> Values:
    if indexes.size and not 0 <= indexes.min() <= indexes.max() < len(heap):
        fail(f"has an index beyond the {len(heap)} entries of its heap")
    found = np.empty(indexes.shape, object)
    for place, index in np.ndenumerate(indexes):
        found[place] = heap[index]
    return found


def section_of(found: Any) -> tuple[Section, bool]:
    """Return a parsed section, and whether its last dimension is of variable length.

    Raises
    ------
    ValueError : it has more dimensions than any array.
    """
    if len(found.range) > 65:
        raise ValueError(f"has a section of {len(found.range)} dimensions")
    ranges = [Range(r.start, r.size, r.stride or 1) for r in found.range]
    is_ragged = bool(ranges) and ranges[-1].size == _VLEN_SIZE
    return Section(tuple(ranges[:-1] if is_ragged else ranges)), is_ragged


_VLEN_SIZE = (1 << 64) - 1


def is_big(found: Any) -> bool:
    """Return whether the rows and columns of a parsed message are big-endian.

    Absent, the flag was true before version 3 (proto2), and is false since.
    """
    return bool(found.bigend) if found.HasField("bigend") else found.version < 3


def column_values(found: Any, section: Section, big: bool, fail: Fail) -> Values:
    """Return the values of a parsed DataCol, in the shape of a section.

    Those of members are laid out as elements of one dtype; strings are str.
    """
    type_ = _column_type(found, fail)
    if found.isVlen:
        return _ragged_column(found, type_, section, big, fail)
    if found.nelems != section.size:
        fail(f"has {found.nelems} elements; its section has {section.size}")
    match type_:
        case DataType.STRING:
            return _objects(found.stringdata, section, fail)
        case DataType.OPAQUE:
            return _objects(found.opaquedata, section, fail)
        case DataType.STRUCTURE:
            return _members(found, section, big, fail)
        case DataType.SEQUENCE:
            fail("is a sequence, which columns cannot be")
    return _shaped(_numbers(found, type_, section.size, big, fail), section, fail)


def _shaped(values: Values, section: Section, fail: Fail) -> Values:
    try:
        return values.reshape(section.shape)
    except ValueError:  # without elements, but too long in some dimension
        fail(f"has the shape {section.shape}, which no array has")


def _column_type(found: Any, fail: Fail) -> DataType:
    try:
        return data_type(found.dataType, found.name)
    except ValueError as error:
        fail(str(error))


def _numbers(found: Any, type_: DataType, count: int, big: bool, fail: Fail) -> Values:
    dtype = type_.dtype if big else type_.dtype.newbyteorder("<")
    if len(found.primdata) != count * dtype.itemsize:
        fail(f"has {len(found.primdata)} bytes, not {count} elements of type {type_.name}")
    return np.frombuffer(found.primdata, dtype)


def _objects(values: Any, section: Section, fail: Fail) -> Values:
    if len(values) != section.size:
        fail(f"has {len(values)} elements; its section has {section.size}")
    found = np.empty(section.size, object)
    found[:] = list(values)
    return _shaped(found, section, fail)


def _ragged_column(found: Any, type_: DataType, section: Section, big: bool, fail: Fail) -> Values:
    if not type_.is_fixed:
        fail(f"has elements of variable length of type {type_.name}")
    lengths = list(found.vlens)
    if len(lengths) != section.size:
        fail(f"has {len(lengths)} lengths; its section has {section.size} elements")
    total = sum(lengths)
    if total != found.nelems:
        fail(f"has {found.nelems} elements; their lengths are {total} together")
    numbers = _numbers(found, type_, total, big, fail)
    made, at = np.empty(section.size, object), 0
    for place, length in enumerate(lengths):
        made[place] = numbers[at : at + length]
        at += length
    return _shaped(made, section, fail)


def _members(found: Any, section: Section, big: bool, fail: Fail) -> Values:
    rank = len(section.ranges)
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    columns: dict[str, Values] = {}
    for member in found.structdata.memberData:
        if not member.name:
            fail("has a member without a name")
        try:
            inner, _ = section_of(member.section)
        except ValueError as error:
            fail(f"member {member.name} {error}")
        if inner.shape[:rank] != section.shape:
            fail(f"member {member.name} has the shape {inner.shape}, not {section.shape} first")
        column = column_values(member, inner, big, fail)
        fields.append((member.name, column.dtype, column.shape[rank:]))
        columns[member.name] = column
    if not fields:
        fail("has no members")
    try:
        made = np.empty(section.shape, np.dtype(fields))
    except (ValueError, TypeError, MemoryError) as error:
        fail(f"has members that cannot be one element: {error}")
    if not made.dtype.itemsize:
        fail("has elements of 0 bytes")
    for name, column in columns.items():
        made[name] = column
    return made
