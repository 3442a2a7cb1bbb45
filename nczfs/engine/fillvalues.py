"""The attribute `_FillValue`: netCDF wants one value, of the type of its variable."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.convert import retyped
from nczfs.errors import BadValue
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute

FILL_VALUE = "_FillValue"
_TEXTS = (NcType.CHAR, NcType.STRING)


def is_fill_value(attribute: Attribute, element: object) -> bool:
    """Whether an attribute is one value of a type; in netCDF-3 a `_FillValue` can be anything."""
    value = attribute.value
    return attribute.type is element and isinstance(value, str | tuple) and len(value) == 1


def as_fill_value(attribute: Attribute, element: NcType) -> Attribute:
    """An attribute as one value of the type of a variable; floats are rounded to theirs.

    Raises
    ------
    BadValue : it is none, and would be another one.
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
    """A text as a string and the other way round; several strings stay what they are."""
    texts = (attribute.value,) if isinstance(attribute.value, str) else attribute.value
    if not isinstance(texts, tuple) or len(texts) != 1:
        return attribute
    text = str(texts[0])
    return replace(attribute, type=element, value=text if element is NcType.CHAR else (text,))
