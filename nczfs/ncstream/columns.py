"""Data messages whose values are in columns (DATA2), as servers of netcdf-java 5 send them.

Such a message has its length before it and is read as a whole, but need not be in memory when it is
written: its numbers stand in it as they are. They are little-endian, and the message says so, as
those servers send them: siphon takes no other order for structures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.data import VERSION
from nczfs.ncstream.framing import DATA2, vint
from nczfs.ncstream.messages import DataType, Range, Section
from nczfs.ncstream.names import text

Members: TypeAlias = "Mapping[str, tuple[DataType, tuple[int, ...]]]"
"""The members of structures: their types, numbers or characters, and their shapes."""

_PRIMDATA: Final = b"\x52"  # DataCol.primdata
_STRUCTDATA: Final = b"\x72"  # DataCol.structdata
_MEMBER: Final = b"\x0a"  # ArrayStructureCol.memberData


def structure_heads(name: str, section: Section, members: Members) -> Iterator[bytes]:
    """Yield what stands before the numbers of each member, of all elements, of structures.

    Parameters
    ----------
    name : as of `full_name`.
    """
    parts = [_member(each, section, *members[each]) for each in members]
    sizes = [len(head) + nbytes for head, nbytes in parts]
    body = sum(len(_MEMBER) + len(vint(size)) + size for size in sizes)
    outer = _column(name, DataType.STRUCTURE, section, section.size)
    before = outer.SerializeToString() + _STRUCTDATA + vint(body)
    start = DATA2 + vint(len(before) + body) + before
    for (head, _), size in zip(parts, sizes, strict=True):
        yield start + _MEMBER + vint(size) + head
        start = b""


def ragged_head(name: str, type_: DataType, section: Section, lengths: Sequence[int]) -> bytes:
    """Return what stands before the numbers of elements that are one-dimensional arrays.

    Parameters
    ----------
    section : of the elements, without the dimension of variable length.
    lengths : of the elements, in numbers.
    """
    found = _column(name, type_, section, sum(lengths))
    found.isVlen = True
    found.vlens.extend(lengths)
    nbytes = sum(lengths) * type_.dtype.itemsize
    before: bytes = found.SerializeToString() + _PRIMDATA + vint(nbytes)
    return DATA2 + vint(len(before) + nbytes) + before


def _member(
    name: str, section: Section, type_: DataType, shape: tuple[int, ...]
) -> tuple[bytes, int]:
    """Return what stands before the numbers of a member, and their bytes."""
    whole = Section((*section.ranges, *(Range(0, size) for size in shape)))
    nbytes = whole.size * type_.dtype.itemsize
    found = _column(name, type_, whole, whole.size)
    return found.SerializeToString() + _PRIMDATA + vint(nbytes), nbytes


def _column(name: str, type_: DataType, section: Section, count: int) -> Any:
    found: Any = pb.DataCol(
        name=text(name), dataType=int(type_), bigend=False, version=VERSION, nelems=count
    )
    found.section.SetInParent()
    for each in section.ranges:
        found.section.range.add(start=each.start, size=each.size, stride=each.stride)
    return found
