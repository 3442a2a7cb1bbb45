"""Writing any byte range of any layout: what `nczfs.views.reader` does, backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nczfs.engine.loaded import Values
from nczfs.engine.options import Tally
from nczfs.errors import BadValue, NotPermitted
from nczfs.views.layout import Buffer, ElementSource, Layout, Literal, Piece, Run


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements that some bytes stand for, and where they belong."""

    source: ElementSource
    first: int
    values: Values

    def write(self) -> None:
        """Put them there."""
        self.source.write(self.first, self.values)


def write_at(layout: Layout, offset: int, data: Buffer) -> None:
    """Replace the bytes of a layout from `offset` on; all of them lie in it.

    Raises
    ------
    NotPermitted : a byte would change that does not come from an array.
    BadValue : some bytes stand for no element of its type. In both cases nothing was changed.
    CodecError, StoreError : some of it may be written.
    """
    for elements in elements_at(layout, offset, data):
        elements.write()


def elements_at(layout: Layout, offset: int, data: Buffer) -> list[Elements]:
    """What `write_at` writes, checked to the last byte."""
    assert offset + len(data) <= layout.size
    found: list[Elements] = []
    position = 0
    given = memoryview(data)
    for piece in layout.pieces(offset, offset + len(data)):
        part = given[position : position + piece.stop - piece.start]
        if isinstance(piece.segment, Literal):
            _check_literal(piece, piece.segment, part, offset + position)
        else:
            try:
                found += _elements_of(piece, piece.segment, part)
            except BadValue as error:
                raise BadValue(f"from byte {offset + position} on: {error}") from None
        position += len(part)
    return found


def settled(layout: Layout, start: int, stop: int) -> int:
    """Up to where the bytes [start, stop) can be written before those behind them are known.

    That is all of them, but for a last line of text that begins among them and does not end there:
    half of it tells nothing.
    """
    for piece in layout.pieces(max(start, stop - 1), stop):
        if isinstance(piece.segment, Run) and not piece.segment.form.is_native:
            cut = stop - piece.stop % piece.segment.form.width
            return cut if cut >= start else stop
    return stop


def _check_literal(piece: Piece, literal: Literal, data: memoryview, offset: int) -> None:
    known = literal.data[piece.start : piece.stop]
    if known == data:
        return
    wrong = next(i for i, (a, b) in enumerate(zip(known, data, strict=True)) if a != b)
    raise NotPermitted(
        f"byte {offset + wrong} belongs to the header, which follows from the type and the shape "
        "of the variable: write the values behind it"
    )


def _elements_of(piece: Piece, run: Run, data: memoryview) -> list[Elements]:
    width, dtype = run.form.width, run.source.dtype
    first, stop = piece.start // width, -(-piece.stop // width)
    start = run.first + first
    if run.form.is_exact:
        if piece.start % width or piece.stop % width:
            data = _completed(piece, run, data)
        return [Elements(run.source, start, run.form.parse(data, dtype))]
    old = _read(run, start, stop - first)
    shown = bytearray(run.form.render(old))
    cut = piece.start - first * width
    shown[cut : cut + len(data)] = data
    return _changed(run, start, old, shown)


def _completed(piece: Piece, run: Run, data: memoryview) -> memoryview:
    """Bytes of whole elements: what an edge of a write leaves of an element stays."""
    width = run.form.width
    first, last = piece.start // width, (piece.stop - 1) // width
    whole = bytearray((last + 1 - first) * width)
    for number in {first, last}:
        place = (number - first) * width
        whole[place : place + width] = run.form.render(_read(run, run.first + number, 1))
    cut = piece.start - first * width
    whole[cut : cut + len(data)] = data
    return memoryview(whole)


def _changed(run: Run, start: int, old: Values, shown: bytearray) -> list[Elements]:
    """The elements with changed bytes, if bytes do not represent an element completely."""
    width = run.form.width
    before = np.frombuffer(run.form.render(old), np.uint8).reshape(-1, width)
    after = np.frombuffer(shown, np.uint8).reshape(-1, width)
    differing = np.flatnonzero((before != after).any(axis=1))
    if not differing.size:
        return []
    told = run.form.told(old[differing])
    if not told.all():
        wrong = start + int(differing[~told][0])
        raise BadValue(f"element {wrong} cannot be written here; write values.raw")
    new = run.form.parse(np.ascontiguousarray(after[differing]).reshape(-1).data, old.dtype)
    breaks = np.flatnonzero(np.diff(differing) > 1) + 1
    return [
        Elements(run.source, start + int(numbers[0]), values)
        for numbers, values in zip(np.split(differing, breaks), np.split(new, breaks), strict=True)
    ]


def _read(run: Run, first: int, count: int) -> Values:
    values = np.empty(count, run.source.dtype)
    run.source.read(first, values, Tally(), 0.0)
    return values
