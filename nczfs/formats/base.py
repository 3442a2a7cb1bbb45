"""The interface of metadata formats: documents in, nodes of the data model out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.names import below
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import (
    ChunkKeys,
    CodecChain,
    CodecSpec,
    GroupHeader,
    Json,
    Shards,
    Variable,
)
from nczfs.plaindata import frozen

T = TypeVar("T")


class Documents(Protocol):
    """A store as the formats see it. Keys are relative to the root of the dataset."""

    def get(self, key: str) -> bytes | None:
        """Return the document; None if the store has none."""

    def fetch(self, keys: Iterable[str]) -> None:
        """Request several documents at once; `get` then answers from the results."""

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        """Return the result of `make`, which may be cached as long as some documents are the same.

        Parameters
        ----------
        name : of the result, unique within the dataset.
        keys : of the documents that the result depends on.
        make : returns the result and its approximate bytes in memory.
        """


@frozen
class FormatOptions:
    """Options of reading and writing metadata.

    Attributes
    ----------
    xarray : whether ``_ARRAY_DIMENSIONS`` names dimensions, and is written (URL mode ``noxarray``
        turns it off).
    pure : whether to read as pure Zarr, even if there are NCZarr keys (URL mode ``zarr``).
    document_bytes_max : a larger document is refused by name. Consolidated metadata may have eight
        times as much.
    chunk_bytes_max : a chunk that decodes to more is refused by name.
    create_format : the name of the format of new datasets, where none is asked for; None: what the
        other options mean.
    """

    xarray: bool = True
    pure: bool = False
    document_bytes_max: int = 16 << 20
    chunk_bytes_max: int = 2 << 30
    create_format: str | None = None


Node: TypeAlias = "GroupHeader | Variable"


@frozen
class StoredType:
    """The stored form of the elements of a new variable.

    Attributes
    ----------
    filters : the codecs that must precede all others (variable-length types).
    """

    dtype: DataType
    filters: tuple[CodecSpec, ...] = ()


class Consolidated(ABC):
    """The contents of a consolidated copy.

    Attributes
    ----------
    nodes : the paths of its groups and arrays.
    """

    nodes: frozenset[str]

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The keys of the documents, in their order."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The approximate memory that it takes."""

    @abstractmethod
    def text(self, key: str) -> bytes | None:
        """Return the text of a document; None: there is none."""

    @abstractmethod
    def has_answer(self, key: str) -> bool:
        """Return whether the store need not be asked for a document, which may be absent."""


class ConsolidatedForm(ABC):
    """How formats repeat all documents of a dataset in one, which is then a cache of them.

    Attributes
    ----------
    key : of the document with the copy, below the root of the dataset. It may hold other things,
        too, and then exists without a copy.
    """

    key: str

    @abstractmethod
    def has_copy(self, data: bytes) -> bool:
        """Return whether the document holds a copy, which may be empty or broken."""

    @abstractmethod
    def read(self, data: bytes) -> Consolidated | None:
        """Find the documents in a copy; None: there is no copy, or an empty one.

        Raises BadMetadata.
        """

    @abstractmethod
    def made_of(self, documents: Mapping[str, bytes]) -> bytes:
        """Return the copy of a hierarchy.

        Parameters
        ----------
        documents : by their keys, in the desired order; those that are never consolidated are left
            out. That of `key` is among them if it holds other things.

        Raises
        ------
        BadMetadata : one of them is broken, or that of `key` is missing.
        """

    @abstractmethod
    def updated(self, data: bytes, changed: Mapping[str, bytes | None]) -> bytes:
        """Update a copy after documents were written; all others stay as they are spelled.

        Parameters
        ----------
        changed : the new documents by their keys; None: deleted. New keys go to the end.

        Raises
        ------
        BadMetadata : the copy cannot be read, or a new document is broken.
        """

    @abstractmethod
    def emptied(self, data: bytes) -> bytes | None:
        """Return the document without its copy; None: nothing is left of it. Raises BadMetadata."""

    @abstractmethod
    def as_repeated(self, data: bytes, key: str) -> bytes:
        """Return a single document without what a copy leaves out of it."""


class MetadataFormat(ABC):
    """A reader and writer of the nodes of one dataset. It holds only what its root says.

    Attributes
    ----------
    names : of its documents.
    copy : how all documents are repeated in one; None: they never are.
    declares : whether groups declare their dimensions and list their members; otherwise both are
        what the store holds.
    lists_unlimited : whether groups that declare no dimensions tell which of them are unlimited.
    is_netcdf : whether its types are those of netCDF: strings in cells of a fixed length are text,
        and the bits that rounding keeps are an attribute.
    orders : that the elements inside the chunks of a new array can have; netcdf-c takes all for C.
    keeps_nan_bits : whether a fill value can be any NaN; otherwise there is one.
    """

    name: str
    names: DocumentNames
    copy: ConsolidatedForm | None
    declares: bool
    lists_unlimited: bool
    is_netcdf: bool
    orders: tuple[str, ...]
    keeps_nan_bits: bool

    @property
    def single(self) -> MetadataFormat:
        """The format of the single documents, which take precedence over any copy."""
        return self

    @abstractmethod
    def array_keys(self, path: str) -> tuple[str, ...]:
        """Return the keys that describe an array at `path`; without the first there is none."""

    @abstractmethod
    def group_keys(self, path: str) -> tuple[str, ...]:
        """Return the keys of the documents that describe a group at `path`."""

    def array_key(self, path: str) -> str:
        """Return the key of the document that makes an array, and has its shape."""
        return self.array_keys(path)[0]

    def group_key(self, path: str) -> str:
        """Return the key of the document that makes a group."""
        return self.group_keys(path)[0]

    @abstractmethod
    def attributes_key(self, path: str) -> str:
        """Return the key of the document that has the attributes of a node."""

    @abstractmethod
    def consolidated_keys(self, path: str) -> tuple[str, ...]:
        """Return the keys of the documents of a node that a consolidated copy repeats, in order."""

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the keys of all documents that can describe a node at `path`."""
        return tuple(dict.fromkeys((*self.array_keys(path), *self.group_keys(path))))

    def keys_to_change(self, path: str) -> tuple[str, ...]:
        """Return the keys of all documents that are read before a node at `path` is written.

        They include those of other versions, beside which nothing is changed.
        """
        return (*self.keys(path), *(below(path, name) for name in self.names.rivals))

    def grows(self, variable: Variable) -> tuple[bool, ...]:
        """Return for each dimension whether any client may make a variable longer along it.

        Where groups declare their dimensions, only unlimited ones change (netCDF); other arrays can
        be resized along any (`zarr.Array.resize`).
        """
        return tuple(dimension.unlimited or not self.declares for dimension in variable.dimensions)

    def names_below(self, path: str, documents: Documents) -> tuple[str, ...] | None:
        """Return the names of the nodes right below a group, if one document has them all.

        Returns None if none does; the names are what the group lists, or what the store holds.
        """
        return None

    @abstractmethod
    def read_node(self, path: str, documents: Documents) -> Node | None:
        """Return the group or variable at `path` ("" is the root); None if there is no node.

        Raises
        ------
        MetadataError : a document exists but cannot be read; the message names its key.
        """

    @abstractmethod
    def write_node(
        self, node: Node, documents: Documents, found: Node | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        """Return the documents to write, in order, so that `node` is read at its path.

        Parts of existing documents that the format does not govern stay as they are spelled, and so
        does what `node` does not change. Documents without a change are left out.

        Parameters
        ----------
        node : complete, as it is to be read.
        documents : the present single documents, never consolidated ones.
        found : what `read_node` has found in them at the path; None: it is read.

        Raises
        ------
        Unsupported : the layout cannot hold it; the message names the path.
        BadMetadata : a broken document would be overwritten.
        """

    @abstractmethod
    def stored_type(
        self,
        wanted: ElementType,
        *,
        byte_order: str | None,
        string_bytes: int | None,
        object_codec: CodecSpec | None = None,
    ) -> StoredType:
        """Return how the elements of a new variable are stored.

        Parameters
        ----------
        byte_order : "<" or ">"; None: that of `wanted` if it has one, else little-endian.
        string_bytes : per string of fixed length; None: the format's default.
        object_codec : the codec from objects of variable length to bytes; None: they are texts.

        Raises
        ------
        Unsupported : the layout has no such type; the message names the remedy.
        """

    @abstractmethod
    def default_codecs(self, dtype: DataType) -> tuple[CodecSpec, ...]:
        """Return the codecs of a new variable for which none are wanted."""

    @abstractmethod
    def codec_chain(
        self, codecs: Sequence[CodecSpec], dtype: DataType, order: str = "C"
    ) -> CodecChain:
        """Return the codec chain of a new array.

        Parameters
        ----------
        codecs : the wanted codecs in encoding order, beginning with `StoredType.filters`.
        order : of the elements inside a chunk, one of `orders`.
        """

    def new_shards(self, shape: tuple[int, ...]) -> Shards | None:
        """Return how chunks lie in new shards of a shape; None: the format has no shards."""
        return None

    @abstractmethod
    def chunk_keys(self, separator: str | None) -> ChunkKeys:
        """Return the form of the chunk keys of a new array.

        Parameters
        ----------
        separator : "." or "/"; None: the usual one of the format.
        """

    @abstractmethod
    def stored_shape(self, data: bytes, key: str) -> tuple[int, ...]:
        """Return the shape in the document of an array, which the variable may differ from.

        Raises BadMetadata.
        """

    @abstractmethod
    def stored_attributes(self, data: bytes, key: str) -> Mapping[str, Json]:
        """Return all attributes in a document, also those that are no attributes of the node.

        Raises BadMetadata.
        """

    @abstractmethod
    def shape_and_note(self, data: bytes, key: str, name: str) -> tuple[tuple[int, ...], Json]:
        """Return `stored_shape`, and what nczfs has noted under a name there; None: nothing.

        Raises BadMetadata.
        """

    @abstractmethod
    def with_note(self, data: bytes, key: str, name: str, note: Json) -> bytes:
        """Return the document of an array with a note, which other programs ignore; None: without.

        Raises BadMetadata.
        """
