"""Formats that keep their metadata in the same documents, and how their datasets are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nczfs.formats.base import ConsolidatedForm, Documents, FormatOptions, MetadataFormat
from nczfs.formats.documentnames import DocumentNames

Opener: TypeAlias = Callable[[Documents, FormatOptions], MetadataFormat]
Maker: TypeAlias = Callable[[FormatOptions], MetadataFormat]


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
    """

    names: DocumentNames
    opened: Opener
    copy: ConsolidatedForm | None = None
    makers: Mapping[str, Maker] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
