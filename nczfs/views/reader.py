"""Reading any byte range of any layout: the one algorithm for every view."""

from __future__ import annotations

from nczfs.buffers import Buffer
from nczfs.engine.options import Tally
from nczfs.views.layout import Layout


def read_at(
    layout: Layout, offset: int, size: int, tally: Tally, fresh_since: float = 0.0
) -> Buffer:
    """Return bytes [offset, offset + size) of a layout, cut at its end.

    Parameters
    ----------
    tally : counts the chunks that had to be loaded.
    fresh_since : chunks that were last confirmed before that time are confirmed again.
    """
    buffers = [
        piece.segment.read(piece.start, piece.stop, tally, fresh_since)
        for piece in layout.pieces(offset, offset + size)
    ]
    return _joined(buffers)


def read_if_cached(layout: Layout, offset: int, size: int, fresh_since: float) -> Buffer | None:
    """Return what `read_at` does, from memory alone and quickly, or None. Never blocks."""
    buffers: list[Buffer] = []
    for piece in layout.pieces(offset, offset + size):
        found = piece.segment.peek(piece.start, piece.stop, fresh_since)
        if found is None:
            return None
        buffers += found
    return _joined(buffers)


def request(layout: Layout, start: int, stop: int, tally: Tally, fresh_since: float) -> None:
    """Let other threads load the chunks under the bytes [start, stop) ahead."""
    for span in layout.spans(start, stop):
        span.source.request(span.first, span.stop, tally, fresh_since)


def _joined(buffers: list[Buffer]) -> Buffer:
    if len(buffers) == 1:
        return buffers[0]
    return b"".join(buffers)
