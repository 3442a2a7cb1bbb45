"""Nodes as metadata documents, and metadata documents as nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.errors import BadMetadata
from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.jsontext import parse_object
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.formats.zarr2.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.formats.zarr3.inline import split
from nczfs.formats.zarr3.names import ZARR_JSON
from nczfs.formats.zom.nodes import ArrayV2, Node, walk
from nczfs.formats.zom.reading import read
from nczfs.formats.zom.writing import document_of
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen


@frozen
class NodeKeys:
    """The names of the documents of a node.

    Attributes
    ----------
    array, group : of which one makes it an array or a group.
    attributes : of the document with its attributes; None: it is in the others.
    """

    array: str
    group: str
    attributes: str | None

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the keys of all documents that a node at a path may have."""
        names = dict.fromkeys((self.array, self.group, *filter(None, (self.attributes,))))
        return tuple(below(path, name) for name in names)


V2_KEYS = NodeKeys(ZARRAY, ZGROUP, ZATTRS)
V3_KEYS = NodeKeys(ZARR_JSON, ZARR_JSON, None)


def keys_of(zarr_format: int) -> NodeKeys:
    """Return the names of the documents of a version of Zarr."""
    return V2_KEYS if zarr_format == 2 else V3_KEYS


def zarr_format_of(names: DocumentNames) -> int:
    """Return the version of Zarr of a format, by the names of its documents."""
    return 3 if ZARR_JSON in names.arrays else 2


def keys_for(names: DocumentNames) -> NodeKeys:
    """Return the names of the documents of a node, by those of a format."""
    return keys_of(zarr_format_of(names))


def node_of(documents: Mapping[str, bytes], where: str) -> Node | None:
    """Return the node that documents describe, a group without members; None: there is none.

    Parameters
    ----------
    documents : of this node, by the last components of their keys. They may have what netcdf-c
        writes beyond JSON.
    where : their common prefix, for messages.

    Raises
    ------
    BadMetadata : they describe no node. The error's pointer leads into the node.
    """
    if ZARR_JSON in documents:
        key = below(where, ZARR_JSON)
        members = dict(parse_object(split(documents[ZARR_JSON], key).own, key)[0])
        return _read(members, key)
    for name in (ZARRAY, ZGROUP):
        if name in documents:
            key = below(where, name)
            members = dict(parse_object(documents[name], key)[0])
            if "attributes" in members:
                raise BadMetadata(f"{key}: attributes: Zarr v2 keeps them in another document")
            if ZATTRS in documents:
                attributes = below(where, ZATTRS)
                members["attributes"] = parse_object(documents[ZATTRS], attributes)[0]
            if name == ZGROUP:
                members.pop("shape", None)
            elif "shape" not in members:
                raise BadMetadata(f"{key}: shape is missing")
            return _read(members, key)
    return None


def documents_of(node: Node) -> Iterator[tuple[str, bytes]]:
    """Yield the documents of a node, the one that makes it visible last, by their names."""
    members = document_of(node, is_explicit=True)
    attributes: dict[str, Json] = dict(node.attributes)
    _restore(members)
    if node.zarr_format == 3:
        yield ZARR_JSON, _bytes({**members, "attributes": attributes})
        return
    if attributes:
        yield ZATTRS, _bytes(attributes)
    yield ZARRAY if isinstance(node, ArrayV2) else ZGROUP, _bytes(members)


def consolidated(node: Node) -> dict[str, Json]:
    """Return the consolidated metadata of a hierarchy.

    For Zarr v2 this is the whole document; for v3 the member of the root's document.
    """
    metadata: dict[str, Json] = {}
    for path, each in walk(node):
        members = document_of(each, is_explicit=True)
        attributes: dict[str, Json] = dict(each.attributes)
        _restore(members)
        if each.zarr_format == 2:
            name = ZARRAY if isinstance(each, ArrayV2) else ZGROUP
            metadata[below(path[1:], name)] = members
            metadata[below(path[1:], ZATTRS)] = attributes
        elif path:
            metadata[path[1:]] = {**members, "attributes": attributes}
    if node.zarr_format == 2:
        return {"zarr_consolidated_format": 1, "metadata": metadata}
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def _read(members: dict[str, Json], key: str) -> Node:
    """Read a document, of which a member called ``members`` has another name in the model."""
    if "members" in members:
        members[_free(members)] = members.pop("members")
    try:
        return read(members)
    except BadMetadata as error:
        raise BadMetadata(f"{key}: {error}", error.pointer) from error


def _free(members: Mapping[str, Json]) -> str:
    name = "_members"
    while name in members:
        name = f"_{name}"
    return name


def _restore(members: dict[str, Json]) -> None:
    """Call the member that `_free` has named ``members`` again.

    A document with ``_members`` and no ``members`` cannot be told from that; the model has no
    sign for it.
    """
    name = _free(members).removeprefix("_")
    if name != "members":
        members["members"] = members.pop(name)


def _bytes(members: dict[str, Json]) -> bytes:
    return strict(members).encode()
