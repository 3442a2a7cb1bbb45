"""The interface of metadata formats: documents in, nodes of the data model out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import CodecSpec, GroupHeader, Variable

T = TypeVar("T")

CONSOLIDATED = ".zmetadata"
"""The document that repeats all others of a dataset."""


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


@dataclass(frozen=True, slots=True)
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
    """

    xarray: bool = True
    pure: bool = False
    document_bytes_max: int = 16 << 20
    chunk_bytes_max: int = 2 << 30

    def bytes_max(self, key: str) -> int:
        """Return how large the document of a key may be."""
        is_copy = key.rpartition("/")[2] == CONSOLIDATED
        return self.document_bytes_max * (8 if is_copy else 1)


Node: TypeAlias = "GroupHeader | Variable"


@dataclass(frozen=True, slots=True)
class StoredType:
    """The stored form of the elements of a new variable.

    Attributes
    ----------
    filters : the codecs that must precede all others (variable-length types).
    """

    dtype: DataType
    filters: tuple[CodecSpec, ...] = ()


class MetadataFormat(ABC):
    """A reader and writer of the nodes of one dataset. It holds only what its root says.

    Attributes
    ----------
    declares : whether groups declare their dimensions and list their members; otherwise both are
        what the store holds.
    last_is_compressor : whether the last codec of a new array counts as its compressor.
    orders : that the elements inside the chunks of a new array can have; netcdf-c takes all for C.
    """

    name: str
    declares: bool
    last_is_compressor: bool
    orders: tuple[str, ...]

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

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the keys of all documents that can describe a node at `path`."""
        return tuple(dict.fromkeys((*self.array_keys(path), *self.group_keys(path))))

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
    def write_node(self, node: Node, documents: Documents) -> tuple[tuple[str, bytes], ...]:
        """Return the documents to write, in order, so that `node` is read at its path.

        Parts of existing documents that the format does not govern stay as they are spelled, and so
        does what `node` does not change. Documents without a change are left out.

        Parameters
        ----------
        node : complete, as it is to be read.
        documents : the present single documents, never consolidated ones.

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
