"""Writing any byte range of any layout: the inverse of `nczfs.views.reader`."""

from __future__ import annotations

from nczfs.buffers import Buffer
from nczfs.views.elements import WrittenElements
from nczfs.views.layout import Layout


def write_at(layout: Layout, offset: int, data: Buffer) -> None:
    """Replace the bytes of a layout from `offset` on; all of them lie in it.

    Raises
    ------
    NotPermitted : a byte would change that does not come from an array.
    BadValue : some bytes represent no element of its type. In both cases nothing was changed.
    CodecError, StoreError : some of it may be written.
    """
    for elements in elements_at(layout, offset, data):
        elements.write()


def elements_at(layout: Layout, offset: int, data: Buffer) -> list[WrittenElements]:
    """Return what `write_at` writes, checked to the last byte."""
    assert offset + len(data) <= layout.size
    found: list[WrittenElements] = []
    position = 0
    given = memoryview(data)
    for piece in layout.pieces(offset, offset + len(data)):
        part = given[position : position + piece.stop - piece.start]
        found += piece.segment.written(piece.start, part, offset + position)
        position += len(part)
    return found


def settled(layout: Layout, start: int, stop: int) -> int:
    """Return up to where [start, stop) can be written before later bytes are known.

    That is all of them, except a last line of text that does not end among them: half of it has no
    meaning.
    """
    for piece in layout.pieces(max(start, stop - 1), stop):
        begin = stop - piece.stop
        return begin + piece.segment.settled(max(start - begin, 0), piece.stop)
    return stop
