"""The seam to metadata: documents in, nodes of the data model out, and back."""

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
    """A store as the formats see it; keys are relative to the root of the dataset."""

    def get(self, key: str) -> bytes | None:
        """The document, None when the store says that there is none."""

    def fetch(self, keys: Iterable[str]) -> None:
        """Ask for several documents at once; `get` then answers from what came."""

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        """What `make` gives, which may be remembered as long as some documents stay the same.

        Parameters
        ----------
        name : of what is made; no other thing that is made for the dataset has it.
        keys : of the documents that it is made of.
        make : gives it, and about how many bytes it takes in memory.
        """


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """How metadata is read and written.

    Attributes
    ----------
    xarray : whether ``_ARRAY_DIMENSIONS`` names dimensions, and is written (URL mode ``noxarray``
        turns it off).
    pure : read as pure Zarr, although NCZarr keys are there (URL mode ``zarr``).
    document_bytes_max : a larger document is refused by name. One that repeats all documents of a
        dataset may have eight times as much.
    chunk_bytes_max : a chunk that decodes to more is refused by name.
    """

    xarray: bool = True
    pure: bool = False
    document_bytes_max: int = 16 << 20
    chunk_bytes_max: int = 2 << 30

    def bytes_max(self, key: str) -> int:
        """How large the document of a key may be."""
        is_copy = key.rpartition("/")[2] == CONSOLIDATED
        return self.document_bytes_max * (8 if is_copy else 1)


Node: TypeAlias = "GroupHeader | Variable"


@dataclass(frozen=True, slots=True)
class StoredType:
    """How the elements of a new variable are stored.

    Attributes
    ----------
    filters : the codecs that must stand in front of all others (variable-length types).
    """

    dtype: DataType
    filters: tuple[CodecSpec, ...] = ()


class MetadataFormat(ABC):
    """Reads and writes the nodes of one dataset. Holds what was learnt at its root, no more.

    Attributes
    ----------
    declares : groups declare their dimensions and list their members; else both are what the
        store holds.
    last_is_compressor : in new arrays the last codec is the compressor, whatever it is.
    """

    name: str
    declares: bool
    last_is_compressor: bool

    @property
    def single(self) -> MetadataFormat:
        """The format of the single documents, which are the truth whatever a copy of them says."""
        return self

    @abstractmethod
    def array_keys(self, path: str) -> tuple[str, ...]:
        """The documents that describe an array at `path`; without the first there is none."""

    @abstractmethod
    def group_keys(self, path: str) -> tuple[str, ...]:
        """The documents that describe a group at `path`."""

    def keys(self, path: str) -> tuple[str, ...]:
        """The documents that can describe the node at `path`, whatever it is."""
        return tuple(dict.fromkeys((*self.array_keys(path), *self.group_keys(path))))

    def names_below(self, path: str, documents: Documents) -> tuple[str, ...] | None:
        """The names of the nodes right below a group, where one document tells them all.

        None: none does; they are what the group lists, or what the store holds.
        """
        return None

    @abstractmethod
    def read_node(self, path: str, documents: Documents) -> Node | None:
        """The group or variable at `path` ("" is the root), None when there is no node.

        Raises
        ------
        MetadataError : a document is there and cannot be read; the message names its key.
        """

    @abstractmethod
    def write_node(self, node: Node, documents: Documents) -> tuple[tuple[str, bytes], ...]:
        """The documents to write, in this order, so that `node` is what is read at its path.

        What the format does not govern in the documents that are there stays as it is spelled, and
        so does what `node` does not change. A document that would not change is not among them.

        Parameters
        ----------
        node : complete, as it shall be read.
        documents : what is there now: the single documents, never consolidated ones.

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
        """How the elements of a new variable are stored.

        Parameters
        ----------
        byte_order : "<" or ">"; None: that of `wanted` if it has one, else little-endian.
        string_bytes : bytes of an element of fixed-length strings; None: the format's default.
        object_codec : what makes bytes of objects of any length; None: they are texts.

        Raises
        ------
        Unsupported : the layout has no such type; the message names the remedy.
        """
