"""Texts of values, by which attributes and fill values are compared and shown."""

from __future__ import annotations

import math

import numpy as np

from nczfs.formats.jsontext import one_line
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import EmptyArray, NcType
from nczfs.model.hierarchy import Attribute


def attribute_text(attribute: Attribute) -> str:
    """Format the value of an attribute as JSON, with numbers as short as their type allows."""
    value = attribute.value
    if isinstance(value, tuple):
        items = [_item(item, attribute.type) for item in value]
        return items[0] if len(items) == 1 else f"[{', '.join(items)}]"
    return value_text(value)


def fill_text(value: object, element: ElementType) -> str:
    """Format a fill value of a type."""
    return _item(value, element) if element is NcType.FLOAT else value_text(value)


def value_text(value: object) -> str:
    """Format a value on one line: as JSON where possible; "none" for None."""
    match value:
        case None:
            return "none"
        case EmptyArray():
            return "[]"
        case np.generic():
            return value_text(value.item() if value.dtype.kind not in "Mm" else str(value))
        case np.ndarray():
            return value_text(value.tolist())
        case bytes():
            text = value.decode("utf-8", "surrogateescape")
            return value_text(text)
        case str():
            return one_line(value.rstrip("\0"))
        case float():
            return "0.0" if value == 0 else repr(value)
        case complex():
            return str(value)
        case tuple() | list():
            return f"[{', '.join(map(value_text, value))}]"
        case bool() | int() | dict():
            return one_line(value)
    return str(value)


def _item(item: object, nc_type: NcType) -> str:
    if nc_type is NcType.FLOAT and isinstance(item, int | float) and math.isfinite(item):
        short = float(str(np.float32(item)))
        return value_text(short if np.float32(short) == np.float32(item) else item)
    return value_text(item)
