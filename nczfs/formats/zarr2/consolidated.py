"""The consolidated metadata of Zarr v2 (``.zmetadata``): all documents of a dataset in one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

from nczfs.errors import BadMetadata
from nczfs.formats.base import Consolidated, ConsolidatedForm
from nczfs.formats.jsonparts import JsonPart, Parts
from nczfs.formats.jsontext import compact, parse
from nczfs.formats.jsonwrite import strict
from nczfs.formats.zarr2.names import CONSOLIDATED
from nczfs.formats.zarr2.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

Data = TypeVar("Data", bytes, bytes | None)

KEY = CONSOLIDATED
MEMBERS_MAX = 1 << 20  # documents of one dataset; a hundred thousand arrays have a fifth of that

_DOCUMENTS = frozenset({ZARRAY, ZGROUP, ZATTRS})
_NEVER_BESIDE = (".ncz", "zarr.json")  # which netcdf-c then does not read, either
_OF_ZARR_PYTHON = "consolidated_metadata"
_ENTRY_BYTES = 400  # approximate memory of the index for a document


@frozen
class _Positions(Consolidated):
    """The contents of a ``.zmetadata``: the position of each document, none of them parsed.

    Attributes
    ----------
    nodes : the paths of its groups and arrays.
    """

    _parts: Parts
    _documents: dict[str, JsonPart]
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

    def has_answer(self, key: str) -> bool:
        """Return whether the copy is enough to know if a document exists."""
        path, name = _split(key)
        return path in self.nodes and (name in _DOCUMENTS or name.startswith(_NEVER_BESIDE))


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
    return _Positions(parts, documents, nodes)


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


class _Form(ConsolidatedForm):
    key = KEY

    def has_copy(self, data: bytes) -> bool:
        return True

    def read(self, data: bytes) -> Consolidated | None:
        return read_consolidated(data)

    def made_of(self, documents: Mapping[str, bytes]) -> bytes:
        return consolidated_document(documents)

    def updated(self, data: bytes, changed: Mapping[str, bytes | None]) -> bytes:
        return updated_document(data, changed)

    def emptied(self, data: bytes) -> bytes | None:
        return None

    def as_repeated(self, data: bytes, key: str) -> bytes:
        return data


FORM: ConsolidatedForm = _Form()
