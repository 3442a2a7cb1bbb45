"""Segments of a layout: literal bytes, padding, and runs of elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from nczfs.buffers import Buffer, Values
from nczfs.engine.arrays.array import now
from nczfs.engine.options import Tally
from nczfs.engine.readahead.prefetch import NOT_AHEAD, AheadOptions
from nczfs.errors import BadValue, NotPermitted
from nczfs.plaindata import frozen
from nczfs.views.elements import ElementSource, Span, WrittenElements
from nczfs.views.forms import Form
from nczfs.views.literalfile import LiteralFile

# A range from memory is assembled on the event loop up to this size: work of more than about a
# fifth of a millisecond belongs in a thread.
PEEK_ASSEMBLED_BYTES_MAX = 1 << 20
PEEK_RENDERED_BYTES_MAX = 64 << 10


class Segment(ABC):
    """Consecutive bytes of a layout. Positions count from its first byte; immutable."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size in bytes."""

    @abstractmethod
    def read(self, start: int, stop: int, tally: Tally, fresh_since: float) -> Buffer:
        """Return bytes [start, stop); loads what is missing.

        Parameters
        ----------
        tally : counts the chunks that had to be loaded.
        fresh_since : chunks that were last confirmed before that time are confirmed again.
        """

    @abstractmethod
    def peek(self, start: int, stop: int, fresh_since: float) -> list[Buffer] | None:
        """Read as `read` does, from memory and quickly, or return None. Never blocks."""

    @abstractmethod
    def written(self, start: int, data: memoryview, offset: int) -> list[WrittenElements]:
        """Return the elements that `data`, the new bytes from `start` on, stands for.

        Parameters
        ----------
        offset : of the data in the file, for messages.

        Raises
        ------
        NotPermitted : a byte would change that does not come from an array.
        BadValue : some bytes represent no element of its type.
        """

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the elements under the bytes [start, stop)."""
        return iter(())

    @property
    def sources(self) -> Sequence[ElementSource]:
        """The sources of its elements."""
        return ()

    def settled(self, start: int, stop: int) -> int:
        """Return up to where [start, stop) can be written before later bytes are known."""
        return stop

    def ahead(self, room: int) -> AheadOptions:
        """Return how the segment is read ahead with `room` bytes of memory."""
        return NOT_AHEAD


@frozen
class Literal(Segment):
    """Bytes that do not come from an array.

    Attributes
    ----------
    forgotten : ranges [start, stop) whose bytes may be written without effect.
    """

    data: bytes
    forgotten: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, stop: int, tally: Tally, fresh_since: float) -> Buffer:
        return memoryview(self.data)[start:stop]

    def peek(self, start: int, stop: int, fresh_since: float) -> list[Buffer] | None:
        return [memoryview(self.data)[start:stop]]

    def written(self, start: int, data: memoryview, offset: int) -> list[WrittenElements]:
        _check_unchanged(self.data[start : start + len(data)], data, start, offset, self.forgotten)
        return []


@frozen
class LiteralRow(Literal):
    """The first of several rows of literal bytes, as long as each other, for `Records`.

    Attributes
    ----------
    data : of all rows. width : of one, in bytes.
    """

    width: int = 0

    @property
    def size(self) -> int:
        return self.width

    def of_records(self, count: int) -> Literal:
        """Return the rows of so many records, of which this is the first."""
        return Literal(self.data[: count * self.width])


@frozen
class FileLiteral(Segment):
    """Literal bytes in a file, which does not change.

    Attributes
    ----------
    file : open for reading; lives as long as a layout holds it.
    begin, length : which bytes of the file, in bytes.
    forgotten : as in `Literal`.
    """

    file: LiteralFile
    begin: int
    length: int
    forgotten: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return self.length

    def read(self, start: int, stop: int, tally: Tally, fresh_since: float) -> Buffer:
        return self.file.read(self.begin + start, stop - start)

    def peek(self, start: int, stop: int, fresh_since: float) -> list[Buffer] | None:
        return None  # reading a disk can block

    def written(self, start: int, data: memoryview, offset: int) -> list[WrittenElements]:
        known = self.file.read(self.begin + start, len(data))
        _check_unchanged(known, data, start, offset, self.forgotten)
        return []


@frozen
class Padding(Segment):
    """Zeros.

    Attributes
    ----------
    is_kept : whether only zeros may be written, as to a literal; otherwise writes are ignored.
    """

    length: int
    is_kept: bool = False

    @property
    def size(self) -> int:
        return self.length

    def read(self, start: int, stop: int, tally: Tally, fresh_since: float) -> Buffer:
        return bytes(stop - start)

    def peek(self, start: int, stop: int, fresh_since: float) -> list[Buffer] | None:
        return [bytes(stop - start)]

    def written(self, start: int, data: memoryview, offset: int) -> list[WrittenElements]:
        if self.is_kept:
            _check_unchanged(bytes(len(data)), data, start, offset, ())
        return []


@frozen
class Run(Segment):
    """The elements [first, first + count) of a source, one after the other.

    Attributes
    ----------
    is_compared : whether a write changes only elements with different bytes, for programs that
        write more than they change.
    """

    source: ElementSource
    form: Form
    first: int
    count: int
    is_compared: bool = False

    @property
    def size(self) -> int:
        return self.count * self.form.width

    def read(self, start: int, stop: int, tally: Tally, fresh_since: float) -> Buffer:
        width = self.form.width
        first, last = start // width, -(-stop // width)
        values = np.empty(last - first, self.source.dtype)
        self.source.read(self.first + first, values, tally, fresh_since)
        cut = first * width
        return memoryview(self.form.render(values))[start - cut : stop - cut]

    def peek(self, start: int, stop: int, fresh_since: float) -> list[Buffer] | None:
        form, width = self.form, self.form.width
        if form.is_uncopied:
            base = self.first * width
            slices = self.source.peek_bytes(base + start, base + stop, fresh_since)
            if slices is not None:
                return list(slices)
        if stop - start > (PEEK_ASSEMBLED_BYTES_MAX if form.is_binary else PEEK_RENDERED_BYTES_MAX):
            return None
        first, last = start // width, -(-stop // width)
        values = np.empty(last - first, self.source.dtype)
        if not self.source.peek(self.first + first, values, fresh_since):
            return None
        cut = first * width
        return [memoryview(form.render(values))[start - cut : stop - cut]]

    def written(self, start: int, data: memoryview, offset: int) -> list[WrittenElements]:
        try:
            if self.form.is_exact and not self.is_compared:
                return [self._replaced(start, data)]
            return self._changed(start, data)
        except BadValue as error:
            raise BadValue(f"from byte {offset} on: {error}") from None

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        width = self.form.width
        yield Span(self.source, self.first + start // width, self.first - (-stop // width))

    @property
    def sources(self) -> Sequence[ElementSource]:
        return (self.source,)

    def settled(self, start: int, stop: int) -> int:
        """Return the end without a last element that does not end among the bytes.

        Half of a line of text has no meaning.
        """
        if self.form.is_binary:
            return stop
        cut = stop - stop % self.form.width
        return cut if cut >= start else stop

    def ahead(self, room: int) -> AheadOptions:
        return self.source.ahead(self.form.width, room, uncopied=self.form.is_uncopied)

    def of_records(self, count: int) -> Run:
        """Return the elements of so many records, of which this is the first."""
        return Run(self.source, self.form, self.first, self.count * count, self.is_compared)

    def _replaced(self, start: int, data: memoryview) -> WrittenElements:
        """Return all elements that the bytes touch, completed at the edges."""
        width = self.form.width
        first, last = start // width, (start + len(data) - 1) // width
        if start % width or (start + len(data)) % width:
            whole = bytearray((last + 1 - first) * width)
            for number in {first, last}:
                place = (number - first) * width
                # As the store has it now: other clients may have written it since it was read.
                whole[place : place + width] = self.form.render(self._values(number, 1, now()))
            cut = start - first * width
            whole[cut : cut + len(data)] = data
            data = memoryview(whole)
        return WrittenElements(
            self.source, self.first + first, self.form.parse(data, self.source.dtype)
        )

    def _changed(self, start: int, data: memoryview) -> list[WrittenElements]:
        """Return the elements that the bytes represent completely, or just those that they change.

        An element that its bytes do not represent completely is kept if they do not change it.
        """
        width = self.form.width
        first, stop = start // width, -(-(start + len(data)) // width)
        is_partial = bool(start % width or (start + len(data)) % width)
        # The other bytes of an element come from the store as it is now, as in `_replaced`.
        old = self._values(first, stop - first, now() if is_partial else 0.0)
        shown = bytearray(self.form.render(old))
        before = np.frombuffer(bytes(shown), np.uint8).reshape(-1, width)
        cut = start - first * width
        shown[cut : cut + len(data)] = data
        after = np.frombuffer(shown, np.uint8).reshape(-1, width)
        differing, restorable = (before != after).any(axis=1), self.form.restorable(old)
        first += self.first
        if (wrong := np.flatnonzero(differing & ~restorable)).size:
            raise BadValue(f"element {first + wrong[0]} cannot be written here; write values.raw")
        wanted = np.flatnonzero(differing if self.is_compared else restorable)
        if not wanted.size:
            return []
        new = self.form.parse(np.ascontiguousarray(after[wanted]).reshape(-1).data, old.dtype)
        breaks = np.flatnonzero(np.diff(wanted) > 1) + 1
        return [
            WrittenElements(self.source, first + int(numbers[0]), values)
            for numbers, values in zip(np.split(wanted, breaks), np.split(new, breaks), strict=True)
        ]

    def _values(self, first: int, count: int, fresh_since: float) -> Values:
        values = np.empty(count, self.source.dtype)
        self.source.read(self.first + first, values, Tally(), fresh_since)
        return values


def _check_unchanged(
    known: bytes,
    data: memoryview,
    start: int,
    offset: int,
    forgotten: Sequence[tuple[int, int]],
) -> None:
    if known == data:
        return
    given = np.frombuffer(data, np.uint8)
    differing = np.flatnonzero(np.frombuffer(known, np.uint8) != given) + start
    for first, stop in forgotten:
        differing = differing[(differing < first) | (differing >= stop)]
    if differing.size:
        raise NotPermitted(
            f"byte {offset + int(differing[0]) - start} belongs to the header, which follows from "
            "the type and the shape of the variable: write the values behind it"
        )
