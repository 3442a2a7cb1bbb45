"""XML documents of a server, read element by element within limits.

A tree of a document takes fifty times the document's memory, and no other thread runs while it is
built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias
from xml.parsers import expat

ELEMENTS_MAX: Final = 100_000  # a page has a thousand objects of some ten elements
DEPTH_MAX: Final = 16
TAG_BYTES_MAX: Final = 16 << 10  # of one tag with its attributes

_PIECE_BYTES: Final = 64 << 10


class Excessive(ValueError):
    """A document exceeds a limit, or has what no document of S3 has."""


Take: TypeAlias = Callable[[tuple[str, ...], str], None]


def read_document(document: bytes, take: Take) -> None:
    """Call `take` with the path and the text of each element, when it ends.

    A path has local names from the root on. Elements of a namespace other than the root's are left
    out, with all in them. The text of an element with others in it is "".

    Raises
    ------
    Excessive : it has a document type (with entities that expand), a tag of many kilobytes, or more
        elements or levels than the limits.
    ValueError : it is not XML.
    """
    reader = _Reader(take)
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        for at in range(0, len(document), _PIECE_BYTES):
            piece = document[at : at + _PIECE_BYTES]
            parser.Parse(piece, False)
            if at + len(piece) - parser.CurrentByteIndex > _PIECE_BYTES + TAG_BYTES_MAX:
                raise Excessive(f"a tag of more than {TAG_BYTES_MAX} bytes")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from error


def check_document(document: bytes) -> None:
    """Read a document, so that another parser may. Raises as `read_document`."""
    read_document(document, lambda path, text: None)


class _Reader:
    """What the parser calls."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._path: list[str] = []
        self._text: list[str] | None = None
        self._space = ""
        self._foreign = 0  # open elements from the first one of another namespace on
        self._count = 0

    def start(self, tag: str, _: Any) -> None:
        self._count += 1
        if self._count > ELEMENTS_MAX:
            raise Excessive(f"more than {ELEMENTS_MAX} elements")
        space, _, name = tag.rpartition("}")
        if not self._path:
            self._space = space
        if self._foreign or space != self._space:
            self._foreign += 1
        else:
            self._path.append(name)
        if len(self._path) + self._foreign > DEPTH_MAX:
            raise Excessive(f"more than {DEPTH_MAX} levels")
        self._text = []

    def data(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def end(self, _: str) -> None:
        if self._foreign:
            self._foreign -= 1
        else:
            self._take(tuple(self._path), "".join(self._text or ()))
            self._path.pop()
        self._text = None

    def doctype(self, *_: object) -> None:
        raise Excessive("it has a document type")
