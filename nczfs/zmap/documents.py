"""What some stores must know of documents, as data: stores know no format of metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nczfs.plaindata import frozen


@frozen
class ParquetDocuments:
    """The documents beside references in parquet.

    Attributes
    ----------
    key : of the one that holds all others, and says how many references a file has.
    array : the name of those that describe arrays.
    lengths_of : returns the shape and the chunk shape in one of these, unchecked, and the separator
        of chunk keys. It raises LookupError, AttributeError or TypeError if it has none.
    copy_of : returns the consolidated copy, from its members.
    unreferenced : the names of documents of formats that have no references in parquet.
    """

    key: str
    array: str
    lengths_of: Callable[[Any], tuple[Any, Any, str]]
    copy_of: Callable[[Sequence[bytes]], bytes]
    unreferenced: tuple[str, ...] = ()


@frozen
class InlineCopies:
    """Consolidated metadata that lie in documents of groups.

    Attributes
    ----------
    document : the name of the document of each node.
    members : lead to the object that has the documents of all nodes below, by their paths.
    array : a member and its value, which show that a document is one of an array.
    """

    document: str
    members: tuple[str, ...]
    array: tuple[str, str]


@frozen
class KnownDocuments:
    """Names of documents: the last components of their keys.

    Attributes
    ----------
    arrays : each makes its prefix an array, below which there are only chunks.
    usual, others : of nodes. Servers do not list some of them; one that has any of `usual` is asked
        for `others`, too.
    copies : each has all keys of documents below its prefix in its member ``metadata``.
    inline : None: no document of a group has those of others.
    parquet : None: references in parquet are not read.
    """

    arrays: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    parquet: ParquetDocuments | None = None
    inline: InlineCopies | None = None


NONE = KnownDocuments()
