"""Formats that keep their metadata in the same documents, and how their datasets are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from nczfs.formats.base import ConsolidatedForm, Documents, FormatOptions, MetadataFormat, Node
from nczfs.formats.documentnames import DocumentNames
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

Opener: TypeAlias = Callable[[Documents, FormatOptions], MetadataFormat]
Maker: TypeAlias = Callable[[FormatOptions], MetadataFormat]


@frozen(slots=False)
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


@frozen(slots=False)
class Conversion:
    """How the nodes of older formats are described again by a newer one, with the same chunks.

    Attributes
    ----------
    old : the names of the documents of the older formats.
    name : of the new document that each node gets.
    new : makes the format that reads it.
    document_of : returns the new document of a node, from the node, its attributes as they are
        stored (None: as the node has them), and the key of its old document, for messages. It
        raises Unsupported if the new format cannot say it.
    copy : how the document of the root repeats all others.
    """

    old: DocumentNames
    name: str
    new: Maker
    document_of: Callable[[Node, Mapping[str, Json] | None, str], bytes]
    copy: ConsolidatedForm


@frozen(slots=False)
class InlineForm:
    """How the document of a group repeats those of all nodes below, by their paths.

    Attributes
    ----------
    document : its name, which is that of all documents.
    members : lead to the object with the others, each inside of the one before.
    array : a member and its value, which show that a document is one of an array.
    """

    document: str
    members: tuple[str, ...]
    array: tuple[str, str]


@frozen(slots=False)
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
    inline : the form of consolidated copies that lie in documents of groups; None: none do.
    parquet : the form of their documents beside references in parquet; None: they have none.
    conversion : how nodes of older formats become nodes of these; None: they cannot.
    """

    names: DocumentNames
    opened: Opener
    copy: ConsolidatedForm | None = None
    makers: Mapping[str, Maker] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    parquet: ParquetForm | None = None
    inline: InlineForm | None = None
    conversion: Conversion | None = None
