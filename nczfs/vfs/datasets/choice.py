"""The choice of virtual files that a mount shows."""

from __future__ import annotations

from typing import Final

from nczfs.formats.base import Node
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.views.catalog import (
    ATTRIBUTES,
    CDL_SUFFIX,
    CHUNKS,
    INFO,
    LINES,
    PREVIEW,
    RAW,
    VARIABLE_VIEWS,
    ZOM,
)
from nczfs.views.netcdf.kinds import CLASSIC, NCSTREAM, NETCDF4

_SUFFIXES: Final = (CDL_SUFFIX, CLASSIC.suffix, NETCDF4.suffix, NCSTREAM.suffix)
"""Of the files that are named after a group; one that ends with another comes before it."""

COPY: Final = "copy"
"""The word of `--views` for the files that a copy of a dataset needs, each value once."""


@frozen
class Choice:
    """The words of `--views`; None shows everything.

    Attributes
    ----------
    lists_previews : whether listings have the pictures, too, which are found by their name anyway.
    """

    words: frozenset[str] | None = None
    lists_previews: bool = False

    @property
    def has_all(self) -> bool:
        """Whether everything is shown."""
        return self.words is None

    @property
    def is_for_copies(self) -> bool:
        """Whether programs that copy directories find each value once, and can write it."""
        return self.words is not None and COPY in self.words

    def has(self, name: str) -> bool:
        """Return whether virtual files of a name, or suffix, were asked for."""
        return self.words is None or view_word(name) in self.words

    def lists(self, name: str) -> bool:
        """Return whether a virtual file that is shown appears in the listing of its directory.

        Programs that read whole trees would otherwise have a picture made of everything.
        """
        return name != PREVIEW or self.lists_previews or self.words is not None

    def shows(self, node: Node, name: str) -> bool:
        """Return whether a virtual file or directory of a node is shown."""
        return self.has(name) or (self.is_for_copies and name in copied_names(node))


def copied_names(node: Node) -> tuple[str, ...]:
    """Return the files for a copy of a node; without a `values.raw` its lines are copied."""
    if not isinstance(node, Variable):
        return INFO, ATTRIBUTES
    return INFO, ATTRIBUTES, LINES if node.array.dtype.vlen is not None else RAW


def view_words() -> tuple[str, ...]:
    """Return the words that `--views` can have."""
    return (*VARIABLE_VIEWS, ATTRIBUTES, CHUNKS, ZOM, PREVIEW, *map(view_word, _SUFFIXES), COPY)


def view_word(name: str) -> str:
    """Return the word of `--views` for a file: its name, or the suffix if named after a group."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return suffix.removeprefix(".")
    return name
