"""Consolidated metadata (``.zmetadata``): all documents in one, and a format that reads it.

It is a cache without a sign of being stale: the single documents take precedence. They are read
instead where that costs little; this module is for stores where a request is a round trip.
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
_ENTRY_BYTES = 400  # approximate memory of the index for a document


@dataclass(frozen=True, slots=True)
class Consolidated:
    """The contents of a ``.zmetadata``: the position of each document, none of them parsed.

    Attributes
    ----------
    nodes : the paths of its groups and arrays.
    """

    _parts: Parts
    _documents: dict[str, Part]
    nodes: frozenset[str]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the documents, in their order."""
        return tuple(self._documents)

    @property
    def nbytes(self) -> int:
        """The approximate memory that it takes, including the text."""
        return self._parts.size + _ENTRY_BYTES * len(self._documents)

    def text(self, key: str) -> bytes | None:
        """Return the text of a document; None: there is none."""
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
    BadMetadata : it is not JSON, has no ``metadata``, or has another version.

    Notes
    -----
    ``zarr_consolidated_format`` must be 1 and ``metadata`` a non-empty object, as netcdf-c
    requires. The additions of zarr-python 3 to groups (``consolidated_metadata``) are left out.
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
    """Return a ``.zgroup`` without the consolidated metadata that zarr-python 3 adds to it."""
    try:
        document = parse(text, key).value
    except BadMetadata:
        return text
    if not isinstance(document, dict):
        return text
    own = {name: value for name, value in document.items() if name != _OF_ZARR_PYTHON}
    return compact(own).encode()


class ConsolidatedDocuments:
    """The documents of a dataset as its ``.zmetadata`` has them; implements `Documents`.

    For a node that it contains it is the only source: documents that it lacks are absent, and so
    are those that are never consolidated (Zarr v3, and the first layout of NCZarr, which netcdf-c
    then reads as pure Zarr, too). For nodes that were added later, the store is read.

    Parameters
    ----------
    inner : the documents of the store.
    found : the result of `read_consolidated`.
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
        """Return the keys of the documents that were consolidated."""
        return self._found.keys

    def has_answer(self, key: str) -> bool:
        """Return whether `get` answers without a request to the store."""
        path, name = _split(key)
        return path in self._found.nodes and (name in _DOCUMENTS or name.startswith(_NEVER_BESIDE))

    def is_stale(self, key: str, data: bytes | None) -> bool:
        """Return whether a document of the store differs from the consolidated one."""
        consolidated = self._found.text(key)
        if consolidated is None or data is None:
            # Missing attributes have two spellings.
            return (consolidated or b"{}", data or b"{}") != (b"{}", b"{}")
        if consolidated == data:
            return False
        try:
            copy, single = parse(consolidated, key).value, parse(data, key).value
        except BadMetadata:
            return True
        # Compared by value, otherwise by text, because NaN does not equal itself.
        return copy != single and compact(copy) != compact(single)


class ConsolidatedFormat(MetadataFormat):
    """A reader of a dataset's nodes from its ``.zmetadata``, by the rules of another format.

    When the document changes, it is read again; when it disappears or breaks, the single documents
    are read.

    Parameters
    ----------
    inner : the format of the documents, as `detect` found it.
    """

    def __init__(self, inner: MetadataFormat) -> None:
        self.name = inner.name
        self.declares = inner.declares
        self.last_is_compressor = inner.last_is_compressor
        self.orders = inner.orders
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
        """Return the documents, replaced by the consolidated ones if those can be read."""
        found = _found_in(documents)
        return documents if found is None else ConsolidatedDocuments(documents, found)


def _found_in(documents: Documents) -> Consolidated | None:
    """Return the contents of the ``.zmetadata``; None: there is none, or it is broken."""

    def read() -> tuple[Consolidated | None, int]:
        data = documents.get(KEY)
        try:
            found = None if data is None else read_consolidated(data)
        except BadMetadata:
            return None, 0
        return found, 0 if found is None else found.nbytes

    return documents.derived("consolidated metadata", (KEY,), read)


def consolidated_document(documents: Mapping[str, bytes]) -> bytes:
    """Return the ``.zmetadata`` of a hierarchy.

    Parameters
    ----------
    documents : by their keys, in the desired order; those that are never consolidated are left out.

    Raises
    ------
    BadMetadata : one of them is broken.
    """
    metadata = {
        key: strict(parse(data, key).value).encode() for key, data in _consolidable(documents)
    }
    return _object({"metadata": _object(metadata), "zarr_consolidated_format": b"1"})


def updated_document(data: bytes, changed: Mapping[str, bytes | None]) -> bytes:
    """Update a ``.zmetadata`` after documents were written; all others stay as they are spelled.

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
    """Return a document as it is spelled if it is JSON; netcdf-c's extensions become JSON."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        return strict(parse(text, KEY).value).encode()
    return text


def _consolidable(documents: Mapping[str, Data]) -> Iterator[tuple[str, Data]]:
    return (item for item in documents.items() if _split(item[0])[1] in _DOCUMENTS)


def _own(key: str, document: Json) -> Json:
    """Return a document without the consolidated metadata that zarr-python 3 adds to groups."""
    if not isinstance(document, dict) or _split(key)[1] != ZGROUP:
        return document
    return {name: value for name, value in document.items() if name != "consolidated_metadata"}


def _split(key: str) -> tuple[str, str]:
    path, _, name = key.rpartition("/")
    return path, name
