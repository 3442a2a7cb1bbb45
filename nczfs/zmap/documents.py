"""What some stores must know of documents, as data: stores know no format of metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ParquetDocuments:
    """The documents beside references in parquet.

    Attributes
    ----------
    key : of the one that holds all others, and says how many references a file has.
    array : the name of those that describe arrays.
    lengths_of : returns the shape and the chunk shape in one of these, unchecked, and the separator
        of chunk keys. It raises LookupError, AttributeError or TypeError if it has none.
    copy_of : returns the consolidated copy, from its members.
    """

    key: str
    array: str
    lengths_of: Callable[[Any], tuple[Any, Any, str]]
    copy_of: Callable[[Sequence[bytes]], bytes]


@dataclass(frozen=True, slots=True)
class KnownDocuments:
    """Names of documents: the last components of their keys.

    Attributes
    ----------
    arrays : each makes its prefix an array, below which there are only chunks.
    usual, others : of nodes. Servers do not list some of them; one that has any of `usual` is asked
        for `others`, too.
    copies : each has all keys of documents below its prefix in its member ``metadata``.
    parquet : None: references in parquet are not read.
    """

    arrays: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    parquet: ParquetDocuments | None = None


NONE = KnownDocuments()
