"""Sets of chunks or shards of one array: a bitmap for up to 500 million, else a list of numbers."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.model.boxes import Box, index_of
from nczfs.model.grid import ChunkGrid, ChunkIndex

BITMAP_BYTES_MAX = 64 << 20
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_BLOCK = 1 << 16  # numbers that are collected before they are sorted in
_GATHERED = 1 << 12  # chunks of a box that are looked up one by one, wherever they lie


class ChunkSet:
    """A set of chunks of a grid, to which chunks are only added.

    One thread may add to it at a time, and when it has, any number of threads may look.

    It takes one bit for each chunk of the grid, or, if that would exceed 64 MiB, eight bytes for
    each chunk in the set.

    Attributes
    ----------
    grid : of the chunks. Where chunks share objects, it is the grid of what is stored as one.
    """

    def __init__(self, grid: ChunkGrid) -> None:
        self.grid = grid
        self._counts = grid.counts
        self._total = prod(self._counts)
        # Pages that are never written take no memory.
        is_small = self._total <= 8 * BITMAP_BYTES_MAX
        self._bits = np.zeros(-(-self._total // 8), np.uint8) if is_small else None
        self._dtype = np.dtype(np.uint64 if self._total < 1 << 64 else object)
        self._numbers: Numbers = np.empty(0, self._dtype)
        self._new: list[int] = []
        self._lock = threading.Lock()  # guards all of them while `_new` is put away

    def add(self, chunk: ChunkIndex) -> None:
        """Add a chunk of the grid."""
        self._new.append(self._number(chunk))
        if len(self._new) == _BLOCK:
            self._put_away()

    def __contains__(self, chunk: ChunkIndex) -> bool:
        return self.has_any(Box(chunk, tuple(i + 1 for i in chunk)))

    def has_any(self, chunks: Box) -> bool:
        """Return whether any chunk of a box of the grid is in the set."""
        return any(len(numbers) for numbers in self._within(chunks))

    def has_all(self, chunks: Box) -> bool:
        """Return whether all chunks of a box of the grid are in the set."""
        return sum(len(numbers) for numbers in self._within(chunks)) == chunks.size

    def within(self, chunks: Box) -> Iterator[ChunkIndex]:
        """Yield the chunks of a box of the grid that are in the set, in C order.

        The time does not depend on the size of the box, only on what the set has near it.
        """
        for numbers in self._within(chunks):
            yield from (index_of(number, self._counts) for number in numbers.tolist())

    def digest(self) -> str:
        """Return a digest that differs between sets of chunks of one grid."""
        digest = hashlib.blake2b(digest_size=8)
        for numbers in self._between(0, self._total):
            digest.update(" ".join(map(str, [*numbers.tolist(), ""])).encode())
        return digest.hexdigest()

    def __iter__(self) -> Iterator[ChunkIndex]:
        """Yield the chunks in the set, in C order."""
        return (index_of(number, self._counts) for number in self._in_order())

    def missing(self) -> Iterator[ChunkIndex]:
        """Yield the chunks of the grid that are not in the set, in C order."""
        before = -1
        for number in self._in_order():
            yield from (index_of(n, self._counts) for n in range(before + 1, number))
            before = number
        yield from (index_of(n, self._counts) for n in range(before + 1, self._total))

    def _within(self, chunks: Box) -> Iterator[Numbers]:
        """Yield the numbers of the chunks of a box that are in the set, in ascending order."""
        if not chunks.size:
            return
        self._put_away()
        if chunks.size <= _GATHERED:
            yield self._gathered(chunks)
            return
        last = self._number(tuple(stop - 1 for stop in chunks.stop))
        for numbers in self._between(self._number(chunks.start), last + 1):
            is_inside = np.ones(len(numbers), np.bool_)
            rest = numbers
            for start, stop, count in zip(
                reversed(chunks.start), reversed(chunks.stop), reversed(self._counts), strict=True
            ):
                place, rest = rest % count, rest // count
                is_inside &= np.asarray((place >= start) & (place < stop), np.bool_)
            yield numbers[is_inside]

    def _gathered(self, chunks: Box) -> Numbers:
        """Return what `_within` yields, for a small box."""
        numbers: Numbers = np.zeros((), self._dtype)
        for start, stop, count in zip(chunks.start, chunks.stop, self._counts, strict=True):
            row = np.array(range(start, stop), self._dtype)
            numbers = numbers[..., np.newaxis] * np.array(count, self._dtype) + row
        flat = numbers.reshape(-1)
        if self._bits is not None:
            bits = self._bits[flat >> np.uint64(3)] >> (flat & np.uint64(7)).astype(np.uint8)
            return flat[np.asarray(bits & 1, np.bool_)]
        places = np.searchsorted(self._numbers, flat)
        found = np.zeros(len(flat), np.bool_)
        inside = places < len(self._numbers)
        found[inside] = self._numbers[places[inside]] == flat[inside]
        return flat[found]

    def _between(self, first: int, stop: int) -> Iterator[Numbers]:
        """Yield the numbers from `first` to `stop` that are in the set, in ascending order."""
        self._put_away()
        if self._bits is None:
            a, b = np.searchsorted(self._numbers, np.array([first, stop], self._dtype)).tolist()
            for start in range(a, b, _BLOCK):
                yield self._numbers[start : min(start + _BLOCK, b)]
            return
        for start in range(first >> 3, -(-stop // 8), _BLOCK):
            piece = self._bits[start : min(start + _BLOCK, -(-stop // 8))]
            places = np.flatnonzero(piece)
            if len(places):
                rows, bits = np.nonzero(
                    np.unpackbits(piece[places], bitorder="little").reshape(-1, 8)
                )
                numbers = (8 * (places[rows] + start) + bits).astype(self._dtype)
                yield numbers[(numbers >= first) & (numbers < stop)]

    def _number(self, chunk: ChunkIndex) -> int:
        """Return the number of a chunk in C order of the grid."""
        number = 0
        for i, count in zip(chunk, self._counts, strict=True):
            number = number * count + i
        return number

    def _put_away(self) -> None:
        if not self._new:
            return
        with self._lock:
            block: Numbers = np.array(self._new, self._dtype)
            if self._bits is None:
                self._numbers = np.union1d(self._numbers, block)
            else:
                masks = np.uint8(1) << (block & np.uint64(7)).astype(np.uint8)
                np.bitwise_or.at(self._bits, block >> np.uint64(3), masks)
            self._new.clear()  # last: who finds nothing new looks at the rest at once

    def _in_order(self) -> Iterator[int]:
        for numbers in self._between(0, self._total):
            yield from numbers.tolist()
