"""The seam to metadata: documents in, nodes of the data model out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from nczfs.model.hierarchy import GroupHeader, Variable


class Documents(Protocol):
    """A store as the formats see it; keys are relative to the root of the dataset."""

    def get(self, key: str) -> bytes | None:
        """The document, None when the store says that there is none."""

    def fetch(self, keys: Iterable[str]) -> None:
        """Ask for several documents at once; `get` then answers from what came."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """How metadata is read.

    Attributes
    ----------
    xarray : whether ``_ARRAY_DIMENSIONS`` names dimensions (URL mode ``noxarray`` turns it off).
    pure : read as pure Zarr, although NCZarr keys are there (URL mode ``zarr``).
    document_bytes_max : a larger document is refused by name.
    chunk_bytes_max : a chunk that decodes to more is refused by name.
    """

    xarray: bool = True
    pure: bool = False
    document_bytes_max: int = 64 << 20
    chunk_bytes_max: int = 2 << 30


Node: TypeAlias = "GroupHeader | Variable"


class MetadataFormat(ABC):
    """Reads the nodes of one dataset. Holds what was learnt at its root, and nothing else."""

    name: str

    @abstractmethod
    def keys(self, path: str) -> tuple[str, ...]:
        """The documents that can describe the node at `path`, to be fetched together."""

    @abstractmethod
    def read_node(self, path: str, documents: Documents) -> Node | None:
        """The group or variable at `path` ("" is the root), None when there is no node.

        Raises
        ------
        MetadataError : a document is there and cannot be read; the message names its key.
        """
