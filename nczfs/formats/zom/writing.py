"""Nodes as JSON, in normal form: what is not there, or the default, is left out."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, GroupV2, NamedConfig, Node
from nczfs.model.hierarchy import Json


def json_of(node: Node, *, is_explicit: bool = False) -> dict[str, Json]:
    """Return the JSON of a hierarchy, with the members of groups by name.

    Parameters
    ----------
    is_explicit : as `document_of`.
    """
    found = document_of(node, is_explicit=is_explicit)
    found["attributes"] = dict(node.attributes)
    if not isinstance(node, ArrayV2 | ArrayV3):
        members = node.members
        found["members"] = (
            None
            if members is None
            else {name: json_of(members[name], is_explicit=is_explicit) for name in sorted(members)}
        )
    return found


def document_of(node: Node, *, is_explicit: bool = False) -> dict[str, Json]:
    """Return the members of a node but for its attributes, and those of a group.

    Parameters
    ----------
    is_explicit : write the usual separator of chunk keys, too, which Zarr v2 leaves out: some
        programs (pydantic-zarr 0.9) believe that another one is usual.
    """
    match node:
        case ArrayV2():
            found = _array_v2(node)
            if is_explicit:
                found["dimension_separator"] = node.dimension_separator
        case ArrayV3():
            found = _array_v3(node)
        case GroupV2():
            found = {"zarr_format": 2}
        case _:
            found = {"zarr_format": 3, "node_type": "group"}
    return {**found, **node.others}


def named_json(value: NamedConfig) -> Json:
    """Return the JSON of a name with its configuration."""
    found: dict[str, Json] = {"name": value.name}
    # zarr-python reads no codec of numcodecs without one.
    if value.configuration or value.name.startswith("numcodecs."):
        found["configuration"] = dict(value.configuration)
    if not value.must_understand:
        found["must_understand"] = False
    return found


def _array_v2(node: ArrayV2) -> dict[str, Json]:
    found: dict[str, Json] = {
        "zarr_format": 2,
        "shape": list(node.shape),
        "chunks": list(node.chunks),
        "dtype": node.dtype,
        "compressor": _codec(node.compressor),
        "fill_value": node.fill_value,
        "order": node.order,
        "filters": [_codec(each) for each in node.filters] if node.filters else None,
    }
    if node.dimension_separator != ".":
        found["dimension_separator"] = node.dimension_separator
    return found


def _array_v3(node: ArrayV3) -> dict[str, Json]:
    data_type = node.data_type
    found: dict[str, Json] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(node.shape),
        "data_type": data_type if isinstance(data_type, str) else named_json(data_type),
        "chunk_grid": named_json(node.chunk_grid),
        "chunk_key_encoding": named_json(node.chunk_key_encoding),
        "fill_value": node.fill_value,
        "codecs": [named_json(each) for each in node.codecs],
    }
    if node.dimension_names is not None:
        found["dimension_names"] = list(node.dimension_names)
    if node.storage_transformers:
        found["storage_transformers"] = [named_json(each) for each in node.storage_transformers]
    return found


def _codec(codec: Mapping[str, Json] | None) -> Json:
    return None if codec is None else dict(codec)
