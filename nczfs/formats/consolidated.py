"""Documents read from the consolidated copy of a dataset, and a format that reads them.

The copy is a cache without a sign of being stale: the single documents take precedence. They are
read instead where that costs little; this module is for stores where a request is a round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from nczfs.errors import BadMetadata
from nczfs.formats.base import (
    Consolidated,
    ConsolidatedForm,
    Documents,
    MetadataFormat,
    Node,
    StoredType,
)
from nczfs.formats.jsontext import compact, parse
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ChunkKeys, CodecChain, CodecSpec, Json

T = TypeVar("T")

_NAME_BYTES = 100


class ConsolidatedDocuments:
    """The documents of a dataset as its consolidated copy has them; implements `Documents`.

    For a node that it contains it is the only source: documents that it lacks are absent, and so
    are those that are never consolidated. For nodes that were added later, the store is read.

    Parameters
    ----------
    inner : the documents of the store.
    form : of the copy.
    found : what it read.
    """

    def __init__(self, inner: Documents, form: ConsolidatedForm, found: Consolidated) -> None:
        self._inner = inner
        self._form = form
        self._found = found

    def get(self, key: str) -> bytes | None:
        if not self.has_answer(key):
            return self._inner.get(key)
        return self._found.text(key)

    def fetch(self, keys: Iterable[str]) -> None:
        self._inner.fetch([key for key in keys if not self.has_answer(key)])

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        asked = (key for key in keys if not self.has_answer(key))
        return self._inner.derived(name, (self._form.key, *asked), make)

    def consolidated_keys(self) -> tuple[str, ...]:
        """Return the keys of the documents that were consolidated."""
        return self._found.keys

    def has_answer(self, key: str) -> bool:
        """Return whether `get` answers without a request to the store."""
        return self._found.has_answer(key)

    def is_stale(self, key: str, data: bytes | None) -> bool:
        """Return whether a document of the store differs from the consolidated one."""
        consolidated = self._found.text(key)
        if consolidated is None or data is None:
            # Missing attributes have two spellings.
            return (consolidated or b"{}", data or b"{}") != (b"{}", b"{}")
        data = self._form.as_repeated(data, key)
        if consolidated == data:
            return False
        try:
            copy, single = parse(consolidated, key).value, parse(data, key).value
        except BadMetadata:
            return True
        # Compared by value, otherwise by text, because NaN does not equal itself.
        return copy != single and compact(copy) != compact(single)


class ConsolidatedFormat(MetadataFormat):
    """A reader of a dataset's nodes from its consolidated copy, by the rules of another format.

    When the copy changes, it is read again; when it disappears or breaks, the single documents
    are read.

    Parameters
    ----------
    inner : the format of the documents, as `detect` found it. It has a consolidated copy.
    """

    def __init__(self, inner: MetadataFormat) -> None:
        assert inner.copy is not None
        self.name = inner.name
        self.names = inner.names
        self.copy: ConsolidatedForm = inner.copy
        self.declares = inner.declares
        self.lists_unlimited = inner.lists_unlimited
        self.is_netcdf = inner.is_netcdf
        self.orders = inner.orders
        self.keeps_nan_bits = inner.keeps_nan_bits
        self._inner = inner

    @property
    def single(self) -> MetadataFormat:
        return self._inner.single

    def array_keys(self, path: str) -> tuple[str, ...]:
        return (self.copy.key,)

    def group_keys(self, path: str) -> tuple[str, ...]:
        return (self.copy.key,)

    def names_below(self, path: str, documents: Documents) -> tuple[str, ...] | None:
        def read() -> tuple[dict[str, list[str]] | None, int]:
            found = self._found_in(documents)
            if found is None:
                return None, 0
            names: dict[str, list[str]] = {}
            for node in sorted(found.nodes - {""}):
                above, _, name = node.rpartition("/")
                names.setdefault(above, []).append(name)
            return names, _NAME_BYTES * len(found.nodes)

        names = documents.derived("names in the consolidated metadata", (self.copy.key,), read)
        return None if names is None else tuple(names.get(path, ()))

    def read_node(self, path: str, documents: Documents) -> Node | None:
        found = self._found_in(documents)
        if found is not None:
            documents = ConsolidatedDocuments(documents, self.copy, found)
        return self._inner.read_node(path, documents)

    def _found_in(self, documents: Documents) -> Consolidated | None:
        """Return the contents of the copy; None: there is none, or it is broken."""

        def read() -> tuple[Consolidated | None, int]:
            data = documents.get(self.copy.key)
            try:
                found = None if data is None else self.copy.read(data)
            except BadMetadata:
                return None, 0
            return found, 0 if found is None else found.nbytes

        return documents.derived("consolidated metadata", (self.copy.key,), read)

    # The rest concerns single documents.

    def array_key(self, path: str) -> str:
        return self._inner.array_key(path)

    def group_key(self, path: str) -> str:
        return self._inner.group_key(path)

    def attributes_key(self, path: str) -> str:
        return self._inner.attributes_key(path)

    def consolidated_keys(self, path: str) -> tuple[str, ...]:
        return self._inner.consolidated_keys(path)

    def write_node(
        self, node: Node, documents: Documents, found: Node | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        return self._inner.write_node(node, documents, found)

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

    def default_codecs(self, dtype: DataType) -> tuple[CodecSpec, ...]:
        return self._inner.default_codecs(dtype)

    def codec_chain(
        self, codecs: Sequence[CodecSpec], dtype: DataType, order: str = "C"
    ) -> CodecChain:
        return self._inner.codec_chain(codecs, dtype, order)

    def chunk_keys(self, separator: str | None) -> ChunkKeys:
        return self._inner.chunk_keys(separator)

    def stored_shape(self, data: bytes, key: str) -> tuple[int, ...]:
        return self._inner.stored_shape(data, key)

    def stored_attributes(self, data: bytes, key: str) -> Mapping[str, Json]:
        return self._inner.stored_attributes(data, key)

    def shape_and_note(self, data: bytes, key: str, name: str) -> tuple[tuple[int, ...], Json]:
        return self._inner.shape_and_note(data, key, name)

    def with_note(self, data: bytes, key: str, name: str, note: Json) -> bytes:
        return self._inner.with_note(data, key, name, note)
