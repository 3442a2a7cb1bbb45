"""The attributes of groups and variables in netCDF files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nczfs.engine.values.convert import fill_attribute
from nczfs.engine.values.fillvalues import (
    FILL_VALUE,
    as_fill_value,
    attributes_with_fill,
    marks_missing,
)
from nczfs.engine.weight import weight_of_objects
from nczfs.errors import BadValue
from nczfs.formats.attributes import untyped
from nczfs.formats.jsontext import compact
from nczfs.messages import shown
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute, Variable
from nczfs.model.printing import encoded
from nczfs.model.smallnumbers import number_kind
from nczfs.tools.transfer.netcdf_kinds import HDF5_ATTRIBUTES
from nczfs.views.netcdf.kinds import FileFormat
from nczfs.views.netcdf.names import ORIGINAL_NAME, UniqueNames
from nczfs.views.netcdf.types import ENCODING, ShownType

OMITTED = "nczfs_omitted"
"""The global attribute that names what a file cannot hold."""

ATTRIBUTE_BYTES_MAX = 1 << 20
"""Of memory, for a value: headers are made as a whole."""

OMITTED_BYTES_MAX = 32_000
"""Attributes in HDF5's object headers have up to 64 KiB."""

_NOT_A_TIME = -(2**63)

Omit = Callable[[str], None]
"""Takes a clause about what is left out of the attributes."""


def group_attributes(
    attributes: Sequence[Attribute], kind: FileFormat, omit: Omit, *, original: str | None = None
) -> tuple[Attribute, ...]:
    """Return the attributes of a group.

    Parameters
    ----------
    original : its name in the dataset, if that in the file is different.
    """
    ours = () if original is None else (_text(ORIGINAL_NAME, original),)
    return _fitted(attributes, ours, kind, omit)


def variable_attributes(
    variable: Variable,
    type_: ShownType,
    kind: FileFormat,
    omit: Omit,
    *,
    original: str | None = None,
) -> tuple[Attribute, ...]:
    """Return the attributes of a variable, whose `_FillValue` has its type."""
    found = list(attributes_with_fill(variable))
    own = next((a for a in variable.attributes if a.name == FILL_VALUE), None)
    place = next((at for at, a in enumerate(found) if a.name == FILL_VALUE), None)
    fill = _fill_value(variable, type_, own, None if place is None else found[place])
    if own is not None and fill is None and own.value not in ("", ("",)):  # which NULs say, too
        omit(f"attribute {FILL_VALUE}: is not one value of the variable's type")
    found = [a for a in found if a.name != FILL_VALUE]
    if fill is not None:
        found.insert(place or 0, fill)
    known = {a.name for a in variable.attributes}
    is_encoded = any(a.name == ENCODING for a in type_.added)
    is_bytes = variable.array.dtype.stored.kind == "S"
    if is_encoded and not is_bytes:
        found = [a for a in found if a.name != ENCODING]
        known.discard(ENCODING)
    ours = () if any(a.name in known for a in type_.added) else type_.added
    if original is not None:
        ours = (*ours, _text(ORIGINAL_NAME, original))
    return _fitted(found, ours, kind, omit)


def omitted_attribute(lines: Sequence[str]) -> Attribute:
    """Return the attribute that names what was left out, cut at `OMITTED_BYTES_MAX`."""
    kept: list[str] = []
    room = OMITTED_BYTES_MAX
    for line in lines:
        room -= len(encoded(line)) + 1
        if room < 0:
            kept.append(f"and {len(lines) - len(kept)} more")
            break
        kept.append(line)
    return _text(OMITTED, "\n".join(kept))


def _fitted(
    attributes: Sequence[Attribute], ours: Sequence[Attribute], kind: FileFormat, omit: Omit
) -> tuple[Attribute, ...]:
    """Return attributes as files of a kind have them, and our own, whose names are ours."""
    our_names = {attribute.name for attribute in ours}
    names = UniqueNames(our_names)
    found: list[Attribute] = []
    for attribute in attributes:
        if attribute.name in our_names:
            continue
        if kind.has_groups and attribute.name in HDF5_ATTRIBUTES:
            omit(f"attribute {shown(attribute.name)}: netCDF reserves it")
            continue
        if weight_of_objects([attribute.value]) > ATTRIBUTE_BYTES_MAX:
            omit(f"attribute {shown(attribute.name)}: takes more than {ATTRIBUTE_BYTES_MAX} bytes")
            continue
        if kind.has_strings and _has_nul(attribute):
            omit(f"attribute {shown(attribute.name)}: its strings contain NUL")
            continue
        if len(found) + len(ours) >= kind.attributes_max:
            omit(f"attribute {shown(attribute.name)} and those after it: are too many")
            break
        found.append(replace(_in_kind(attribute, kind), name=names.given(attribute.name)))
    return (*found, *ours)


def _has_nul(attribute: Attribute) -> bool:
    """Return whether strings have NUL, with which they end in HDF5."""
    if attribute.type is not NcType.STRING:
        return False
    assert isinstance(attribute.value, tuple)
    return any("\0" in str(text) for text in attribute.value)


def _in_kind(attribute: Attribute, kind: FileFormat) -> Attribute:
    value = attribute.value
    if attribute.type is NcType.JSON:
        assert not isinstance(value, tuple)
        return _text(attribute.name, compact(value))  # as netcdf-c shows it
    if attribute.type is NcType.STRING and not kind.has_strings:
        assert isinstance(value, tuple)
        return _text(attribute.name, "\n".join(map(str, value)))
    return attribute


def _fill_value(
    variable: Variable, type_: ShownType, own: Attribute | None, derived: Attribute | None
) -> Attribute | None:
    """Return the `_FillValue`: the variable's own, or the fill value of its array; or None.

    Parameters
    ----------
    derived : as `attributes_with_fill` has it.
    """
    element = type_.type
    if not isinstance(element, NcType) or type_.width is not None or type_.is_ragged:
        return None
    if element is NcType.CHAR and type_.cell is None:
        return None
    if own is not None and (found := _as_fill(own, element)) is not None:
        return found
    array = variable.array
    kind = number_kind(array.dtype.stored)
    if kind in "mM":
        return Attribute(FILL_VALUE, element, (_NOT_A_TIME,))
    if array.fill_value is None or (own is None and not marks_missing(array)):
        return None
    if kind in "iuf" and element is not array.dtype.nc_type:  # float16, or of ml_dtypes
        number = np.asarray(array.fill_value).astype(float).item()
        return Attribute(FILL_VALUE, element, (number if kind == "f" else int(number),))
    if own is None:
        return None if derived is None else _as_fill(derived, element)
    try:
        stated = fill_attribute(array.fill_value, array.dtype, variable.path)
    except BadValue:
        return None
    return None if stated is None else _as_fill(stated, element)


def _as_fill(attribute: Attribute, element: NcType) -> Attribute | None:
    if attribute.type in (NcType.CHAR, NcType.JSON) and element in CODE_OF_NC_TYPE:
        assert not isinstance(attribute.value, tuple)
        attribute = untyped(FILL_VALUE, attribute.value, element)
        if attribute.type in (NcType.CHAR, NcType.JSON):
            return None
    try:
        found = as_fill_value(attribute, element)
    except BadValue:
        return None
    if element is NcType.CHAR:
        assert isinstance(found.value, str)
        return found if len(encoded(found.value)) == 1 else None
    return found


def _text(name: str, value: str) -> Attribute:
    return Attribute(name, NcType.CHAR, value)
