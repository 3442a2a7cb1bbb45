"""Records of several variables, interleaved by arithmetic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from nczfs.buffers import Buffer, Values
from nczfs.engine.options import Tally
from nczfs.engine.readahead.prefetch import NOT_AHEAD, AheadOptions
from nczfs.plaindata import frozen
from nczfs.views.elements import ElementSource, Span, WrittenElements
from nczfs.views.segments import PEEK_ASSEMBLED_BYTES_MAX, LiteralRow, Run, Segment


@frozen(slots=False)
class Records(Segment):
    """Consecutive records, each with the same number of elements of several sources.

    A record has the elements of each member one after the other; record `r` has the elements, or
    bytes, [r * n, (r + 1) * n) of a member with n of them a record. Where a member ends before the
    next one begins, or the record ends, there are zeros, and writes to them are ignored.

    Attributes
    ----------
    members : the first record of each, with its offset in the record, in order of the offsets.
    record_bytes : from the beginning of one record to that of the next.
    count : of the records.
    """

    members: tuple[tuple[int, Run | LiteralRow], ...]
    record_bytes: int
    count: int

    def __post_init__(self) -> None:
        ends = [offset + run.size for offset, run in self.members]
        begins = [offset for offset, _ in self.members] + [self.record_bytes]
        if any(end > begin for end, begin in zip(ends, begins[1:], strict=True)):
            raise ValueError("members of a record overlap")

    @property
    def size(self) -> int:
        return self.record_bytes * self.count

    def read(self, start: int, stop: int, tally: Tally, fresh_since: float) -> Buffer:
        out = np.zeros(stop - start, np.uint8)
        for part in self._parts(start, stop):
            data = part.run.read(part.start, part.stop, tally, fresh_since)
            part.cells(out, self.record_bytes, start)[...] = part.shaped(data)
        return out.data

    def peek(self, start: int, stop: int, fresh_since: float) -> list[Buffer] | None:
        if stop - start > PEEK_ASSEMBLED_BYTES_MAX:
            return None
        out = np.zeros(stop - start, np.uint8)
        for part in self._parts(start, stop):
            found = part.run.peek(part.start, part.stop, fresh_since)
            if found is None:
                return None
            data = found[0] if len(found) == 1 else b"".join(found)
            part.cells(out, self.record_bytes, start)[...] = part.shaped(data)
        return [out.data]

    def written(self, start: int, data: memoryview, offset: int) -> list[WrittenElements]:
        given = np.frombuffer(data, np.uint8)
        found: list[WrittenElements] = []
        for part in self._parts(start, start + len(data)):
            cells = part.cells(given, self.record_bytes, start)
            new = np.ascontiguousarray(cells).reshape(-1).data
            found += part.run.written(part.start, new, offset + part.begin - start)
        return found

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        for part in self._parts(start, stop):
            yield from part.run.spans(part.start, part.stop)

    @property
    def sources(self) -> Sequence[ElementSource]:
        return tuple(source for _, run in self.members for source in run.sources)

    def settled(self, start: int, stop: int) -> int:
        record = (stop - 1) // self.record_bytes
        for part in self._parts_of(record, max(start, record * self.record_bytes), stop):
            if part.begin + part.stop - part.start == stop:
                return stop - part.stop + part.run.settled(part.start, part.stop)
        return stop

    def ahead(self, room: int) -> AheadOptions:
        share = room // max(1, len(self.members))
        found = NOT_AHEAD
        for _, run in self.members:
            if isinstance(run, Run):
                found = found.widest(run.source.ahead(run.form.width, share, uncopied=False))
        return found

    @cached_property
    def _begins(self) -> list[int]:
        return [offset for offset, _ in self.members]

    def _parts(self, start: int, stop: int) -> Iterator[_Part]:
        """Yield the parts of members in [start, stop): whole records together, edges alone."""
        size = self.record_bytes
        first, last = -(-start // size), stop // size
        if first >= last:
            for record in range(start // size, -(-stop // size)):
                yield from self._parts_of(record, start, stop)
            return
        if start % size:
            yield from self._parts_of(first - 1, start, stop)
        for offset, run in self.members:
            whole = run.of_records(self.count)
            yield _Part(
                whole, first * run.size, last * run.size, first * size + offset, last - first
            )
        if stop % size:
            yield from self._parts_of(last, start, stop)

    def _parts_of(self, record: int, start: int, stop: int) -> Iterator[_Part]:
        """Yield the parts of one record in [start, stop)."""
        base = record * self.record_bytes
        number = max(0, bisect_right(self._begins, start - base) - 1)
        for offset, run in self.members[number:]:
            begin = max(start, base + offset)
            end = min(stop, base + offset + run.size)
            if base + offset >= stop:
                return
            if begin < end:
                inside = record * run.size - base - offset
                whole = run.of_records(self.count)
                yield _Part(whole, begin + inside, end + inside, begin, 1)


@frozen
class _Part:
    """Bytes [start, stop) of all elements of a member: the same number in each of some records.

    `begin` is their position in the segment.
    """

    run: Segment
    start: int
    stop: int
    begin: int
    records: int

    def shaped(self, data: Buffer) -> Values:
        """Return the bytes, a row for each record."""
        return np.frombuffer(data, np.uint8).reshape(self.records, -1)

    def cells(self, bytes_: Values, record_bytes: int, origin: int) -> Values:
        """Return them as a part of the segment's bytes from `origin` on, a row for each record."""
        width = (self.stop - self.start) // self.records
        begin = self.begin - origin
        if self.records == 1:
            return bytes_[begin : begin + width].reshape(1, -1)
        return np.lib.stride_tricks.as_strided(
            bytes_[begin:], (self.records, width), (record_bytes, 1)
        )
