"""Formats that keep their metadata in the same documents, and how their datasets are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nczfs.formats.base import ConsolidatedForm, Documents, FormatOptions, MetadataFormat
from nczfs.formats.documentnames import DocumentNames

Opener: TypeAlias = Callable[[Documents, FormatOptions], MetadataFormat]
Maker: TypeAlias = Callable[[FormatOptions], MetadataFormat]


@dataclass(frozen=True)
class ParquetForm:
    """How documents lie beside references in parquet.

    Attributes
    ----------
    key : of the document that holds all others, and says how many references a file has.
    array : the name of those that describe arrays.
    lengths_of : returns the shape and the chunk shape in one of these, unchecked, and the separator
        of chunk keys. It raises LookupError, AttributeError or TypeError if it has none.
    copy_of : returns the consolidated copy, from its members.
    """

    key: str
    array: str
    lengths_of: Callable[[Any], tuple[Any, Any, str]]
    copy_of: Callable[[Sequence[bytes]], bytes]


@dataclass(frozen=True)
class FormatFamily:
    """Formats with the same documents.

    Attributes
    ----------
    names : of the documents.
    opened : returns the format of the dataset with its root here, where one of `names.nodes` or
        `names.hints` is. It raises MetadataError if the root cannot be read.
    copy : the form of the consolidated copy; None: there is none.
    makers : of the formats that a new dataset can have, by name.
    aliases : other names for some of them.
    parquet : the form of their documents beside references in parquet; None: they have none.
    """

    names: DocumentNames
    opened: Opener
    copy: ConsolidatedForm | None = None
    makers: Mapping[str, Maker] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    parquet: ParquetForm | None = None
