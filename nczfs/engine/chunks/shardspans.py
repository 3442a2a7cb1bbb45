"""Where all chunks of a unit of shards are in its object, without a step for each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from nczfs.codecs.shardindex import are_inside, are_missing
from nczfs.engine.chunks.shardindexes import KnownIndex
from nczfs.engine.chunks.shardlayout import Path, ShardLayout
from nczfs.engine.chunks.shardread import ShardReader
from nczfs.errors import CodecError, CorruptChunk
from nczfs.messages import shown
from nczfs.model.boxes import Box, index_of
from nczfs.model.grid import ChunkIndex
from nczfs.plaindata import frozen

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

Spans: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""Numbers of things, and where each of them starts and stops, in rows."""

COUNT_LEAST: Final = 1 << 14  # however small an object is
ENTRY_BYTES: Final = 16  # of an index, for each chunk that an object has
BLOCK: Final = 1 << 14  # chunks of which the indexes are made at a time


@frozen
class StoredChunks(Collection[ChunkIndex]):
    """The chunks that a unit has, in C order, in eight bytes each.

    Attributes
    ----------
    inside : the box of all chunks of the unit.
    numbers : of those that it has, counted in C order in the box; ascending.
    """

    inside: Box
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[ChunkIndex]:
        shape, start = self.inside.shape, self.inside.start
        for first in range(0, len(self.numbers), BLOCK):
            rest = self.numbers[first : first + BLOCK]
            along: list[list[int]] = []
            for length, least in zip(reversed(shape), reversed(start), strict=True):
                rest, places = np.divmod(rest, length)
                along.append([place + least for place in places.tolist()])
            yield from zip(*reversed(along), strict=True) if along else [()] * len(rest)

    def __contains__(self, chunk: object) -> bool:
        if not isinstance(chunk, tuple) or len(chunk) != len(self.inside.start):
            return False
        number = 0
        for place, start, stop in zip(chunk, self.inside.start, self.inside.stop, strict=True):
            if not start <= place < stop:
                return False
            number = number * (stop - start) + place - start
        at = int(np.searchsorted(self.numbers, number))
        return at < len(self.numbers) and int(self.numbers[at]) == number


@frozen
class _Side:
    """The chunks of a shard along one dimension.

    Attributes
    ----------
    position : of the first element, counted from that of the shard.
    first : the first chunk, counted in the unit; count : of the chunks.
    length : of a chunk.
    step : what a chunk adds to the number of one in the unit.
    """

    position: int
    first: int
    count: int
    length: int
    step: int

    def numbers(self) -> Numbers:
        """Return what each chunk adds to the number of one in the unit."""
        return np.arange(self.first, self.first + self.count, dtype=np.int64) * self.step

    def within(self, place: int, length: int) -> _Side:
        """Return the chunks in one of the shards inside, each of some length."""
        start = max(self.position, place * length)
        stop = min(self.position + self.count * self.length, (place + 1) * length)
        return _Side(
            start - place * length,
            self.first + (start - self.position) // self.length,
            (stop - start) // self.length,
            self.length,
            self.step,
        )

    def places(self, length: int) -> range:
        """Return the entries along this dimension that stand for so many elements each."""
        last = self.position + (self.count - 1) * self.length
        return range(self.position // length, last // length + 1)


def spans_in(reader: ShardReader, layout: ShardLayout, inside: Box, origin: Sequence[int]) -> Spans:
    """Return where a unit has its chunks.

    Parameters
    ----------
    layout : of the unit.
    inside : its chunks that lie in the array.
    origin : the first element of the unit.

    Returns
    -------
    rows of the number of a chunk, counted in C order in `inside`, ascending, and its start and stop
    in the object; both are 0 where they cannot be known.

    Raises
    ------
    CorruptChunk : shards inside share so many bytes that they have more chunks than the object has
        room for. CodecError : it has too many chunks to be counted. StoreError, Conflict.
    """
    if prod(inside.shape) >= 1 << 63:
        raise CodecError(f"a shard of {shown(prod(inside.shape))} chunks is not looked through")
    if not prod(inside.shape):
        return np.empty((0, 3), np.int64)
    lengths = layout.levels[-1].inner_shape
    steps = [prod(inside.shape[d + 1 :]) for d in range(len(lengths))]
    sides = [
        _Side(first * length - before, 0, stop - first, length, step)
        for first, stop, length, before, step in zip(
            inside.start, inside.stop, lengths, origin, steps, strict=True
        )
    ]
    found: list[Spans] = []
    room = max(COUNT_LEAST, reader.stat.size // ENTRY_BYTES)
    for spans in _spans(reader, layout, (), reader.top, sides, room):
        room -= len(spans)
        if room < 0:
            raise CorruptChunk("shards inside share bytes, and have more chunks than it has room")
        found.append(spans)
    spans = np.concatenate([np.empty((0, 3), np.int64), *found])
    return spans if len(layout.levels) == 1 else spans[np.argsort(spans[:, 0])]


def shared_bytes(spans: Spans, name: Callable[[int], str]) -> list[str]:
    """Return a message about what lies in the same bytes of an object; empty: nothing does.

    Parameters
    ----------
    spans : rows of a number, and where what has it starts and stops.
    name : returns the name of a number, for the message.
    """
    spans = spans[spans[:, 1] < spans[:, 2]]
    numbers, starts, stops = spans[np.lexsort((spans[:, 0], spans[:, 1]))].T
    ends = np.maximum.accumulate(stops)
    shared = np.flatnonzero(starts[1:] < ends[:-1]) + 1
    if not len(shared):
        return []
    first = int(shared[0])
    other = int(np.argmax(stops[:first]))
    stop = min(int(stops[first]), int(stops[other]))
    names = f"{name(int(numbers[other]))} and {name(int(numbers[first]))}"
    message = f"{names} share the bytes {int(starts[first])} to {stop}"
    more = len(shared) - 1
    return [f"{message}, and {more} more share bytes with others" if more else message]


def _spans(
    reader: ShardReader,
    layout: ShardLayout,
    at: Path,
    index: KnownIndex,
    sides: Sequence[_Side],
    room: int,
) -> Iterator[Spans]:
    """Yield where the chunks of a shard are; at most `room` for one that cannot be read."""
    level = layout.levels[len(at)]
    places = [side.places(length) for side, length in zip(sides, level.inner_shape, strict=True)]
    entries = _outer(
        np.arange(each.start, each.stop, dtype=np.int64) * weight
        for each, weight in zip(places, level.weights, strict=True)
    )
    if len(at) == len(layout.levels) - 1:
        yield _of_chunks(index, entries, _outer(side.numbers() for side in sides))
        return
    counts = tuple(map(len, places))
    stored = np.flatnonzero(~are_missing(index.places[entries]))
    by_entry = dict(sorted(zip(entries[stored].tolist(), stored.tolist(), strict=True)))
    for entry, inner in reader.inner(at, index, by_entry):
        here = [
            side.within(each[n], length)
            for side, each, n, length in zip(
                sides, places, index_of(by_entry[entry], counts), level.inner_shape, strict=True
            )
        ]
        if isinstance(inner, KnownIndex):
            yield from _spans(reader, layout, (*at, entry), inner, here, room)
        elif prod(side.count for side in here) > room:
            assert inner is not None
            raise inner
        else:
            numbers = _outer(side.numbers() for side in here)
            unknown = np.zeros((len(numbers), 3), np.int64)
            unknown[:, 0] = numbers
            yield unknown


def _of_chunks(index: KnownIndex, entries: Numbers, numbers: Numbers) -> Spans:
    stored = ~are_missing(index.places[entries])
    places = index.places[entries[stored]]
    inside = are_inside(places, index.stop - index.start)
    spans = np.zeros((len(places), 3), np.int64)
    spans[:, 0] = numbers[stored]
    known = places[inside].astype(np.int64)
    spans[inside, 1] = known[:, 0] + index.start
    spans[inside, 2] = known[:, 0] + known[:, 1] + index.start
    return spans


def _outer(along: Iterator[Numbers]) -> Numbers:
    """Return the sums of one number of each dimension, in C order."""
    return reduce(lambda a, b: np.add.outer(a, b).reshape(-1), along, np.zeros(1, np.int64))
