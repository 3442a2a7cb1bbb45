"""Zarr v3: groups and arrays in one document each, with names of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from functools import partial as later
from types import MappingProxyType

from nczfs.errors import BadMetadata, MetadataError, NotWritable, Unsupported
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
from nczfs.formats.zarr3.dependents import (
    DECLARATION,
    LEVELS_MAX,
    SPELLINGS,
    Allowance,
    check_byte_order,
    declarations,
    inherited,
    inherited_attributes,
    resolved,
)
from nczfs.formats.zarr3.inline import OwnDocuments, joined, split
from nczfs.formats.zarr3.names import NAMES, ZARR_JSON, name_fault
from nczfs.formats.zarr3.nodes import (
    ATTRIBUTES,
    NodeDocument,
    node_document,
    read_document,
    shape_of,
)
from nczfs.formats.zarr3.stored import chain_of, stored_type
from nczfs.formats.zarr3.write import array_members
from nczfs.messages import shown
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
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
            return self._dependent(path, documents)
        return self._variable(node, documents) if node.is_array else self._header(node)

    def write_node(
        self, node: Node, documents: Documents, found: Node | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        key = below(node.path, ZARR_JSON)
        existing: Node | None
        if isinstance(node, Variable):
            if node.primary is not None:
                owner = below(node.primary, ZARR_JSON)
                raise NotWritable(
                    f"/{node.path}: is a dependent array, which has no document; change what "
                    f"/{node.primary} declares ({owner}: {DECLARATION})"
                )
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
        return GroupHeader(
            node.path,
            self.name,
            dimensions,
            attributes,
            problems=node.problems.as_tuple(),
            omissions=node.problems.omissions,
        )

    def _variable(self, node: NodeDocument, documents: Documents) -> Variable:
        # A dataset of one array has no groups.
        group = parent_of(node.path) if node.path else None
        variable = self._described(node, node.path, group, documents)
        dependents = self._dependents(node, node.path, group, documents, Allowance())
        problems = node.problems.as_tuple()
        if not dependents and not problems:
            return variable
        omissions = node.problems.omissions
        return replace(variable, dependents=dependents, problems=problems, omissions=omissions)

    def _described(
        self,
        node: NodeDocument,
        place: str,
        group: str | None,
        documents: Documents,
        shared: dict[NcType | None, tuple[Attribute, ...]] | None = None,
    ) -> Variable:
        """Return the array that a document describes, without its problems.

        Parameters
        ----------
        place : where its chunks lie.
        group : whose dimensions it has; None: it has a dataset for itself.
        shared : the attributes by types of arrays, where several arrays have the same.
        """
        array = read_array(node.members, node.key, self._options, node.problems)
        dimensions = self._dimensions(node, array, group, documents)
        nc_type = array.dtype.nc_type
        attributes = None if shared is None else shared.get(nc_type)
        if attributes is None:
            problems = node.problems if shared is None else Problems()  # known of the primary
            attributes = attributes_of(node.attributes, node.key, problems, variable_type=nc_type)
            if shared is not None:
                shared[nc_type] = attributes
        return Variable(node.path, place, self.name, array, dimensions, attributes)

    def _dependents(
        self,
        node: NodeDocument,
        place: str,
        group: str | None,
        documents: Documents,
        allowance: Allowance,
        level: int = 1,
    ) -> tuple[Variable, ...]:
        """Return the arrays that an array declares; what is wrong becomes its problems."""
        try:
            declared = declarations(node.attributes, node.key)
        except BadMetadata as error:
            node.problems.add(str(error))
            return ()
        if not declared:
            return ()
        if level > LEVELS_MAX:
            node.problems.add(f"{node.key}: more than {LEVELS_MAX} levels of dependent arrays")
            return ()
        members, found = inherited(node.members), []
        nbytes = len(strict(members))
        attributes = inherited_attributes(node.attributes)
        shared: dict[NcType | None, tuple[Attribute, ...]] = {}
        for name, partial in declared.items():
            where = f"{node.key}: dependent array {shown(name)}"
            if not allowance.take(nbytes):
                node.problems.add(f"{where}: too many, or too large; it and others are not read")
                break
            try:
                document = resolved(name, partial, members, where)
                is_own = ATTRIBUTES in document
                own = document if is_own else document | {ATTRIBUTES: attributes}
                child = node_document(below(node.path, name), own, Problems(), where)
                array = self._described(child, place, group, documents, None if is_own else shared)
                check_byte_order(array.array, where)
            except MetadataError as error:
                node.problems.add(str(error))
                continue
            below_it = self._dependents(child, place, group, documents, allowance, level + 1)
            found.append(
                replace(
                    array,
                    primary=node.path,
                    dependents=below_it,
                    problems=child.problems.as_tuple(),
                    omissions=child.problems.omissions,
                )
            )
        return tuple(found)

    def _dependent(self, path: str, documents: Documents) -> Variable | None:
        """Return the array at a path without a document, which one above it may declare."""
        above, names = path, [""]
        while above and len(names) <= LEVELS_MAX:
            above, _, name = above.rpartition("/")
            names.append(name)
            key = below(above, ZARR_JSON)
            data = documents.get(key)
            if data is None:
                continue
            is_known = documents.derived(
                f"whether {above} declares arrays", (key,), later(_may_declare, data, key)
            )
            if not is_known:
                return None
            try:
                node = self.read_node(above, documents)
            except MetadataError:
                return None
            for wanted in reversed(names[1:]):
                known = node.dependents if isinstance(node, Variable) else ()
                node = next((each for each in known if each.name == wanted), None)
            return node if isinstance(node, Variable) else None
        return None

    def _dimensions(
        self,
        node: NodeDocument,
        array: ArrayDescription,
        group: str | None,
        documents: Documents,
    ) -> tuple[Dimension, ...]:
        names, member = node.members.get(DIMENSION_NAMES), DIMENSION_NAMES
        if names is None:
            # So zarr-python leaves them when it converts the metadata of Zarr v2.
            names, member = node.attributes.get(ARRAY_DIMENSIONS), ARRAY_DIMENSIONS
        if names is None or not array.shape or not self._options.xarray:
            return anonymous_for(array.shape)
        place = VariablePlace(group or "", array.shape, node.key)
        found = by_name(names, place, _none_declared, node.problems, member)
        if group is None:
            return found
        unlimited = cache(lambda group: self._unlimited(group, documents))
        return tuple([_as_declared(dimension, unlimited) for dimension in found])

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


def _as_declared(dimension: Dimension, unlimited: Callable[[str], Collection[str]]) -> Dimension:
    """Return a dimension as the nearest group that says it is unlimited has it.

    Parameters
    ----------
    unlimited : returns the names of the unlimited dimensions of a group.
    """
    if dimension.anonymous:
        return dimension
    group = dimension.group
    while dimension.name not in unlimited(group):
        if not group:
            return dimension
        group = parent_of(group)
    return replace(dimension, unlimited=True, group=group)


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


def _may_declare(data: bytes, key: str) -> tuple[bool, int]:
    """Return whether a document may declare arrays, and the bytes of that answer."""
    if not any(word in data for word in _HINTS):
        return False, 0
    try:
        own = split(data, key).own
    except BadMetadata:
        return False, 0
    return any(word in own for word in _HINTS), 0


_HINTS = (*(name.encode() for name in SPELLINGS), b"\\u")  # any character may be escaped
