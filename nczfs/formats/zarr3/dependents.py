"""Dependent arrays: arrays that another array, the primary, declares in its own attributes.

A declaration is a partial document; what it lacks it inherits from the primary's document, member
by member and without merging within one. The chunks lie beside those of the primary, and
there is no other document. The convention has no version yet; these are the rules of its text of
November 2025 (zarr-conventions, "dependent-arrays") where it is unambiguous. Both spellings of the
key are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from nczfs.errors import BadMetadata
from nczfs.formats.dimensions import DIMENSION_NAMES
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import is_name
from nczfs.formats.zarr3.attributes import attribute_members
from nczfs.formats.zarr3.keyencodings import CHUNK_KEYS
from nczfs.formats.zarr3.names import ZARR_JSON, name_fault
from nczfs.formats.zarr3.nodes import ATTRIBUTES
from nczfs.formats.zarr3.write import array_members
from nczfs.messages import shown
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import ArrayDescription, Attribute, Json, Variable

DECLARATION = "dependent-arrays"
SPELLINGS = (DECLARATION, "dependent_arrays")

LEVELS_MAX = 8
"""A dependent array may declare others, and these again, down to so many levels."""

COUNT_MAX = 1000
"""So many arrays may depend on one primary."""

INHERITED_BYTES_MAX = 32 << 20
"""So much may all of them inherit, as JSON: else a small document could mean very much work."""


@dataclass(slots=True)
class Allowance:
    """What the dependents of one primary may still take, those of lower levels included.

    Attributes
    ----------
    count : of arrays.
    nbytes : that they may inherit, as JSON.
    """

    count: int = COUNT_MAX
    nbytes: int = INHERITED_BYTES_MAX

    def take(self, nbytes: int) -> bool:
        """Take one array. Returns whether there was room for it."""
        if not self.count or nbytes > self.nbytes:
            return False
        self.count -= 1
        self.nbytes -= nbytes
        return True


def declarations(attributes: Mapping[str, Json], where: str) -> Mapping[str, Json]:
    """Return the partial documents of the arrays that attributes declare, by their names.

    Raises
    ------
    BadMetadata : the declaration is no object, or is there in two spellings that differ.
    """
    found = [name for name in SPELLINGS if name in attributes]
    if not found:
        return {}
    value = attributes[found[0]]
    if len(found) > 1 and strict(value) != strict(attributes[found[1]]):
        raise BadMetadata(f"{where}: {' and '.join(SPELLINGS)} differ; no dependent array is read")
    if not isinstance(value, dict):
        raise BadMetadata(f"{where}: {found[0]} is {shown(value)}, not an object")
    return value


def declared_by(attributes: Sequence[Attribute]) -> Mapping[str, Json]:
    """Return what the attributes of an array declare; see `declarations`."""
    values = {each.name: each.value for each in attributes if each.name in SPELLINGS}
    return declarations(cast(dict[str, Json], values), "attributes")


def inherited(members: Mapping[str, Json]) -> dict[str, Json]:
    """Return what arrays inherit from the document of their primary, its attributes apart."""
    return {name: value for name, value in members.items() if name != ATTRIBUTES}


def inherited_attributes(attributes: Mapping[str, Json]) -> dict[str, Json]:
    """Return the attributes of an array without the declaration, which its dependents inherit."""
    return {name: value for name, value in attributes.items() if name not in SPELLINGS}


def resolved(name: str, partial: Json, members: Mapping[str, Json], where: str) -> dict[str, Json]:
    """Return the document of a dependent array; without attributes, if it inherits those.

    Parameters
    ----------
    members : that it inherits; see `inherited`.
    where : the key of the primary's document, for messages.

    Raises
    ------
    BadMetadata : the name cannot be that of a node, or the result is no document of an array with
        dimension names of its rank.
    """
    if (fault := fault_of_name(name)) is not None:
        raise BadMetadata(f"{where}: {shown(name)} cannot be the name of an array: {fault}")
    if not isinstance(partial, dict):
        raise BadMetadata(f"{where}: is {shown(partial)}, not an object")
    document = partial | {each: value for each, value in members.items() if each not in partial}
    if (kind := document.get("node_type")) != "array":
        raise BadMetadata(f"{where}: node_type is {shown(kind)}, not 'array'")
    names, shape = document.get(DIMENSION_NAMES), document.get("shape")
    if isinstance(names, list) and isinstance(shape, list) and len(names) != len(shape):
        raise BadMetadata(
            f"{where}: {DIMENSION_NAMES} has {len(names)} names and shape has {len(shape)} lengths"
        )
    return document


def redeclared(
    attributes: Sequence[Attribute], name: str, partial: Json | None
) -> tuple[Attribute, ...]:
    """Return the attributes of an array that declares another dependent array, or one less.

    The usual spelling of the key replaces the other one, and an empty declaration disappears.

    Parameters
    ----------
    partial : the partial document of the array; None: it is not declared any more.

    Raises
    ------
    BadMetadata : the present declaration cannot be read.
    """
    declared = dict(declared_by(attributes))
    declared.pop(name, None)
    if partial is not None:
        declared[name] = partial
    others = tuple(each for each in attributes if each.name not in SPELLINGS)
    if not declared:
        return others
    return (*others, Attribute(DECLARATION, NcType.JSON, declared))


def partial_document(
    variable: Variable, primary: Variable, given: Collection[str]
) -> dict[str, Json]:
    """Return what an array has to declare to be another one.

    Parameters
    ----------
    variable : as it is to be, with the attributes it is to have.
    given : the members of its document in which it may differ.

    Raises
    ------
    Unsupported : Zarr v3 cannot hold it.
    """
    where = f"/{variable.path}"
    own = array_members(variable.array, variable.dimensions, where)
    own.setdefault(DIMENSION_NAMES, [None] * len(variable.dimensions))
    known = array_members(primary.array, primary.dimensions, where)
    known.setdefault(DIMENSION_NAMES, [None] * len(primary.dimensions))
    attributes = attribute_members(variable)
    if strict(attributes) != strict(inherited_attributes(attribute_members(primary))):
        own[ATTRIBUTES] = attributes
    return {
        name: value
        for name, value in own.items()
        if name in given and (name not in known or strict(value) != strict(known[name]))
    }


def is_described_by(variable: Variable, described: Variable) -> bool:
    """Return whether a description is that of an array, but for its chunk keys."""

    def document(each: Variable) -> str:
        members = array_members(each.array, each.dimensions, f"/{each.path}")
        del members[CHUNK_KEYS]
        return strict({**members, ATTRIBUTES: attribute_members(each)})

    return document(described) == document(variable)


def fault_of_name(name: str) -> str | None:
    """Tell why a dependent array cannot have a name, in a clause about "it"; None: it can."""
    if name == ZARR_JSON:
        return "it is the name of a document"
    if "/" in name:
        return "it contains a slash"
    if not is_name(name) and name.strip("."):
        return "it is no component of a key"
    return name_fault(name)


def check_byte_order(array: ArrayDescription, where: str) -> None:
    """Raise BadMetadata if elements of several bytes have inherited codecs without a byte order."""
    stored = array.dtype.stored
    if stored.itemsize == 1 or stored.byteorder == "|":
        return
    if any(c.name == "bytes" and "endian" not in c.configuration for c in array.codecs.codecs):
        raise BadMetadata(f"{where}: codecs: bytes has no endian, which {stored.name} needs")
