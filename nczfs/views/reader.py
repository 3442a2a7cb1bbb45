"""Any byte range of any layout: the one algorithm that every view is read by."""

from __future__ import annotations

import numpy as np

from nczfs.engine.options import Tally
from nczfs.views.layout import Buffer, Layout, Literal, Piece, Run

# A range from memory is put together on the event loop up to this size: what costs more than about
# a fifth of a millisecond belongs in a thread.
PEEK_ASSEMBLED_BYTES_MAX = 1 << 20
PEEK_RENDERED_BYTES_MAX = 64 << 10


def read_at(
    layout: Layout, offset: int, size: int, tally: Tally, fresh_since: float = 0.0
) -> Buffer:
    """Bytes [offset, offset + size) of a layout, cut at its end.

    Parameters
    ----------
    tally : counts the chunks that had to be loaded.
    fresh_since : chunks that were confirmed with the store before that time are asked for again.
    """
    buffers = [
        _read_piece(piece, tally, fresh_since) for piece in layout.pieces(offset, offset + size)
    ]
    return _joined(buffers)


def read_if_cached(layout: Layout, offset: int, size: int, fresh_since: float) -> Buffer | None:
    """As `read_at`, from memory alone and quickly, or else None. Never blocks."""
    buffers: list[Buffer] = []
    for piece in layout.pieces(offset, offset + size):
        found = _peek_piece(piece, fresh_since)
        if found is None:
            return None
        buffers += found
    return _joined(buffers)


def request(layout: Layout, start: int, stop: int, tally: Tally, fresh_since: float) -> None:
    """Have the chunks under the bytes [start, stop) loaded ahead."""
    for piece in layout.pieces(start, stop):
        if isinstance(piece.segment, Run):
            first, last = _elements(piece, piece.segment)
            run = piece.segment
            run.source.request(run.first + first, run.first + last, tally, fresh_since)


def _joined(buffers: list[Buffer]) -> Buffer:
    if len(buffers) == 1:
        return buffers[0]
    return b"".join(buffers)


def _elements(piece: Piece, run: Run) -> tuple[int, int]:
    """The elements, counted from the start of the run, that a piece touches."""
    width = run.form.width
    return piece.start // width, -(-piece.stop // width)


def _read_piece(piece: Piece, tally: Tally, fresh_since: float) -> Buffer:
    segment = piece.segment
    if isinstance(segment, Literal):
        return memoryview(segment.data)[piece.start : piece.stop]
    first, last = _elements(piece, segment)
    values = np.empty(last - first, segment.source.dtype)
    segment.source.read(segment.first + first, values, tally, fresh_since)
    cut = first * segment.form.width
    return memoryview(segment.form.render(values))[piece.start - cut : piece.stop - cut]


def _peek_piece(piece: Piece, fresh_since: float) -> list[Buffer] | None:
    segment = piece.segment
    if isinstance(segment, Literal):
        return [memoryview(segment.data)[piece.start : piece.stop]]
    width, size = segment.form.width, piece.stop - piece.start
    if segment.form.is_native:
        base = segment.first * width
        slices = segment.source.peek_bytes(base + piece.start, base + piece.stop, fresh_since)
        if slices is not None:
            return list(slices)
    if size > (PEEK_ASSEMBLED_BYTES_MAX if segment.form.is_native else PEEK_RENDERED_BYTES_MAX):
        return None
    first, last = _elements(piece, segment)
    values = np.empty(last - first, segment.source.dtype)
    if not segment.source.peek(segment.first + first, values, fresh_since):
        return None
    cut = first * width
    return [memoryview(segment.form.render(values))[piece.start - cut : piece.stop - cut]]
