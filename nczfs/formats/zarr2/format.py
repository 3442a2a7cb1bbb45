"""Pure Zarr v2, with or without the xarray convention for names of dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nczfs.formats.attributes import read_attributes
from nczfs.formats.attributes_write import attribute_json, attribute_typestr, check_attributes
from nczfs.formats.base import Documents, FormatOptions, Node, StoredType
from nczfs.formats.dimensions import SCALAR_NAME, Declared, VariablePlace, anonymous_for, by_name
from nczfs.formats.names import below, parent_of
from nczfs.formats.nczarr.layouts import L3, DatasetWriter, layout_at, types_member
from nczfs.formats.rewriting import Encoding, OwnMembers
from nczfs.formats.zarr2.array import Dialect, read_array
from nczfs.formats.zarr2.base import Zarr2Documents
from nczfs.formats.zarr2.chain import chain_of
from nczfs.formats.zarr2.nodes import (
    ARRAY_DIMENSIONS,
    ZARRAY,
    ZATTRS,
    ZGROUP,
    NodeDocuments,
    as_scalar,
    read_documents,
)
from nczfs.formats.zarr2.stored import pure_type
from nczfs.formats.zarr2.write import array_members
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecChain,
    CodecSpec,
    Dimension,
    GroupHeader,
    Json,
    Variable,
)

_ZGROUP: dict[str, Json] = {"zarr_format": 2}

_BLOSC_SETTINGS: dict[str, Json] = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
_BLOSC = CodecSpec("blosc", MappingProxyType(_BLOSC_SETTINGS))  # which all of its readers have


class Zarr2Format(Zarr2Documents):
    """Pure Zarr v2: members are those in the store, and dimensions follow from the arrays.

    Parameters
    ----------
    options : how to read; ``xarray`` says whether ``_ARRAY_DIMENSIONS`` counts.
    writer : what the root says; netcdf-c writes pure Zarr, too, in its own way.
    """

    name = "zarr2"
    declares = False
    is_netcdf = False
    orders = ("C", "F")
    keeps_nan_bits = False

    def __init__(self, options: FormatOptions, writer: DatasetWriter) -> None:
        super().__init__(options)
        # In a dataset read as pure Zarr, ">S1" is a string like every other "S" type.
        self._writer = DatasetWriter(version=writer.version)
        self._literal_text = writer.is_netcdf_c

    def _header(self, node: NodeDocuments, documents: Documents) -> GroupHeader:
        attributes = self._attributes(node, documents)
        return GroupHeader(
            node.path,
            self.name,
            attributes=attributes,
            problems=node.problems.as_tuple(),
            omissions=node.problems.omissions,
        )

    def _variable(
        self, node: NodeDocuments, document: dict[str, Json], documents: Documents
    ) -> Variable:
        path, array = node.path, self._array(node, document)
        if array.shape == (1,) and node.attributes.get(ARRAY_DIMENSIONS) == [SCALAR_NAME]:
            array = as_scalar(array, node.key(ZARRAY), node.problems)
        dimensions = named_dimensions(node, array, _none_declared, self._options)
        attributes = self._attributes(node, documents, array.dtype.nc_type)
        return Variable(
            path,
            path,
            self.name,
            array,
            dimensions,
            attributes,
            node.problems.as_tuple(),
            omissions=node.problems.omissions,
        )

    def stored_type(
        self,
        wanted: ElementType,
        *,
        byte_order: str | None,
        string_bytes: int | None,
        object_codec: CodecSpec | None = None,
    ) -> StoredType:
        return pure_type(
            wanted, byte_order=byte_order, string_bytes=string_bytes, object_codec=object_codec
        )

    def default_codecs(self, dtype: DataType) -> tuple[CodecSpec, ...]:
        return (_BLOSC,)

    def codec_chain(
        self, codecs: Sequence[CodecSpec], dtype: DataType, order: str = "C"
    ) -> CodecChain:
        return chain_of(codecs, dtype, order=order)

    def _group_encodings(
        self, header: GroupHeader, existing: GroupHeader | None, documents: Documents
    ) -> tuple[Encoding | None, Encoding]:
        types = self._types_name(header, existing, documents)

        def encoded(group: GroupHeader) -> Encoding:
            return {ZATTRS: _attribute_members(group, types), ZGROUP: OwnMembers(_ZGROUP)}

        return None if existing is None else encoded(existing), encoded(header)

    def _variable_encodings(
        self, variable: Variable, existing: Variable | None, documents: Documents
    ) -> tuple[Encoding | None, Encoding]:
        types = self._types_name(variable, existing, documents)
        current = None if existing is None else self._encoded(existing, types)
        return current, self._encoded(variable, types)

    def _encoded(self, variable: Variable, types: str | None) -> Encoding:
        attributes = _attribute_members(variable, types)
        dimensions = variable.dimensions
        is_named = not dimensions or not all(d.anonymous for d in dimensions)
        if self._options.xarray and is_named:
            attributes[ARRAY_DIMENSIONS] = [d.name for d in dimensions]
        where = below(variable.path, ZARRAY)
        zarray = array_members(variable.array, where, literal_text=self._literal_text)
        return {ZATTRS: attributes, ZARRAY: zarray}

    def _types_name(self, node: Node, existing: Node | None, documents: Documents) -> str | None:
        """Return the member with types of attributes, if an NCZarr dataset is read as pure Zarr."""
        known = () if existing is None else existing.attributes
        check_attributes(node.attributes, known, below(node.path, ZATTRS))
        if existing is None:
            return None
        found = read_documents(node.path, documents, self._options, is_known=True)
        layout = None if found is None else layout_at(L3, found, "types")
        return None if layout is None else layout.types

    def _attributes(
        self,
        node: NodeDocuments,
        documents: Documents,
        variable_type: NcType | None = None,
    ) -> tuple[Attribute, ...]:
        # netcdf-c uses the types of NCZarr attributes even when it reads as pure Zarr.
        return read_attributes(
            node.attributes,
            types_member(L3, node, documents, self._options),
            node.key(ZATTRS),
            node.problems,
            text_type=NcType.STRING,
            variable_type=variable_type,
        )

    def _array(self, node: NodeDocuments, document: dict[str, Json]) -> ArrayDescription:
        dialect = Dialect(
            literal_text=self._literal_text,
            char_types=self._writer.char_types,
            own_fill="_FillValue" in node.attributes,
        )
        return read_array(document, node.key(ZARRAY), self._options, dialect, node.problems)


def _attribute_members(node: Node, types: str | None) -> OwnMembers:
    members = OwnMembers(
        {a.name: attribute_json(a, is_typed=types is not None) for a in node.attributes}
    )
    if types is not None:
        typestrs = {a.name: attribute_typestr(a, text_type=NcType.STRING) for a in node.attributes}
        members[types] = OwnMembers(types=OwnMembers(typestrs))
    return members


def named_dimensions(
    node: NodeDocuments, array: ArrayDescription, declared: Declared, options: FormatOptions
) -> tuple[Dimension, ...]:
    """Return the dimensions by the xarray convention, or otherwise without names."""
    names = node.attributes.get(ARRAY_DIMENSIONS)
    if not array.shape or names is None or not options.xarray:
        return anonymous_for(array.shape)
    place = VariablePlace(parent_of(node.path), array.shape, node.key(ZATTRS))
    return by_name(names, place, declared, node.problems)


def _none_declared(_group: str) -> Mapping[str, Dimension]:
    return {}
