"""``info.json``: the description of a node for programs."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from nczfs.formats.zarr3.keyencodings import CHUNK_KEYS, keys_json
from nczfs.model.dtypes import EmptyArray, ZeroBytes, ZeroText
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecChain,
    Dimension,
    Group,
    Json,
    Variable,
)

# Half surrogate pairs have no UTF-8; DEL, C1 and changes of direction control terminals.
_UNPRINTABLE = re.compile(
    "[\\x7f-\\x9f\\xad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ud800-\\udfff\\ufeff]"
)


def variable_info(variable: Variable, problems: Sequence[str]) -> bytes:
    """Return the info.json of a variable, with `problems` of it, its codecs and its views."""
    array = variable.array
    return _document(
        {
            "name": variable.name,
            "path": f"/{variable.path}",
            "format": variable.format,
            "shape": list(array.shape),
            "dimensions": _dimensions(variable.dimensions),
            "dtype": _dtype(array),
            "nc_type": array.dtype.nc_type.value if array.dtype.nc_type is not None else None,
            "chunk_shape": list(array.chunk_shape),
            "chunk_count": array.grid.chunk_count,
            "shard_shape": list(array.unit_shape) if array.shards else None,
            "object_count": array.units.chunk_count,
            "codecs": _codecs(array.codecs),
            "order": array.codecs.order,
            "dimension_separator": array.chunk_keys.separator,
            "fill_value": _fill_value(array.fill_value),
            "decoded_bytes": array.decoded_bytes,
            "attributes": _attributes(variable.attributes),
            "attribute_types": _types(variable.attributes),
            **_relations(variable),
            "problems": list(problems),
        }
    )


def _relations(variable: Variable) -> dict[str, Json]:
    """Return which array declares this one, and which ones it declares; mostly nothing."""
    found: dict[str, Json] = {}
    if variable.primary is not None:
        found["primary"] = f"/{variable.primary}"
        found[CHUNK_KEYS] = keys_json(variable.array.chunk_keys)
    if variable.dependents:
        found["dependents"] = [each.name for each in variable.dependents]
    return found


def group_info(group: Group, notes: Iterable[str] = ()) -> bytes:
    """Return the info.json of a group, with the names of its members; `notes` are more problems."""
    header = group.header
    return _document(
        {
            "name": header.name,
            "path": f"/{header.path}",
            "format": header.format,
            "dimensions": _dimensions(group.dimensions),
            "variables": [variable.name for variable in group.variables],
            "groups": [child.name for child in group.groups],
            "attributes": _attributes(header.attributes),
            "attribute_types": _types(header.attributes),
            "problems": [
                *header.problems,
                *(f"{name}: {why}" for name, why in group.broken),
                *notes,
            ],
        }
    )


def broken_info(path: str, problem: str) -> bytes:
    """Return the info.json of a node whose metadata cannot be read."""
    name = path.rpartition("/")[2]
    return _document({"name": name, "path": f"/{path}", "problems": [problem]})


def attribute_json(attribute: Attribute) -> Json:
    """Return the value of an attribute as JSON: a single number or string, several as a list."""
    value = attribute.value
    if isinstance(value, tuple):
        items = [_plain(item) for item in value]
        return items[0] if len(items) == 1 else items
    return _plain(value)


def _document(fields: dict[str, Json]) -> bytes:
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False)
    text = io.StringIO()
    text.writelines(encoder.iterencode(fields))  # `dumps` holds all pieces of it at once
    return _UNPRINTABLE.sub(_escaped, text.getvalue()).encode() + b"\n"


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _dimensions(dimensions: Iterable[Dimension]) -> Json:
    return [
        {"name": d.name, "size": d.size, "unlimited": d.unlimited, "group": f"/{d.group}"}
        for d in dimensions
    ]


def _attributes(attributes: Iterable[Attribute]) -> Json:
    return {attribute.name: attribute_json(attribute) for attribute in attributes}


def _types(attributes: Iterable[Attribute]) -> Json:
    return {attribute.name: attribute.type.value for attribute in attributes}


def _dtype(array: ArrayDescription) -> Json:
    """Return the typestr, or for a structured type its list of fields as in Zarr v2."""
    typestr = array.dtype.typestr
    return json.loads(typestr) if typestr.startswith("[") else typestr


def _fill_value(value: object) -> Json:
    if isinstance(value, EmptyArray):
        empty: Json = json.loads(value.spelling)
        return empty
    return 0 if isinstance(value, ZeroText | ZeroBytes) else _plain(value)


def _codecs(chain: CodecChain) -> Json:
    return [_plain({"id": codec.name, **codec.configuration}) for codec in chain.codecs]


def _plain(value: object) -> Json:
    """Convert a value to strict JSON: no numpy scalars, NaN and infinities by their Zarr names."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return int(value.view(np.int64))
    if isinstance(value, np.void) and value.dtype.names is not None:
        return [_plain(value[name]) for name in value.dtype.names]
    if isinstance(value, np.ndarray) and value.ndim:
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isnan(value):
                return "NaN"
            return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
        case complex():
            return [_plain(value.real), _plain(value.imag)]
        case bytes():
            return value.decode("latin-1")
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case _:
            return str(value)
