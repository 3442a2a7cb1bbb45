"""Byte layouts, the basis of every view of array data.

A layout is an ordered list of segments: literal bytes, runs of elements in some form (numbers in a
byte order, lines of text), records. Sizes follow by arithmetic, without the data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from nczfs.engine.chunks.storedarray import StoredArray, newest_revision
from nczfs.engine.options import Tally
from nczfs.engine.readahead.prefetch import NOT_AHEAD, AheadOptions
from nczfs.model.dtypes import DataType
from nczfs.plaindata import frozen
from nczfs.views.elements import ElementSource, Span
from nczfs.views.forms import BinaryForm
from nczfs.views.segments import Run, Segment


@frozen
class SegmentPiece:
    """Bytes [start, stop) of one segment."""

    segment: Segment
    start: int
    stop: int


class Layout:
    """Consecutive segments. Immutable."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segment for segment in segments if segment.size)
        ends = list(accumulate((segment.size for segment in self.segments), initial=0))
        self._starts = ends[:-1]
        self.size = ends[-1]

    def pieces(self, start: int, stop: int) -> Iterator[SegmentPiece]:
        """Yield the pieces of the bytes [start, stop), in order, cut at the end."""
        stop = min(stop, self.size)
        if start >= stop:
            return
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            segment, begin = self.segments[number], self._starts[number]
            end = min(begin + segment.size, stop)
            yield SegmentPiece(segment, start - begin, end - begin)
            start = end
            number += 1

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the elements under the bytes [start, stop)."""
        for piece in self.pieces(start, stop):
            yield from piece.segment.spans(piece.start, piece.stop)

    def text(self) -> bytes:
        """Return the bytes of a layout without arrays."""
        assert not self.sources
        return b"".join(segment.read(0, segment.size, Tally(), 0.0) for segment in self.segments)

    @cached_property
    def sources(self) -> tuple[ElementSource, ...]:
        """The sources of the elements, each once."""
        found = (source for segment in self.segments for source in segment.sources)
        return tuple(dict.fromkeys(found))

    @cached_property
    def arrays(self) -> tuple[StoredArray, ...]:
        """The shown arrays, each once."""
        return tuple(dict.fromkeys(source.stored for source in self.sources))

    def continues(self, other: Layout) -> bool:
        """Return whether what another layout shows is at the same places here."""
        return all(one == there for one, there in zip(self._places, other._places, strict=False))

    @cached_property
    def _places(self) -> list[tuple[int, list[tuple[int, ...]]]]:
        lengths = ([source.lengths for source in each.sources] for each in self.segments)
        return list(zip(self._starts, lengths, strict=True))

    @property
    def revision(self) -> int:
        """A number that changes with each write to any of the arrays."""
        return newest_revision(self.arrays)

    def ahead(self, room: int) -> AheadOptions:
        """Return how a file of this layout is read ahead with `room` bytes of memory."""
        found = NOT_AHEAD
        for segment in self.segments:
            found = found.widest(segment.ahead(room))
        return found


def native_run(source: ElementSource, dtype: DataType, count: int) -> Run:
    """Return all elements of a source as they are in memory."""
    return Run(source, BinaryForm(dtype.native), 0, count)
