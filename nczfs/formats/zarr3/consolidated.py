"""The consolidated metadata of Zarr v3: all documents of a dataset within that of its root."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.errors import BadMetadata
from nczfs.formats.base import Consolidated, ConsolidatedForm
from nczfs.formats.jsonparts import JsonPart, Parts
from nczfs.formats.jsontext import parse
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.formats.zarr3.inline import CONSOLIDATED, joined, object_of, split
from nczfs.formats.zarr3.names import ZARR_JSON
from nczfs.messages import shown
from nczfs.plaindata import frozen

MEMBERS_MAX = 1 << 18  # documents of one dataset: they are found within a second, in 100 MB

_WHERE = f"{ZARR_JSON}: {CONSOLIDATED}"
_ENTRY_BYTES = 400  # approximate memory of the index for a document
_EMPTY = {"kind": b'"inline"', "must_understand": b"false"}


@frozen
class _Positions(Consolidated):
    """The contents of a copy: the position of each document, none of them parsed."""

    _parts: Parts
    _documents: dict[str, JsonPart]
    nodes: frozenset[str]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(below(path, ZARR_JSON) for path in self._documents)

    @property
    def nbytes(self) -> int:
        return self._parts.size + _ENTRY_BYTES * len(self._documents)

    def text(self, key: str) -> bytes | None:
        part = self._documents.get(_path_of(key) or "")
        return None if part is None else split(self._parts.text(part), key).own

    def has_answer(self, key: str) -> bool:
        return _path_of(key) in self._documents


class _Form(ConsolidatedForm):
    """One member of the root's document, with the others by the paths of their nodes.

    Notes
    -----
    zarr-python puts an empty copy into each group within a copy; it says nothing about the group.
    """

    key = ZARR_JSON

    def has_copy(self, data: bytes) -> bool:
        return _copy_of(data) is not None

    def read(self, data: bytes) -> Consolidated | None:
        copy = _copy_of(data)
        if copy is None:
            return None
        parts = Parts(copy, _WHERE, members_max=MEMBERS_MAX)
        documents = _documents(parts)
        if not documents:
            return None
        return _Positions(parts, documents, frozenset(documents).union({""}))

    def made_of(self, documents: Mapping[str, bytes]) -> bytes:
        root = documents.get(self.key)
        if root is None:
            raise BadMetadata(f"{self.key}: is missing")
        metadata = {
            path: _strict(data, key) for key, data in documents.items() if (path := _path_of(key))
        }
        copy = object_of(_EMPTY | {"metadata": object_of(metadata)})
        return joined(_strict(root, self.key), copy)

    def updated(self, data: bytes, changed: Mapping[str, bytes | None]) -> bytes:
        found = split(data, self.key)
        if found.copy is None:
            raise BadMetadata(f"{_WHERE}: is missing")
        parts = Parts(found.copy, _WHERE, members_max=MEMBERS_MAX)
        documents = {path: parts.text(part) for path, part in _documents(parts).items()}
        for key, new in changed.items():
            path = _path_of(key)
            if not path:
                continue
            if new is None:
                documents.pop(path, None)
            else:
                documents[path] = _strict(new, key)
        members = {part.name: parts.text(part) for part in parts.members}
        members["metadata"] = object_of(documents)
        return joined(_strict(found.own, self.key), object_of(members))

    def emptied(self, data: bytes) -> bytes | None:
        return _strict(data, self.key)

    def as_repeated(self, data: bytes, key: str) -> bytes:
        return split(data, key).own


def _copy_of(data: bytes) -> memoryview | None:
    copy = split(data, ZARR_JSON).copy
    return None if copy is None or bytes(copy[:5]) == b"null" else copy


def _documents(parts: Parts) -> dict[str, JsonPart]:
    """Return the documents of a copy, by the paths of their nodes."""
    members = {part.name: part for part in parts.members}
    kind = members.get("kind")
    if kind is None or parts.text(kind) != b'"inline"':
        found = None if kind is None else parts.text(kind).decode("utf-8", "replace")
        raise BadMetadata(f"{_WHERE}: kind is {shown(found)}, not 'inline'")
    metadata = members.get("metadata")
    if metadata is None:
        raise BadMetadata(f"{_WHERE}: metadata is missing")
    return {part.name: part for part in parts.within(metadata)}


def _path_of(key: str) -> str | None:
    """Return the path of the node with a document; None: the key is that of no document."""
    path, _, name = key.rpartition("/")
    return path if name == ZARR_JSON else None


def _strict(data: bytes, key: str) -> bytes:
    """Return a document on one line, without its own copy."""
    return strict(parse(split(data, key).own, key).value).encode()


FORM: ConsolidatedForm = _Form()
