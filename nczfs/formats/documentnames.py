"""The names of the documents in which formats keep metadata, as data."""

from __future__ import annotations

import re
from functools import cached_property

from nczfs.plaindata import frozen


@frozen(slots=False)
class DocumentNames:
    """The names of the documents of related formats: the last components of their keys.

    Attributes
    ----------
    arrays, groups : each makes its prefix an array, or a group. A name that is in both makes it a
        node, of which only the contents say what it is.
    attributes : other documents that most nodes have.
    hints : documents by which a root is found that has none of `arrays` and `groups`.
    others : further documents of nodes.
    rare : those that only the first releases wrote.
    copy : the consolidated copy of all others, at the root; "": the formats have none.
    rivals : those of other versions that describe the same chunks, where both lie beside each
        other.
    chunks : matches whole names of chunks below their array.
    """

    arrays: tuple[str, ...]
    groups: tuple[str, ...]
    chunks: re.Pattern[str]
    attributes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    copy: str = ""
    rivals: tuple[str, ...] = ()

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Those that make their prefix a node."""
        return tuple(dict.fromkeys((*self.arrays, *self.groups)))

    @cached_property
    def usual(self) -> tuple[str, ...]:
        """Those that show what a node is, in most datasets."""
        return (*self.nodes, *self.attributes)

    @cached_property
    def at_root(self) -> tuple[str, ...]:
        """Those that show whether there is a dataset, and its format."""
        copy = (self.copy,) if self.copy else ()
        return tuple(dict.fromkeys((*self.usual, *copy, *self.hints)))

    @cached_property
    def single(self) -> frozenset[str]:
        """All but the consolidated copy."""
        return frozenset((*self.usual, *self.hints, *self.others, *self.rare))

    def is_chunk(self, name: str) -> bool:
        """Return whether a chunk can have a name below its array."""
        return self.chunks.fullmatch(name) is not None
