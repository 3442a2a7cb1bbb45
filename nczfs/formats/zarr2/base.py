"""What pure Zarr v2 and NCZarr have in common: documents, their keys, and codecs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from nczfs.formats.base import Documents, FormatOptions, MetadataFormat, Node
from nczfs.formats.jsontext import parse_object
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.formats.rewriting import Encoding, existing_node, rewrite
from nczfs.formats.zarr2.consolidated import FORM
from nczfs.formats.zarr2.names import NAMES
from nczfs.formats.zarr2.nodes import (
    ZARRAY,
    ZATTRS,
    ZGROUP,
    NodeDocuments,
    read_documents,
    shape_of,
)
from nczfs.formats.zarr2.write import forget_fill
from nczfs.model.hierarchy import ChunkKeys, GroupHeader, Json, Variable


class Zarr2Documents(MetadataFormat):
    """A format that keeps nodes in the documents of Zarr v2.

    Parameters
    ----------
    options : how to read and write.
    """

    names = NAMES
    copy = FORM
    lists_unlimited = False

    def __init__(self, options: FormatOptions) -> None:
        self._options = options

    def array_keys(self, path: str) -> tuple[str, ...]:
        return below(path, ZARRAY), below(path, ZATTRS)

    def group_keys(self, path: str) -> tuple[str, ...]:
        return below(path, ZGROUP), below(path, ZATTRS)

    def attributes_key(self, path: str) -> str:
        return below(path, ZATTRS)

    def consolidated_keys(self, path: str) -> tuple[str, ...]:
        return tuple(below(path, name) for name in (ZGROUP, ZARRAY, ZATTRS))

    def read_node(self, path: str, documents: Documents) -> Node | None:
        # `detect` has found that this is a root; netcdf-c takes it without .zgroup, too.
        node = read_documents(path, documents, self._options, is_known=path == "")
        if node is None:
            return None
        if node.array is None:
            return self._header(node, documents)
        return self._variable(node, node.array, documents)

    @abstractmethod
    def _header(self, node: NodeDocuments, documents: Documents) -> GroupHeader:
        """Return the group that documents describe."""

    @abstractmethod
    def _variable(
        self, node: NodeDocuments, document: dict[str, Json], documents: Documents
    ) -> Variable:
        """Return the variable that documents describe; `document` is its ``.zarray``."""

    def write_node(
        self, node: Node, documents: Documents, found: Node | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        if isinstance(node, Variable):
            variable = existing_node(self, node, documents, found)
            current, wanted = self._variable_encodings(node, variable, documents)
            if variable is not None and current is not None:
                forget_fill(current, variable, node)
        else:
            group = existing_node(self, node, documents, found)
            current, wanted = self._group_encodings(node, group, documents)
            if current is not None and documents.get(self.group_key(node.path)) is None:
                current[ZGROUP].clear()
        return rewrite(node.path, documents, current, wanted, self._options)

    @abstractmethod
    def _group_encodings(
        self, header: GroupHeader, existing: GroupHeader | None, documents: Documents
    ) -> tuple[Encoding | None, Encoding]:
        """Return the encodings of a group as it is read now, and as it is to be.

        Raises as `write_node`.
        """

    @abstractmethod
    def _variable_encodings(
        self, variable: Variable, existing: Variable | None, documents: Documents
    ) -> tuple[Encoding | None, Encoding]:
        """Return the encodings of a variable as it is read now, and as it is to be.

        Raises as `write_node`.
        """

    def chunk_keys(self, separator: str | None) -> ChunkKeys:
        return ChunkKeys(separator or ".")

    def stored_shape(self, data: bytes, key: str) -> tuple[int, ...]:
        return shape_of(parse_object(data, key)[0])

    def stored_attributes(self, data: bytes, key: str) -> Mapping[str, Json]:
        return parse_object(data, key)[0]

    def shape_and_note(self, data: bytes, key: str, name: str) -> tuple[tuple[int, ...], Json]:
        document, _ = parse_object(data, key)
        return shape_of(document), document.get(name)

    def with_note(self, data: bytes, key: str, name: str, note: Json) -> bytes:
        # "Other keys should not be present within the metadata object and should be ignored by
        # implementations" (Zarr v2 specification, "Metadata").
        document, _ = parse_object(data, key)
        rest = {member: value for member, value in document.items() if member != name}
        if note is not None:
            rest[name] = note
        return strict(rest).encode()
