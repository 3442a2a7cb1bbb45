"""The template of a netCDF-4 file: all of it except values that come from arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import NamedTuple, TypeAlias

from nczfs.plaindata import frozen
from nczfs.views.literalfile import LiteralFile
from nczfs.views.netcdf.content import (
    Compound,
    Elements,
    FileContent,
    FileDimension,
    FileGroup,
    FileType,
    FileVariable,
    Opaque,
)

_FORM = 2
"""Of the bytes that `building` makes; a number that changes with them."""


class FileExtent(NamedTuple):
    """Consecutive bytes of the file."""

    offset: int
    nbytes: int


@frozen
class Template:
    """All bytes of a netCDF-4 file except values that come from arrays.

    Attributes
    ----------
    size : of the file, in bytes.
    runs : where the values of each variable with `Elements` lie, in the order of
        ``FileContent.variables()``; without bytes for a variable without elements.
    literals : places of the other bytes, ascending; zeros lie between them.
    data : the bytes of `literals`, one after the other, from `begin` on if it is a file.
    """

    size: int
    runs: tuple[FileExtent, ...]
    literals: tuple[FileExtent, ...]
    data: bytes | LiteralFile
    begin: int = 0

    @property
    def literal_bytes(self) -> int:
        """The bytes of all literals."""
        return sum(place.nbytes for place in self.literals)


@cache
def _h5py_version() -> str:
    return version("h5py")  # reads and parses a file


def digest_of(content: FileContent) -> str:
    """Return a name for the template of a content: 64 hexadecimal digits.

    Two contents have the same one if their files differ at most in values that come from arrays.
    The library that writes the file is a part of it, so that a stored template never differs from
    one that would be built now.
    """
    digest = sha256(f"{_FORM} {_h5py_version()}\n".encode())
    for group in content.groups():
        digest.update(repr(_group_facts(group)).encode())
        for variable in group.variables:
            digest.update(repr(_variable_facts(variable)).encode())
    return digest.hexdigest()


_Facts: TypeAlias = "tuple[object, ...]"


def _group_facts(group: FileGroup) -> _Facts:
    dimensions = tuple(_dimension_facts(dimension) for dimension in group.dimensions)
    attributes = tuple((a.name, a.type.value, a.value) for a in group.attributes)
    return (group.path, dimensions, attributes, len(group.variables))


def _variable_facts(variable: FileVariable) -> _Facts:
    dimensions = tuple(_dimension_facts(dimension) for dimension in variable.dimensions)
    attributes = tuple((a.name, a.type.value, a.value) for a in variable.attributes)
    match variable.values:
        case Elements():
            values: object = None
        case texts:
            values = texts.values
    return (variable.name, _type_facts(variable.type), dimensions, attributes, values)


def _dimension_facts(dimension: FileDimension) -> _Facts:
    return (dimension.group, dimension.name, dimension.size, dimension.unlimited)


def _type_facts(type_: FileType) -> _Facts:
    match type_:
        case Compound():
            return ("compound", type_.name, type_.dtype.descr)
        case Opaque():
            return ("opaque", type_.name, type_.size)
        case _:
            return (type_.value,)


def gaps(places: tuple[FileExtent, ...], size: int) -> Iterator[FileExtent]:
    """Yield the bytes of [0, size) outside of some places.

    Parameters
    ----------
    places : ascending.

    Raises
    ------
    ValueError : two of them overlap, or one does not lie in the file.
    """
    at = 0
    for offset, nbytes in (*places, FileExtent(size, 0)):
        if offset < at or nbytes < 0:
            raise ValueError(f"{nbytes} bytes at {offset} overlap what ends at {at}")
        if offset > at:
            yield FileExtent(at, offset - at)
        at = offset + nbytes
