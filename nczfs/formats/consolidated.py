"""``.zmetadata``: all documents of a hierarchy in one, and a format that reads nodes from it.

It is a cache, and nothing tells that it is stale: the single documents are the truth. Where they
cost little they are asked instead; what this module offers is for where a request is a round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from nczfs.errors import BadMetadata
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat, Node, StoredType
from nczfs.formats.jsontext import compact, parse
from nczfs.formats.jsonwrite import strict
from nczfs.formats.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.messages import shown
from nczfs.model.declaration import ElementType
from nczfs.model.hierarchy import CodecSpec, Json

Data = TypeVar("Data", bytes, bytes | None)

KEY = ".zmetadata"
MEMBERS_MAX = 1 << 23  # of all documents together; a hundred thousand arrays have half of that

_DOCUMENTS = frozenset({ZARRAY, ZGROUP, ZATTRS})
_NEVER_BESIDE = (".ncz", "zarr.json")


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What a ``.zmetadata`` holds.

    Attributes
    ----------
    documents : parsed, by their keys.
    nodes : the paths of the groups and arrays among them.
    """

    documents: dict[str, Json]
    nodes: frozenset[str]
    _texts: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def text(self, key: str) -> bytes | None:
        """A document as text again: it is read in one way, wherever it comes from."""
        if key not in self.documents:
            return None
        # A thousand variables look at what their group says.
        if (known := self._texts.get(key)) is None:
            known = self._texts[key] = compact(self.documents[key]).encode()
        return known


def read_consolidated(data: bytes, options: FormatOptions) -> Consolidated:
    """Read a ``.zmetadata``.

    Raises
    ------
    BadMetadata : not JSON, no ``metadata`` in it, or another version.

    Notes
    -----
    ``zarr_consolidated_format`` must be 1 and ``metadata`` a non-empty object, as netcdf-c demands.
    What zarr-python 3 adds to the groups (``consolidated_metadata``) is left out.
    """
    bytes_max = options.document_bytes_max
    document = parse(data, KEY, bytes_max=bytes_max, members_max=MEMBERS_MAX).value
    version = document.get("zarr_consolidated_format") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != 1 or isinstance(version, bool):
        raise BadMetadata(f"{KEY}: zarr_consolidated_format is {shown(version)}, not 1")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata:
        raise BadMetadata(f"{KEY}: metadata is not an object with documents")
    documents = {str(key): _own(key, value) for key, value in metadata.items()}
    places = (_split(key) for key in documents)
    return Consolidated(documents, frozenset(p for p, name in places if name in (ZARRAY, ZGROUP)))


class ConsolidatedDocuments:
    """The documents of a dataset as its ``.zmetadata`` has them; a `Documents`.

    A node that it knows is answered from it alone: what it lacks of the node is absent, and so are
    the documents that are never consolidated (Zarr v3, the first layout of NCZarr: netcdf-c reads
    that as pure Zarr too). For nodes that it does not know, added later, the store is asked.

    Parameters
    ----------
    inner : the documents of the store.
    found : what `read_consolidated` gave.
    """

    def __init__(self, inner: Documents, found: Consolidated) -> None:
        self._inner = inner
        self._found = found

    def get(self, key: str) -> bytes | None:
        if not self.has_answer(key):
            return self._inner.get(key)
        return self._found.text(key)

    def fetch(self, keys: Iterable[str]) -> None:
        self._inner.fetch([key for key in keys if not self.has_answer(key)])

    def consolidated_keys(self) -> tuple[str, ...]:
        """The keys of the documents that were consolidated."""
        return tuple(self._found.documents)

    def has_answer(self, key: str) -> bool:
        """Whether `get` answers without asking the store."""
        path, name = _split(key)
        return path in self._found.nodes and (name in _DOCUMENTS or name.startswith(_NEVER_BESIDE))

    def is_stale(self, key: str, data: bytes | None) -> bool:
        """Whether a document of the store says something else than the consolidated one."""
        consolidated = self._found.text(key)
        if consolidated is None or data is None:
            # No attributes are spelled in two ways.
            return (consolidated or b"{}", data or b"{}") != (b"{}", b"{}")
        try:
            single = parse(data, key).value
        except BadMetadata:
            return True
        # By value, and else by text, because NaN does not equal itself.
        return self._found.documents[key] != single and consolidated != compact(single).encode()


class ConsolidatedFormat(MetadataFormat):
    """Reads the nodes of a dataset from its ``.zmetadata``, by the rules of another format.

    When the document changes, it is read again; when it goes away or breaks, the single documents
    are asked.

    Parameters
    ----------
    inner : the format of the documents, as `detect` found it.
    options : how to read.
    """

    def __init__(self, inner: MetadataFormat, options: FormatOptions) -> None:
        self.name = inner.name
        self.declares = inner.declares
        self.last_is_compressor = inner.last_is_compressor
        self._inner = inner
        self._options = options
        self._known: tuple[bytes, Consolidated | None] | None = None

    @property
    def single(self) -> MetadataFormat:
        return self._inner.single

    def keys(self, path: str) -> tuple[str, ...]:
        return (KEY,)

    def read_node(self, path: str, documents: Documents) -> Node | None:
        return self._inner.read_node(path, self.view(documents))

    def write_node(self, node: Node, documents: Documents) -> tuple[tuple[str, bytes], ...]:
        return self._inner.write_node(node, documents)

    def stored_type(
        self,
        wanted: ElementType,
        *,
        byte_order: str | None,
        string_bytes: int | None,
        object_codec: CodecSpec | None = None,
    ) -> StoredType:
        return self._inner.stored_type(
            wanted, byte_order=byte_order, string_bytes=string_bytes, object_codec=object_codec
        )

    def view(self, documents: Documents) -> Documents:
        """The documents with the consolidated ones over them, where those can be read."""
        data = documents.get(KEY)
        if data is None:
            return documents
        known = self._known
        if known is None or known[0] != data:
            try:
                known = (data, read_consolidated(data, self._options))
            except BadMetadata:
                known = (data, None)
            self._known = known
        return documents if known[1] is None else ConsolidatedDocuments(documents, known[1])


def consolidated_document(documents: Mapping[str, bytes]) -> bytes:
    """The ``.zmetadata`` of a hierarchy.

    Parameters
    ----------
    documents : by their keys, in the order in which they shall stand there; those that are never
        consolidated are left out.

    Raises
    ------
    BadMetadata : one of them is broken.
    """
    metadata = {key: parse(data, key).value for key, data in _consolidable(documents)}
    return strict({"metadata": metadata, "zarr_consolidated_format": 1}).encode()


def updated_document(
    data: bytes, changed: Mapping[str, bytes | None], options: FormatOptions
) -> bytes:
    """A ``.zmetadata`` after some documents were written; all others stay as they are spelled.

    Parameters
    ----------
    changed : the new documents by their keys; None: deleted. New keys go to the end.

    Raises
    ------
    BadMetadata : the ``.zmetadata`` cannot be read, or a new document is broken.
    """
    bytes_max = options.document_bytes_max
    read_consolidated(data, options)
    document = parse(data, KEY, bytes_max=bytes_max, members_max=MEMBERS_MAX).value
    assert isinstance(document, dict)
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    for key, new in _consolidable(changed):
        if new is None:
            metadata.pop(key, None)
        else:
            metadata[key] = parse(new, key, bytes_max=bytes_max).value
    return strict(document).encode()


def _consolidable(documents: Mapping[str, Data]) -> Iterator[tuple[str, Data]]:
    return (item for item in documents.items() if _split(item[0])[1] in _DOCUMENTS)


def _own(key: str, document: Json) -> Json:
    """A document without the consolidated metadata that zarr-python 3 puts into each group."""
    if not isinstance(document, dict) or _split(key)[1] != ZGROUP:
        return document
    return {name: value for name, value in document.items() if name != "consolidated_metadata"}


def _split(key: str) -> tuple[str, str]:
    path, _, name = key.rpartition("/")
    return path, name
