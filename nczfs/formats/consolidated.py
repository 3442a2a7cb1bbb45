"""``.zmetadata``: all documents of a hierarchy in one, and a format that reads nodes from it.

It is a cache, and nothing tells that it is stale: the single documents are the truth. Where they
cost little they are asked instead; what this module offers is for where a request is a round trip.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nczfs.errors import BadMetadata
from nczfs.formats.base import CONSOLIDATED, Documents, MetadataFormat, Node, StoredType
from nczfs.formats.jsonparts import Part, Parts
from nczfs.formats.jsontext import compact, parse
from nczfs.formats.jsonwrite import strict
from nczfs.formats.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.messages import shown
from nczfs.model.declaration import ElementType
from nczfs.model.hierarchy import CodecSpec, Json

Data = TypeVar("Data", bytes, bytes | None)
T = TypeVar("T")

KEY = CONSOLIDATED
MEMBERS_MAX = 1 << 20  # documents of one dataset; a hundred thousand arrays have a fifth of that

_DOCUMENTS = frozenset({ZARRAY, ZGROUP, ZATTRS})
_NEVER_BESIDE = (".ncz", "zarr.json")
_OF_ZARR_PYTHON = "consolidated_metadata"
_NAME_BYTES = 100
_ENTRY_BYTES = 400  # about what the index takes for a document, besides the document


@dataclass(frozen=True, slots=True)
class Consolidated:
    """The content of a ``.zmetadata``: the position of each document; none of them is parsed.

    Attributes
    ----------
    nodes : the paths of the groups and arrays among them.
    """

    _parts: Parts
    _documents: dict[str, Part]
    nodes: frozenset[str]

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the documents, in their order."""
        return tuple(self._documents)

    @property
    def nbytes(self) -> int:
        """About what it takes in memory, the text included."""
        return self._parts.size + _ENTRY_BYTES * len(self._documents)

    def text(self, key: str) -> bytes | None:
        """The text of a document; None: there is none."""
        part = self._documents.get(key)
        if part is None:
            return None
        text = self._parts.text(part)
        is_doubled = _split(key)[1] == ZGROUP and _OF_ZARR_PYTHON.encode() in text
        return _without_copies(text, key) if is_doubled else text


def read_consolidated(data: bytes) -> Consolidated:
    """Find the documents in a ``.zmetadata``. They are parsed when they are needed.

    Raises
    ------
    BadMetadata : not JSON, no ``metadata`` in it, or another version.

    Notes
    -----
    ``zarr_consolidated_format`` must be 1 and ``metadata`` a non-empty object, as netcdf-c demands.
    What zarr-python 3 adds to the groups (``consolidated_metadata``) is left out.
    """
    parts = Parts(data, KEY, members_max=MEMBERS_MAX)
    members = {part.name: part for part in parts.members}
    version = members.get("zarr_consolidated_format")
    if version is None or parts.text(version) != b"1":
        found = None if version is None else parts.text(version).decode("utf-8", "replace")
        raise BadMetadata(f"{KEY}: zarr_consolidated_format is {shown(found)}, not 1")
    metadata = members.get("metadata")
    documents = {} if metadata is None else {part.name: part for part in parts.within(metadata)}
    if not documents:
        raise BadMetadata(f"{KEY}: metadata is not an object with documents")
    places = (_split(key) for key in documents)
    nodes = frozenset(path for path, name in places if name in (ZARRAY, ZGROUP))
    return Consolidated(parts, documents, nodes)


def _without_copies(text: bytes, key: str) -> bytes:
    """A ``.zgroup`` without the consolidated metadata that zarr-python 3 puts into each group."""
    try:
        document = parse(text, key).value
    except BadMetadata:
        return text
    if not isinstance(document, dict):
        return text
    own = {name: value for name, value in document.items() if name != _OF_ZARR_PYTHON}
    return compact(own).encode()


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

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        asked = (key for key in keys if not self.has_answer(key))
        return self._inner.derived(name, (KEY, *asked), make)

    def consolidated_keys(self) -> tuple[str, ...]:
        """The keys of the documents that were consolidated."""
        return self._found.keys

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
        if consolidated == data:
            return False
        try:
            copy, single = parse(consolidated, key).value, parse(data, key).value
        except BadMetadata:
            return True
        # By value, and else by text, because NaN does not equal itself.
        return copy != single and compact(copy) != compact(single)


class ConsolidatedFormat(MetadataFormat):
    """Reads the nodes of a dataset from its ``.zmetadata``, by the rules of another format.

    When the document changes, it is read again; when it goes away or breaks, the single documents
    are asked.

    Parameters
    ----------
    inner : the format of the documents, as `detect` found it.
    """

    def __init__(self, inner: MetadataFormat) -> None:
        self.name = inner.name
        self.declares = inner.declares
        self.last_is_compressor = inner.last_is_compressor
        self._inner = inner

    @property
    def single(self) -> MetadataFormat:
        return self._inner.single

    def array_keys(self, path: str) -> tuple[str, ...]:
        return (KEY,)

    def group_keys(self, path: str) -> tuple[str, ...]:
        return (KEY,)

    def names_below(self, path: str, documents: Documents) -> tuple[str, ...] | None:
        def read() -> tuple[dict[str, list[str]] | None, int]:
            found = _found_in(documents)
            if found is None:
                return None, 0
            names: dict[str, list[str]] = {}
            for node in sorted(found.nodes - {""}):
                above, _, name = node.rpartition("/")
                names.setdefault(above, []).append(name)
            return names, _NAME_BYTES * len(found.nodes)

        names = documents.derived("names in the consolidated metadata", (KEY,), read)
        return None if names is None else tuple(names.get(path, ()))

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
        found = _found_in(documents)
        return documents if found is None else ConsolidatedDocuments(documents, found)


def _found_in(documents: Documents) -> Consolidated | None:
    """The content of the ``.zmetadata`` among documents; None: there is none, or it is broken."""

    def read() -> tuple[Consolidated | None, int]:
        data = documents.get(KEY)
        try:
            found = None if data is None else read_consolidated(data)
        except BadMetadata:
            return None, 0
        return found, 0 if found is None else found.nbytes

    return documents.derived("consolidated metadata", (KEY,), read)


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
    metadata = {
        key: strict(parse(data, key).value).encode() for key, data in _consolidable(documents)
    }
    return _object({"metadata": _object(metadata), "zarr_consolidated_format": b"1"})


def updated_document(data: bytes, changed: Mapping[str, bytes | None]) -> bytes:
    """A ``.zmetadata`` after some documents were written; all others stay as they are spelled.

    Parameters
    ----------
    changed : the new documents by their keys; None: deleted. New keys go to the end.

    Raises
    ------
    BadMetadata : the ``.zmetadata`` cannot be read, or a new document is broken.
    """
    read_consolidated(data)
    parts = Parts(data, KEY, members_max=MEMBERS_MAX)
    members = {part.name: part for part in parts.members}
    documents = {part.name: parts.text(part) for part in parts.within(members["metadata"])}
    for key, new in _consolidable(changed):
        if new is None:
            documents.pop(key, None)
        else:
            documents[key] = strict(parse(new, key).value).encode()
    values = {name: parts.text(part) for name, part in members.items()}
    values["metadata"] = _object({key: _strict_text(text) for key, text in documents.items()})
    return _object(values)


def _object(members: Mapping[str, bytes]) -> bytes:
    named = (
        b"%b: %b" % (strict(name).encode("utf-8", "surrogateescape"), value)
        for name, value in members.items()
    )
    return b"{" + b", ".join(named) + b"}"


def _strict_text(text: bytes) -> bytes:
    """A document as it is spelled if that is JSON; what netcdf-c writes besides becomes JSON."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        return strict(parse(text, KEY).value).encode()
    return text


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
