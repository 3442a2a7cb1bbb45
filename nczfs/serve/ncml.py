"""The structure of a group as NcML, netcdf-java's XML."""

from __future__ import annotations

import math
import re
from typing import Final
from xml.etree import ElementTree as ET

from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.ncstream.names import java_path
from nczfs.views.netcdf.content import (
    Compound,
    FileContent,
    FileDimension,
    FileGroup,
    FileVariable,
    Opaque,
)

NAMESPACE: Final = "http://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2"

_TYPES: Final = {
    NcType.STRING: "String",
    NcType.INT64: "long",
    NcType.UINT64: "ulong",
}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SEPARATORS: Final = "|;,~^\u2016\u00a6"


def ncml(content: FileContent, location: str) -> bytes:
    """Return a content as an NcML document in UTF-8, without values of variables.

    Characters that XML does not have are replaced.

    Parameters
    ----------
    location : the URL of the dataset.
    """
    root = ET.Element("netcdf", xmlns=NAMESPACE, location=_text(location))
    _add_group(root, content.root)
    ET.indent(root)
    document: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return document + b"\n"


def _add_group(element: ET.Element, group: FileGroup) -> None:
    for dimension in group.dimensions:
        _add_dimension(element, dimension)
    for attribute in group.attributes:
        _add_attribute(element, attribute)
    for variable in group.variables:
        _add_variable(element, variable)
    for child in group.groups:
        _add_group(ET.SubElement(element, "group", name=_name(child.name)), child)


def _add_dimension(element: ET.Element, dimension: FileDimension) -> None:
    added = ET.SubElement(
        element, "dimension", name=_name(dimension.name), length=str(dimension.size)
    )
    if dimension.unlimited:
        added.set("isUnlimited", "true")


def _add_variable(element: ET.Element, variable: FileVariable) -> None:
    names = [_name(dimension.name) for dimension in variable.dimensions]
    if variable.is_ragged:
        names.append("*")
    shape = " ".join(names)
    added = ET.SubElement(
        element, "variable", name=_name(variable.name), shape=shape, type=_type(variable)
    )
    for attribute in variable.attributes:
        _add_attribute(added, attribute)


def _type(variable: FileVariable) -> str:
    match variable.type:
        case Compound():
            return "Structure"
        case Opaque():
            return "opaque"
        case nc_type:
            return _TYPES.get(nc_type, nc_type.value)


def _add_attribute(element: ET.Element, attribute: Attribute) -> None:
    added = ET.SubElement(element, "attribute", name=_text(attribute.name))
    value = attribute.value
    if attribute.type is NcType.CHAR:
        added.set("value", _text(str(value)))
        return
    assert isinstance(value, tuple)
    added.set("type", _TYPES.get(attribute.type, attribute.type.value))
    words = [_word(each) for each in value]
    if attribute.type is NcType.STRING and len(words) > 1:
        together = "".join(words)
        separator = next((each for each in _SEPARATORS if each not in together), "\u241f")
        added.set("separator", separator)
        added.set("value", separator.join(words))
    else:
        added.set("value", " ".join(words))


def _word(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"  # Java's
    return _text(str(value))


def _name(name: str) -> str:
    """Return the name that netcdf-java has for what this one names in a header."""
    return _text(java_path(name))


def _text(string: str) -> str:
    return _NOT_XML.sub("\ufffd", string)
