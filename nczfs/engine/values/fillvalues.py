"""The attribute `_FillValue`: netCDF wants one value, of the type of its variable."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.values.convert import retyped
from nczfs.errors import BadValue
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute

FILL_VALUE = "_FillValue"
_TEXTS = (NcType.CHAR, NcType.STRING)


def is_fill_value(attribute: Attribute, element: object) -> bool:
    """Return whether an attribute is one value of a type; netCDF-3 allows any `_FillValue`."""
    value = attribute.value
    return attribute.type is element and isinstance(value, str | tuple) and len(value) == 1


def as_fill_value(attribute: Attribute, element: NcType) -> Attribute:
    """Convert an attribute to one value of a variable's type; floats are rounded to its precision.

    Raises
    ------
    BadValue : it is not such a value, and converting would change it.
    """
    found = attribute
    if attribute.type in CODE_OF_NC_TYPE and element in CODE_OF_NC_TYPE:
        found = retyped(attribute, element)
    elif attribute.type in _TEXTS and element in _TEXTS:
        found = _text(attribute, element)
    if not is_fill_value(found, element):
        raise BadValue(f"attribute {attribute.name!r}: must be one value of type {element.value}")
    return found


def _text(attribute: Attribute, element: NcType) -> Attribute:
    """Convert text to a string and the other way round; several strings stay unchanged."""
    texts = (attribute.value,) if isinstance(attribute.value, str) else attribute.value
    if not isinstance(texts, tuple) or len(texts) != 1:
        return attribute
    text = str(texts[0])
    return replace(attribute, type=element, value=text if element is NcType.CHAR else (text,))
