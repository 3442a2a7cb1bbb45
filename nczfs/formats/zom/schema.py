"""The JSON Schema (2020-12) of hierarchies, as strict readers accept them.

What a schema cannot say is checked on reading: equal ranks, names of members in bytes, data types.
"""

from __future__ import annotations

from nczfs.formats.zom.array2 import CODECS_MAX
from nczfs.model.hierarchy import Json

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Schema = dict[str, Json]


def schema(zarr_format: int | None = None) -> _Schema:
    """Return the schema of hierarchies of a version of Zarr; None: of either."""
    kinds = [2, 3] if zarr_format is None else [zarr_format]
    roots: list[Json] = [_ref(f"{kind}_v{each}") for each in kinds for kind in ("array", "group")]
    definitions: _Schema = {"attributes": {"type": "object"}, "lengths": _LENGTHS}
    for each in kinds:
        definitions |= _of_v2() if each == 2 else _of_v3()
    return {
        "$schema": DIALECT,
        "title": "Zarr Object Model",
        "oneOf": roots,
        "$defs": definitions,
    }


_LENGTHS: Json = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "maxItems": 1024,
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _object(properties: _Schema, required: list[str], **more: Json) -> Json:
    names: list[Json] = list(required)
    return {"type": "object", "properties": properties, "required": names, **more}


def _members(version: int, names: Json) -> Json:
    node: Json = {"oneOf": [_ref(f"array_v{version}"), _ref(f"group_v{version}")]}
    return {
        "type": ["object", "null"],
        "propertyNames": names,
        "additionalProperties": node,
    }


def _of_v2() -> _Schema:
    codec = _object({"id": {"type": "string"}}, ["id"])
    array: _Schema = {
        "zarr_format": {"const": 2},
        "attributes": _ref("attributes"),
        "shape": _ref("lengths"),
        "chunks": _ref("lengths"),
        "dtype": {"type": ["string", "array"], "minItems": 1},
        "compressor": {"anyOf": [{"type": "null"}, _ref("codec_v2")]},
        "fill_value": True,
        "order": {"enum": ["C", "F"]},
        "filters": {
            "type": ["array", "null"],
            "items": _ref("codec_v2"),
            "maxItems": CODECS_MAX,
        },
        "dimension_separator": {"enum": [".", "/", None]},
    }
    group: _Schema = {
        "zarr_format": {"const": 2},
        "attributes": _ref("attributes"),
        "members": _members(2, {"pattern": r"^(?!\.{1,2}$)[^/\u0000]+$"}),
    }
    # Zarr v2 ignores further members; those that programs add begin so.
    others: _Schema = {"patternProperties": {"^_": True}, "additionalProperties": False}
    return {
        "codec_v2": codec,
        "array_v2": _object(array, ["zarr_format", "shape", "chunks", "dtype"], **others),
        "group_v2": _object(group, ["zarr_format"], **others),
    }


def _of_v3() -> _Schema:
    named: Json = {
        "anyOf": [
            {"type": "string"},
            _object(
                {
                    "name": {"type": "string"},
                    "configuration": {"type": "object"},
                    "must_understand": {"type": "boolean"},
                },
                ["name"],
                additionalProperties=False,
            ),
        ]
    }
    array: _Schema = {
        "zarr_format": {"const": 3},
        "node_type": {"const": "array"},
        "attributes": _ref("attributes"),
        "shape": _ref("lengths"),
        "data_type": _ref("named"),
        "chunk_grid": _ref("named"),
        "chunk_key_encoding": _ref("named"),
        "fill_value": {"not": {"type": "null"}},
        "codecs": {
            "type": "array",
            "items": _ref("named"),
            "minItems": 1,
            "maxItems": CODECS_MAX,
        },
        "dimension_names": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
        "storage_transformers": {"type": "array", "items": _ref("named")},
    }
    group: _Schema = {
        "zarr_format": {"const": 3},
        "node_type": {"const": "group"},
        "attributes": _ref("attributes"),
        "members": _members(3, {"pattern": r"^(?!\.+$)(?!__)[^/\u0000]+$"}),
    }
    required = ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"]
    others: _Schema = {"additionalProperties": _ref("ignorable")}
    ignorable = _object({"must_understand": {"const": False}}, ["must_understand"])
    without_shape: _Schema = {"not": {"required": ["shape"]}}
    return {
        "named": named,
        "ignorable": ignorable,
        "array_v3": _object(array, ["zarr_format", *required], **others),
        "group_v3": _object(group, ["zarr_format"], **others, **without_shape),
    }
