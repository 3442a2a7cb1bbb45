"""Pure Zarr v2, with or without the xarray convention for the names of dimensions."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.formats.attributes import read_attributes
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat, Node
from nczfs.formats.dimensions import SCALAR_NAME, Declared, Place, anonymous_for, by_name
from nczfs.formats.names import below, parent_of
from nczfs.formats.nczarr_layouts import L3, Writer, types_member
from nczfs.formats.nodes import (
    ARRAY_DIMENSIONS,
    ZARRAY,
    ZATTRS,
    ZGROUP,
    NodeDocuments,
    as_scalar,
    read_documents,
)
from nczfs.formats.zarr2 import Dialect, read_array
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    Dimension,
    GroupHeader,
    Json,
    Variable,
)


class Zarr2Format(MetadataFormat):
    """Members are what the store holds; dimensions follow from the arrays.

    Parameters
    ----------
    options : how to read; ``xarray`` says whether ``_ARRAY_DIMENSIONS`` counts.
    writer : what the root told; netcdf-c writes pure Zarr too, with habits of its own.
    """

    name = "zarr2"

    def __init__(self, options: FormatOptions, writer: Writer) -> None:
        self._options = options
        # In a dataset read as pure Zarr, ">S1" is a string as every other "S" type is.
        self._writer = Writer(version=writer.version)
        self._literal_text = writer.is_netcdf_c

    def keys(self, path: str) -> tuple[str, ...]:
        return tuple(below(path, name) for name in (ZARRAY, ZGROUP, ZATTRS))

    def read_node(self, path: str, documents: Documents) -> Node | None:
        # A root is one because `detect` said so; netcdf-c takes it without .zgroup too.
        node = read_documents(path, documents, self._options, is_known=path == "")
        if node is None:
            return None
        if node.array is None:
            attributes = self._attributes(node, documents)
            problems = node.problems.as_tuple()
            return GroupHeader(path, self.name, attributes=attributes, problems=problems)
        array = self._array(node, node.array)
        if array.shape == (1,) and node.attributes.get(ARRAY_DIMENSIONS) == [SCALAR_NAME]:
            array = as_scalar(array, node.key(ZARRAY), node.problems)
        dimensions = named_dimensions(node, array, _none_declared, self._options)
        attributes = self._attributes(node, documents)
        problems = node.problems.as_tuple()
        return Variable(path, path, self.name, array, dimensions, attributes, problems)

    def _attributes(self, node: NodeDocuments, documents: Documents) -> tuple[Attribute, ...]:
        # netcdf-c lets the types of NCZarr attributes count, also where it reads as pure Zarr.
        return read_attributes(
            node.attributes,
            types_member(L3, node, documents, self._options),
            node.key(ZATTRS),
            node.problems,
            text_type=NcType.STRING,
        )

    def _array(self, node: NodeDocuments, document: dict[str, Json]) -> ArrayDescription:
        dialect = Dialect(
            literal_text=self._literal_text,
            char_types=self._writer.char_types,
            own_fill="_FillValue" in node.attributes,
        )
        return read_array(document, node.key(ZARRAY), self._options, dialect, node.problems)


def named_dimensions(
    node: NodeDocuments, array: ArrayDescription, declared: Declared, options: FormatOptions
) -> tuple[Dimension, ...]:
    """The dimensions by the xarray convention, or else without names."""
    names = node.attributes.get(ARRAY_DIMENSIONS)
    if not array.shape or names is None or not options.xarray:
        return anonymous_for(array.shape)
    place = Place(parent_of(node.path), array.shape, node.key(ZATTRS))
    return by_name(names, place, declared, node.problems)


def _none_declared(_group: str) -> Mapping[str, Dimension]:
    return {}
