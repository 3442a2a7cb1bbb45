"""A format unlike Zarr v2: one document for each node, which says what it is, and other keys.

It stands for formats to come. Chunks are ``at/0/1`` below their array; dimensions may be unlimited,
and are those of the arrays; nothing is consolidated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat, Node, StoredType
from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.elementtypes import data_type
from nczfs.formats.family import FormatFamily
from nczfs.formats.limits import check_array
from nczfs.formats.names import below, parent_of
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DataType, NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    ChunkKeys,
    CodecChain,
    CodecSpec,
    Dimension,
    GroupHeader,
    Json,
    Variable,
)

DOCUMENT = "meta.json"
NAMES = DocumentNames((DOCUMENT,), (DOCUMENT,), re.compile(r"at(?:/(?:0|[1-9]\d*))*"))
KEYS = ChunkKeys("/", "at", "at")


class ToyFormat(MetadataFormat):
    """A group is ``{"is": "group", "attributes": …}``, an array has its description besides."""

    name = "toy"
    names = NAMES
    copy = None
    declares = False
    lists_unlimited = False
    is_netcdf = False
    orders = ("C",)
    keeps_nan_bits = False

    def __init__(self, options: FormatOptions) -> None:
        self._options = options

    def array_keys(self, path: str) -> tuple[str, ...]:
        return (below(path, DOCUMENT),)

    def group_keys(self, path: str) -> tuple[str, ...]:
        return (below(path, DOCUMENT),)

    def attributes_key(self, path: str) -> str:
        return below(path, DOCUMENT)

    def consolidated_keys(self, path: str) -> tuple[str, ...]:
        raise AssertionError("there is no copy")

    def read_node(self, path: str, documents: Documents) -> Node | None:
        key = below(path, DOCUMENT)
        data = documents.get(key)
        if data is None:
            return None
        document = _parsed(data, key)
        attributes = tuple(
            Attribute(name, NcType(kind), tuple(value) if isinstance(value, list) else value)
            for name, kind, value in document["attributes"]
        )
        if document["is"] == "group":
            return GroupHeader(path, self.name, attributes=attributes)
        dtype = data_type(document["type"], (), key)
        codecs = tuple(CodecSpec(name, MappingProxyType(how)) for name, how in document["codecs"])
        array = ArrayDescription(
            tuple(document["shape"]),
            tuple(document["chunks"]),
            dtype,
            document["fill"],
            CodecChain(2, codecs),
            KEYS,
        )
        check_array(array, key, self._options)
        dimensions = tuple(
            Dimension(name, size, unlimited, parent_of(path))
            for (name, unlimited), size in zip(document["dimensions"], array.shape, strict=True)
        )
        return Variable(path, path, self.name, array, dimensions, attributes)

    def write_node(
        self, node: Node, documents: Documents, found: Node | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        key = below(node.path, DOCUMENT)
        before = documents.get(key)
        document: dict[str, Any] = {} if before is None else _parsed(before, key)
        attributes = [[a.name, a.type.value, a.value] for a in node.attributes]
        document |= {"is": "group", "attributes": attributes}
        if isinstance(node, Variable):
            array = node.array
            document |= {
                "is": "array",
                "shape": array.shape,
                "chunks": array.chunk_shape,
                "type": array.dtype.typestr,
                "fill": array.fill_value,
                "codecs": [[c.name, dict(c.configuration)] for c in array.codecs.codecs],
                "dimensions": [[d.name, d.unlimited] for d in node.dimensions],
            }
        data = json.dumps(document).encode()
        return () if data == before else ((key, data),)

    def stored_type(
        self,
        wanted: ElementType,
        *,
        byte_order: str | None,
        string_bytes: int | None,
        object_codec: CodecSpec | None = None,
    ) -> StoredType:
        code = CODE_OF_NC_TYPE.get(wanted) if isinstance(wanted, NcType) else wanted.str[1:]
        if code is None or code[0] not in "iuf":
            raise Unsupported(f"toy has no type {wanted}")
        order = "|" if code.endswith("1") else byte_order or "<"
        return StoredType(data_type(order + code, (), ""))

    def default_codecs(self, dtype: DataType) -> tuple[CodecSpec, ...]:
        return (CodecSpec("crc32"),)

    def codec_chain(
        self, codecs: Sequence[CodecSpec], dtype: DataType, order: str = "C"
    ) -> CodecChain:
        return CodecChain(2, tuple(codecs))

    def chunk_keys(self, separator: str | None) -> ChunkKeys:
        return KEYS

    def stored_shape(self, data: bytes, key: str) -> tuple[int, ...]:
        return tuple(_parsed(data, key)["shape"])

    def stored_attributes(self, data: bytes, key: str) -> Mapping[str, Json]:
        return {name: value for name, _, value in _parsed(data, key)["attributes"]}

    def shape_and_note(self, data: bytes, key: str, name: str) -> tuple[tuple[int, ...], Json]:
        document = _parsed(data, key)
        return tuple(document["shape"]), document.get("notes", {}).get(name)

    def with_note(self, data: bytes, key: str, name: str, note: Json) -> bytes:
        document = _parsed(data, key)
        notes = document.pop("notes", {}) | {name: note}
        if note is None:
            del notes[name]
        return json.dumps(document | ({"notes": notes} if notes else {})).encode()


def _parsed(data: bytes, key: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(data)
    except ValueError as error:
        raise BadMetadata(f"{key}: not JSON: {error}") from error
    return document


def _opened(documents: Documents, options: FormatOptions) -> MetadataFormat:
    return ToyFormat(options)


TOY = FormatFamily(NAMES, _opened, makers={"toy": ToyFormat})
