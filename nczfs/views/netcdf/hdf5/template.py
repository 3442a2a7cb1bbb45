"""The template of a netCDF-4 file: all of it except values that come from arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import NamedTuple, TypeAlias

from nczfs.model.hierarchy import Attribute
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
    Texts,
)

_FORM = 1
"""Of the bytes that `building` makes; a number that changes with them."""

_BLOCK_BYTES = 64 << 10


class Place(NamedTuple):
    """Consecutive bytes of the file."""

    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
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
    runs: tuple[Place, ...]
    literals: tuple[Place, ...]
    data: bytes | LiteralFile
    begin: int = 0

    @property
    def literal_bytes(self) -> int:
        """The bytes of all literals."""
        return sum(place.nbytes for place in self.literals)


def digest_of(content: FileContent) -> str:
    """Return a name for the template of a content: 64 hexadecimal digits.

    Two contents have the same one if their files differ at most in values that come from arrays.
    The library that writes the file is a part of it, so that a stored template never differs from
    one that would be built now.
    """
    digest = sha256(f"{_FORM} {version('h5py')}\n".encode())
    for group in content.groups():
        digest.update(repr(_group_facts(group)).encode())
        for variable in group.variables:
            digest.update(repr(_variable_facts(variable)).encode())
    return digest.hexdigest()


def metadata_bytes(content: FileContent) -> int:
    """Return about how many bytes describe the members of the file.

    A block of this size is at its front, so that a program reads them in few requests.
    """
    size = 16 << 10
    for group in content.groups():
        size += 2048 + 1024 * len(group.dimensions) + _attribute_bytes(group.attributes)
        for variable in group.variables:
            size += 1024 + 96 * len(variable.dimensions) + _attribute_bytes(variable.attributes)
            size += 4096 if len(variable.attributes) > 4 else 0  # an index of them
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def text_bytes(content: FileContent) -> int:
    """Return about how many bytes of the file the values of strings take."""
    variables = (v.values for v in content.variables() if isinstance(v.values, Texts))
    return sum(64 + 4 * len(text) for texts in variables for text in texts.values)


def _attribute_bytes(attributes: tuple[Attribute, ...]) -> int:
    values = (a.value for a in attributes)
    sizes = (8 * len(value) if isinstance(value, str | tuple) else 0 for value in values)
    return sum(sizes) + sum(128 + len(attribute.name) for attribute in attributes)


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


def gaps(places: tuple[Place, ...], size: int) -> Iterator[Place]:
    """Yield the bytes of [0, size) outside of some places.

    Parameters
    ----------
    places : ascending.

    Raises
    ------
    ValueError : two of them overlap, or one does not lie in the file.
    """
    at = 0
    for offset, nbytes in (*places, Place(size, 0)):
        if offset < at or nbytes < 0:
            raise ValueError(f"{nbytes} bytes at {offset} overlap what ends at {at}")
        if offset > at:
            yield Place(at, offset - at)
        at = offset + nbytes
