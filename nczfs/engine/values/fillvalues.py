"""The attribute `_FillValue`: netCDF wants one value, of the type of its variable."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.values.convert import fill_attribute, retyped
from nczfs.errors import BadValue
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, NcType
from nczfs.model.hierarchy import ArrayDescription, Attribute, Variable

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


def marks_missing(array: ArrayDescription) -> bool:
    """Return whether the fill value of an array is also its `_FillValue`, which readers mask.

    So it is in Zarr v2, where xarray keeps a `_FillValue` in no other way. In Zarr v3 only the
    attribute counts: the fill value, mostly 0, may be the value of any element.
    """
    return array.codecs.zarr_format == 2


def attributes_with_fill(variable: Variable) -> tuple[Attribute, ...]:
    """Return the attributes, with a `_FillValue` first if netCDF's default is different."""
    dtype, fill = variable.array.dtype, variable.array.fill_value
    known = any(attribute.name == FILL_VALUE for attribute in variable.attributes)
    if known or fill is None or not marks_missing(variable.array):
        return variable.attributes
    if dtype.nc_type is None or _is_default(fill, dtype.nc_type):
        return variable.attributes
    attribute = fill_attribute(fill, dtype, f"/{variable.path}")
    return variable.attributes if attribute is None else (attribute, *variable.attributes)


def _is_default(fill: object, nc_type: NcType) -> bool:
    # numpy considers texts equal with and without NULs at the end.
    return fill == DEFAULT_FILL[nc_type] or fill in (b"", "")


def _text(attribute: Attribute, element: NcType) -> Attribute:
    """Convert text to a string and the other way round; several strings stay unchanged."""
    texts = (attribute.value,) if isinstance(attribute.value, str) else attribute.value
    if not isinstance(texts, tuple) or len(texts) != 1:
        return attribute
    text = str(texts[0])
    return replace(attribute, type=element, value=text if element is NcType.CHAR else (text,))
