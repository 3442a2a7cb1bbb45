"""Zarr v3: groups and arrays in one document each, with names of dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.attributes import UNLIMITED
from nczfs.formats.attributes_write import check_attributes
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat, Node, StoredType
from nczfs.formats.dimensions import DIMENSION_NAMES, VariablePlace, anonymous_for, by_name
from nczfs.formats.jsontext import parse_object
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below, parent_of
from nczfs.formats.problems import Problems
from nczfs.formats.rewriting import Encoding, OwnMembers, existing_node, rewrite
from nczfs.formats.zarr2.nodes import ARRAY_DIMENSIONS
from nczfs.formats.zarr3.array import read_array
from nczfs.formats.zarr3.attributes import (
    attribute_members,
    attributes_of,
    unlimited_names,
)
from nczfs.formats.zarr3.consolidated import FORM
from nczfs.formats.zarr3.inline import OwnDocuments, joined, split
from nczfs.formats.zarr3.names import NAMES, ZARR_JSON, name_fault
from nczfs.formats.zarr3.nodes import ATTRIBUTES, NodeDocument, read_document, shape_of
from nczfs.formats.zarr3.stored import chain_of, stored_type
from nczfs.formats.zarr3.write import array_members
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import (
    ArrayDescription,
    ChunkKeys,
    CodecChain,
    CodecSpec,
    Dimension,
    GroupHeader,
    Json,
    Shards,
    Variable,
)

_NAME_BYTES = 100
_INDEX_CODECS = CodecSpec("bytes", MappingProxyType({"endian": "little"})), CodecSpec("crc32c")
_ZSTD = CodecSpec("zstd", MappingProxyType({"level": 0, "checksum": False}))


class Zarr3Format(MetadataFormat):
    """Zarr v3: members are those in the store, and dimensions follow from the arrays.

    Parameters
    ----------
    options : how to read and write; ``xarray`` says whether ``dimension_names`` count.
    """

    name = "zarr3"
    names = NAMES
    copy = FORM
    declares = False
    lists_unlimited = True
    is_netcdf = False
    orders = ("C",)
    keeps_nan_bits = True

    def __init__(self, options: FormatOptions) -> None:
        self._options = options

    def array_keys(self, path: str) -> tuple[str, ...]:
        return (below(path, ZARR_JSON),)

    def group_keys(self, path: str) -> tuple[str, ...]:
        return (below(path, ZARR_JSON),)

    def attributes_key(self, path: str) -> str:
        return below(path, ZARR_JSON)

    def consolidated_keys(self, path: str) -> tuple[str, ...]:
        return (below(path, ZARR_JSON),)

    def read_node(self, path: str, documents: Documents) -> Node | None:
        node = read_document(path, documents, self._options)
        if node is None:
            return None
        return self._variable(node, documents) if node.is_array else self._header(node)

    def write_node(
        self, node: Node, documents: Documents, found: Node | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        key = below(node.path, ZARR_JSON)
        existing: Node | None
        if isinstance(node, Variable):
            existing = existing_node(self, node, documents, found)
        else:
            existing = existing_node(self, node, documents, found)
        known = () if existing is None else existing.attributes
        check_attributes(node.attributes, known, key)
        if existing is None and (fault := name_fault(node.name)) is not None and node.path:
            raise Unsupported(f"{key}: {node.name!r} cannot be the name of a node: {fault}")
        current = None if existing is None else _encoded(existing)
        own = OwnDocuments(documents)
        written = rewrite(node.path, own, current, _encoded(node), self._options)
        data = documents.get(key)
        copy = None if data is None or existing is None else split(data, key).copy
        return tuple((key, joined(new, copy)) for key, new in written)

    def stored_type(
        self,
        wanted: ElementType,
        *,
        byte_order: str | None,
        string_bytes: int | None,
        object_codec: CodecSpec | None = None,
    ) -> StoredType:
        return stored_type(
            wanted, byte_order=byte_order, string_bytes=string_bytes, object_codec=object_codec
        )

    def new_shards(self, shape: tuple[int, ...]) -> Shards:
        return Shards(shape, _INDEX_CODECS)

    def default_codecs(self, dtype: DataType) -> tuple[CodecSpec, ...]:
        """Return zstd, the choice of zarr-python."""
        return (_ZSTD,)

    def codec_chain(
        self, codecs: Sequence[CodecSpec], dtype: DataType, order: str = "C"
    ) -> CodecChain:
        return chain_of(codecs, dtype)

    def chunk_keys(self, separator: str | None) -> ChunkKeys:
        return ChunkKeys(separator or "/", "c", "c")

    def stored_shape(self, data: bytes, key: str) -> tuple[int, ...]:
        return shape_of(parse_object(data, key)[0])

    def stored_attributes(self, data: bytes, key: str) -> Mapping[str, Json]:
        attributes = parse_object(split(data, key).own, key)[0].get(ATTRIBUTES)
        return attributes if isinstance(attributes, dict) else {}

    def shape_and_note(self, data: bytes, key: str, name: str) -> tuple[tuple[int, ...], Json]:
        members, _ = parse_object(data, key)
        found = members.get(name)
        return shape_of(members), found.get(_NOTE) if isinstance(found, dict) else None

    def with_note(self, data: bytes, key: str, name: str, note: Json) -> bytes:
        # An object that need not be understood is the only addition that readers ignore.
        members, _ = parse_object(data, key)
        rest = {member: value for member, value in members.items() if member != name}
        if note is not None:
            rest[name] = {"must_understand": False, _NOTE: note}
        return strict(rest).encode()

    def _header(self, node: NodeDocument) -> GroupHeader:
        attributes = attributes_of(node.attributes, node.key, node.problems)
        dimensions = tuple(
            Dimension(name, 0, unlimited=True, group=node.path)
            for name in unlimited_names(node.attributes, node.key, node.problems)
        )
        problems = node.problems.as_tuple()
        return GroupHeader(node.path, self.name, dimensions, attributes, problems=problems)

    def _variable(self, node: NodeDocument, documents: Documents) -> Variable:
        path = node.path
        array = read_array(node.members, node.key, self._options, node.problems)
        dimensions = self._dimensions(node, array, documents)
        attributes = attributes_of(
            node.attributes, node.key, node.problems, variable_type=array.dtype.nc_type
        )
        problems = node.problems.as_tuple()
        return Variable(path, path, self.name, array, dimensions, attributes, problems)

    def _dimensions(
        self, node: NodeDocument, array: ArrayDescription, documents: Documents
    ) -> tuple[Dimension, ...]:
        names, member = node.members.get(DIMENSION_NAMES), DIMENSION_NAMES
        if names is None:
            # So zarr-python leaves them when it converts the metadata of Zarr v2.
            names, member = node.attributes.get(ARRAY_DIMENSIONS), ARRAY_DIMENSIONS
        if names is None or not array.shape or not self._options.xarray:
            return anonymous_for(array.shape)
        group = parent_of(node.path)
        place = VariablePlace(group, array.shape, node.key)
        found = by_name(names, place, _none_declared, node.problems, member)
        if not node.path:
            return found  # a dataset of one array has no groups
        return tuple(self._as_declared(dimension, documents) for dimension in found)

    def _as_declared(self, dimension: Dimension, documents: Documents) -> Dimension:
        """Return a dimension as the nearest group that says it is unlimited has it."""
        if dimension.anonymous:
            return dimension
        group = dimension.group
        while dimension.name not in self._unlimited(group, documents):
            if not group:
                return dimension
            group = parent_of(group)
        return replace(dimension, unlimited=True, group=group)

    def _unlimited(self, path: str, documents: Documents) -> frozenset[str]:
        """Return the names of the unlimited dimensions of a group; none if it is broken."""
        key = below(path, ZARR_JSON)

        def read() -> tuple[frozenset[str], int]:
            data = documents.get(key)
            if data is None or UNLIMITED.encode() not in data:
                return frozenset(), 0
            unseen = Problems()  # they belong to the group, and are reported with it
            try:
                attributes = self.stored_attributes(data, key)
            except BadMetadata:
                return frozenset(), 0
            names = frozenset(unlimited_names(attributes, key, unseen))
            return names, _NAME_BYTES * len(names)

        return documents.derived(f"unlimited dimensions of {path}", (key,), read)


_NOTE = "value"


def _encoded(node: Node) -> Encoding:
    key = below(node.path, ZARR_JSON)
    if isinstance(node, Variable):
        members = array_members(node.array, node.dimensions, key)
    else:
        members = OwnMembers(zarr_format=3, node_type="group")
    members[ATTRIBUTES] = attribute_members(node)
    return {ZARR_JSON: members}


def _none_declared(_group: str) -> Mapping[str, Dimension]:
    return {}
