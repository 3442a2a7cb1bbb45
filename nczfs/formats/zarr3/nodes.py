"""``zarr.json`` documents: their members, and which of them a reader must know."""

from __future__ import annotations

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import Documents, FormatOptions
from nczfs.formats.jsontext import parse_object
from nczfs.formats.names import below
from nczfs.formats.problems import Problems
from nczfs.formats.zarr3.inline import CONSOLIDATED, split
from nczfs.formats.zarr3.names import ZARR_JSON
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

ATTRIBUTES = "attributes"

_GROUP = frozenset({"zarr_format", "node_type", ATTRIBUTES, CONSOLIDATED})
_ARRAY = frozenset(
    {
        "zarr_format",
        "node_type",
        ATTRIBUTES,
        "shape",
        "data_type",
        "chunk_grid",
        "chunk_key_encoding",
        "fill_value",
        "codecs",
        "storage_transformers",
        "dimension_names",
    }
)


@frozen
class NodeDocument:
    """The document of one node.

    Attributes
    ----------
    path : of the node.
    members : all of the document.
    is_array : whether the node is an array; otherwise it is a group.
    attributes : of the user and of conventions.
    problems : what was wrong so far; later readers add to it.
    key : of the document; for a dependent array with its name, for messages.
    """

    path: str
    members: dict[str, Json]
    is_array: bool
    attributes: dict[str, Json]
    problems: Problems
    key: str


def read_document(path: str, documents: Documents, options: FormatOptions) -> NodeDocument | None:
    """Read the document of the node at a path; None if there is none.

    Raises
    ------
    BadMetadata : it is not the document of a node. A node has no other documents, so nothing can
        be shown of it.
    Unsupported : it has another version, or a member that a reader must understand.

    Notes
    -----
    Zarr v3.1 core specification, "Array metadata" and "Group metadata".
    """
    key = below(path, ZARR_JSON)
    data = documents.get(key)
    if data is None:
        return None
    problems = Problems()
    own = split(data, key).own
    members, notes = parse_object(own, key, bytes_max=options.document_bytes_max)
    for note in notes:
        problems.add(note)
    return node_document(path, members, problems, key)


def node_document(
    path: str, members: dict[str, Json], problems: Problems, key: str
) -> NodeDocument:
    """Check the members of a document. Raises as `read_document`."""
    if "zarr_format" not in members:
        raise BadMetadata(f"{key}: zarr_format is missing")
    version = members["zarr_format"]
    if type(version) is not int or version != 3:
        raise Unsupported(f"{key}: zarr_format is {shown(version)}, not 3")
    kind = members.get("node_type")
    if kind not in ("array", "group"):
        found = "missing" if "node_type" not in members else shown(kind)
        raise BadMetadata(f"{key}: node_type is {found}, not 'array' or 'group'")
    is_array = kind == "array"
    for name, value in members.items():
        if name not in (_ARRAY if is_array else _GROUP) and not _may_be_ignored(value):
            raise Unsupported(f"{key}: member {shown(name)} is unknown and must be understood")
    attributes = members.get(ATTRIBUTES)
    if attributes is None:
        attributes = {}
    if not isinstance(attributes, dict):
        message = f"{key}: attributes {shown(attributes)} is not an object; there are none"
        problems.add(message, is_omission=True)
        attributes = {}
    return NodeDocument(path, members, is_array, attributes, problems, key)


def shape_of(members: dict[str, Json]) -> tuple[int, ...]:
    """Return the shape in a parsed document; an invalid length counts as 0."""
    shape = members.get("shape")
    sizes = shape if isinstance(shape, list) else []
    return tuple(size if isinstance(size, int) else 0 for size in sizes)


def _may_be_ignored(value: Json) -> bool:
    return isinstance(value, dict) and value.get("must_understand") is False
