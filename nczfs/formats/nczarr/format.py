"""NCZarr: Zarr v2 with the groups, dimensions and attribute types of netCDF, in four layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from nczfs.formats.attributes import read_attributes
from nczfs.formats.attributes_write import check_attributes
from nczfs.formats.base import Documents, FormatOptions, Node, StoredType
from nczfs.formats.dimensions import SCALAR_NAME, VariablePlace, by_reference, declared_dimensions
from nczfs.formats.names import below, names_of, parent_of
from nczfs.formats.nczarr.layouts import (
    L1,
    DatasetWriter,
    array_member,
    first,
    group_member,
    own_keys,
    types_member,
)
from nczfs.formats.nczarr.write import (
    Placement,
    check_dimensions,
    check_references,
    encode_group,
    encode_variable,
    placement_of,
)
from nczfs.formats.problems import Problems
from nczfs.formats.rewriting import Encoding
from nczfs.formats.zarr2.array import Dialect, read_array
from nczfs.formats.zarr2.base import Zarr2Documents
from nczfs.formats.zarr2.chain import chain_of
from nczfs.formats.zarr2.format import named_dimensions
from nczfs.formats.zarr2.nodes import (
    ARRAY_DIMENSIONS,
    ZARRAY,
    ZATTRS,
    ZGROUP,
    NodeDocuments,
    as_scalar,
    optional_object,
    read_documents,
)
from nczfs.formats.zarr2.stored import netcdf_type
from nczfs.messages import shown
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import (
    Attribute,
    CodecChain,
    CodecSpec,
    Dimension,
    GroupHeader,
    Json,
    Variable,
)

_DIMENSION_BYTES = 400
_ZLIB = CodecSpec("zlib", MappingProxyType({"level": 4}))


class NczarrFormat(Zarr2Documents):
    """NCZarr: a group lists its members and declares dimensions, which have names.

    A node without NCZarr's additions, made by another program, is read as pure Zarr.

    Parameters
    ----------
    options : how to read.
    writer : what the root says; its layout is not None.
    """

    declares = True
    is_netcdf = True
    orders = ("C",)
    keeps_nan_bits = False

    def __init__(self, options: FormatOptions, writer: DatasetWriter) -> None:
        assert writer.layout is not None
        super().__init__(options)
        self._writer = writer
        self._layout = writer.layout
        self.name = writer.layout.name

    def array_keys(self, path: str) -> tuple[str, ...]:
        return (*super().array_keys(path), *own_keys(path, self._writer, "array"))

    def group_keys(self, path: str) -> tuple[str, ...]:
        return (*super().group_keys(path), *own_keys(path, self._writer, "group"))

    def stored_type(
        self,
        wanted: ElementType,
        *,
        byte_order: str | None,
        string_bytes: int | None,
        object_codec: CodecSpec | None = None,
    ) -> StoredType:
        return netcdf_type(
            wanted,
            byte_order=byte_order,
            string_bytes=string_bytes,
            layout=self.name,
            early=self._layout.early,
        )

    def default_codecs(self, dtype: DataType) -> tuple[CodecSpec, ...]:
        """Return zlib after a shuffle, which netCDF has always had.

        Libraries for the oldest layouts mostly had no codecs.
        """
        if self._layout.early:
            return ()
        if dtype.item_size < 2 or dtype.stored.kind in "SUV":
            return (_ZLIB,)
        shuffle = {"elementsize": dtype.item_size}
        return (CodecSpec("shuffle", MappingProxyType(shuffle)), _ZLIB)

    def codec_chain(
        self, codecs: Sequence[CodecSpec], dtype: DataType, order: str = "C"
    ) -> CodecChain:
        return chain_of(codecs, dtype, order=order, last_is_compressor=True)

    def _group_encodings(
        self, header: GroupHeader, existing: GroupHeader | None, documents: Documents
    ) -> tuple[Encoding | None, Encoding]:
        if header.arrays is None:
            # Unless the group gives members, existing ones stay; a new group has none.
            arrays, groups = ((), ()) if existing is None else (existing.arrays, existing.groups)
            header = replace(header, arrays=arrays, groups=groups)
        check_dimensions(header, existing, self._layout)
        placement = self._placement(header, existing, documents)
        current = None if existing is None else encode_group(existing, placement)
        is_root = header.path == "" and self._writer.is_whole
        placement = replace(placement, superblock=placement.superblock or is_root)
        return current, encode_group(header, placement)

    def _variable_encodings(
        self, variable: Variable, existing: Variable | None, documents: Documents
    ) -> tuple[Encoding | None, Encoding]:
        check_references(variable, existing, is_whole=self._writer.is_whole)
        placement = self._placement(variable, existing, documents)
        current = None if existing is None else encode_variable(existing, placement)
        return current, encode_variable(variable, placement)

    def _placement(self, node: Node, existing: Node | None, documents: Documents) -> Placement:
        """Return where the documents of a node have NCZarr's additions."""
        known = () if existing is None else existing.attributes
        check_attributes(node.attributes, known, below(node.path, ZATTRS), early=self._layout.early)
        found = None
        if existing is not None:
            found = read_documents(node.path, documents, self._options, is_known=True)
        if found is None:
            return Placement(self._layout, self._layout, xarray=self._options.xarray)
        return placement_of(self._layout, found, documents, self._options)

    def _header(self, node: NodeDocuments, documents: Documents) -> GroupHeader:
        where = self._where(node)
        found = group_member(self._layout, node, documents, self._options)
        dimensions: Mapping[str, Dimension] = {}
        arrays: tuple[str, ...] | None = None
        groups: tuple[str, ...] | None = None
        if isinstance(found, dict):
            dimensions = _dimensions(found, node.path, where, node.problems)
            arrays = names_of(first(found, "arrays", "vars") or [], where, node.problems)
            listed = names_of(first(found, "groups") or [], where, node.problems)
            groups = tuple(name for name in listed if name not in set(arrays))
            if groups != listed:
                node.problems.add(f"{where}: a name is listed both as an array and as a group")
        elif found is not None:
            node.problems.add(f"{where}: {shown(found)} is not the description of a group")
        return GroupHeader(
            node.path,
            self.name,
            tuple(dimensions.values()),
            self._attributes(node, documents),
            arrays,
            groups,
            node.problems.as_tuple(),
            omissions=node.problems.omissions,
        )

    def _variable(
        self, node: NodeDocuments, document: dict[str, Json], documents: Documents
    ) -> Variable:
        dialect = Dialect(
            literal_text=True,
            char_types=self._writer.char_types,
            own_fill="_FillValue" in node.attributes,
        )
        array = read_array(document, node.key(ZARRAY), self._options, dialect, node.problems)
        where = self._where(node)
        found = array_member(self._layout, node, documents, self._options)
        if found is not None and not isinstance(found, dict):
            node.problems.add(f"{where}: {shown(found)} is not the description of an array")
        info = found if isinstance(found, dict) else {}
        if _is_scalar(info) or node.attributes.get(ARRAY_DIMENSIONS) == [SCALAR_NAME]:
            array = as_scalar(array, node.key(ZARRAY), node.problems)
        references = first(info, "dimension_references", "dimrefs")

        def declared(group: str) -> Mapping[str, Dimension]:
            return self._declared(group, documents)

        if references is None or not array.shape:
            dimensions = named_dimensions(node, array, declared, self._options)
        else:
            place = VariablePlace(parent_of(node.path), array.shape, where)
            dimensions = by_reference(
                references, place, declared, node.problems, is_whole=self._writer.is_whole
            )
            array = replace(array, shape=tuple(d.size for d in dimensions))
        return Variable(
            node.path,
            node.path,
            self.name,
            array,
            dimensions,
            self._attributes(node, documents, array.dtype.nc_type),
            node.problems.as_tuple(),
            omissions=node.problems.omissions,
        )

    def _attributes(
        self,
        node: NodeDocuments,
        documents: Documents,
        variable_type: NcType | None = None,
    ) -> tuple[Attribute, ...]:
        return read_attributes(
            node.attributes,
            types_member(self._layout, node, documents, self._options),
            node.key(ZATTRS),
            node.problems,
            lists_of_one=self._layout is L1,
            variable_type=variable_type,
        )

    def _declared(self, path: str, documents: Documents) -> Mapping[str, Dimension]:
        """Return the dimensions that a group declares; none if it is missing or broken."""
        keys = [below(path, ZATTRS), below(path, ZGROUP)]
        if self._layout is L1:
            keys.append(below(path, L1.group))
        documents.fetch(keys)

        def read() -> tuple[Mapping[str, Dimension], int]:
            unseen = Problems()  # they belong to the group, and are reported with it
            attributes, group = (
                optional_object(documents.get(key), key, self._options, unseen) for key in keys[:2]
            )
            node = NodeDocuments(path, None, group, attributes, unseen)
            found = group_member(self._layout, node, documents, self._options)
            declared = _dimensions(found, path, path, unseen) if isinstance(found, dict) else {}
            return declared, _DIMENSION_BYTES * len(declared)

        # A thousand variables refer to the same group.
        return documents.derived(f"dimensions of {path}", keys, read)

    def _where(self, node: NodeDocuments) -> str:
        """Return the key of the document with most of NCZarr's additions to a node."""
        if self._layout is L1:
            return node.key(L1.array if node.array is not None else L1.group)
        if self._layout.in_attributes:
            return node.key(ZATTRS)
        return node.key(ZARRAY if node.array is not None else ZGROUP)


def _dimensions(
    found: dict[str, Json], group: str, where: str, problems: Problems
) -> Mapping[str, Dimension]:
    value = first(found, "dimensions", "dims")
    return {} if value is None else declared_dimensions(value, group, where, problems)


def _is_scalar(info: dict[str, Json]) -> bool:
    # netcdf-c 4.9.3 and later check whether the flag exists, not its value.
    return "scalar" in info or info.get("storage") == "scalar"
