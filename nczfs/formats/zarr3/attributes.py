"""The attributes of Zarr v3 nodes, with the conventions that are kept in them."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping

from nczfs.formats.attributes import NAMES_MAX, UNLIMITED, read_attributes
from nczfs.formats.attributes_write import attribute_json
from nczfs.formats.names import is_name
from nczfs.formats.problems import Problems
from nczfs.formats.rewriting import OwnMembers
from nczfs.messages import shown
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension, GroupHeader, Json, Variable

FILL_VALUE = "_FillValue"
_FLOATS = (NcType.FLOAT, NcType.DOUBLE)


def attributes_of(
    values: Mapping[str, Json],
    where: str,
    problems: Problems,
    variable_type: NcType | None = None,
) -> tuple[Attribute, ...]:
    """Return the attributes of a node, without those of the format.

    Parameters
    ----------
    values : the member ``attributes``.
    where : the key of the document, for messages.
    variable_type : as in `attributes.read_attributes`.
    """
    shown_values = dict(values)
    if variable_type in _FLOATS and (number := _of_xarray(values.get(FILL_VALUE))) is not None:
        shown_values[FILL_VALUE] = number
    return read_attributes(
        shown_values,
        {},
        where,
        problems,
        text_type=NcType.STRING,
        variable_type=variable_type,
    )


def unlimited_names(values: Mapping[str, Json], where: str, problems: Problems) -> tuple[str, ...]:
    """Return the names of the unlimited dimensions of a group."""
    names = values.get(UNLIMITED)
    if names is None:
        return ()
    if not isinstance(names, list):
        problems.add(f"{where}: {UNLIMITED} {shown(names)} is not a list of names")
        return ()
    if len(names) > NAMES_MAX:
        problems.add(f"{where}: {UNLIMITED} has {len(names)} names (max {NAMES_MAX}); ignored")
        return ()
    found = tuple(str(name) for name in names if is_name(name))
    if len(found) != len(names):
        problems.add(f"{where}: {UNLIMITED} {shown(names)} has what cannot be names; ignored")
    return tuple(dict.fromkeys(found))


def attribute_members(node: GroupHeader | Variable) -> OwnMembers:
    """Return the member ``attributes`` of a node."""
    members = OwnMembers()
    for attribute in node.attributes:
        members[attribute.name] = attribute_json(attribute, is_typed=False)
        is_fill = isinstance(node, Variable) and attribute.name == FILL_VALUE
        if is_fill and attribute.type in _FLOATS:
            assert isinstance(attribute.value, tuple)
            if len(attribute.value) == 1:
                members[attribute.name] = _for_xarray(attribute.value[0])
    if isinstance(node, GroupHeader):
        names = _unlimited(node.dimensions)
        if names:
            members[UNLIMITED] = names
    return members


def _unlimited(dimensions: tuple[Dimension, ...]) -> list[Json]:
    return [dimension.name for dimension in dimensions if dimension.unlimited]


def _of_xarray(value: Json) -> float | None:
    """Return the float that xarray stores as text; None: it is no such text."""
    if not isinstance(value, str) or len(value) != 12:
        return None
    try:
        number: float = struct.unpack("<d", base64.b64decode(value, validate=True))[0]
    except (binascii.Error, ValueError, struct.error):
        return None
    return number


def _for_xarray(number: object) -> str:
    """Return the text of a float that xarray reads: base64 of the little-endian float64."""
    assert isinstance(number, int | float)
    return base64.b64encode(struct.pack("<d", number)).decode()
