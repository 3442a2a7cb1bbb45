"""Copying the values of a variable block by block: the next one is read during a write."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from math import prod
from typing import Any, Self, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.model.grid import Slices
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.blocks import (
    BlockSize,
    Shapes,
    aligned,
    block_shape,
    blocks,
    pieces,
)
from nczfs.tools.transfer.source import Content

LOOK_S = 0.2
"""A thread that waits for a write calls `Progress` at least so often, which may end the wait."""


def memory_of(values: Values) -> int:
    """Return the bytes of an array with the objects that it refers to."""
    objects = sum(map(sys.getsizeof, values.flat)) if values.dtype.hasobject else 0
    return values.nbytes + objects


class Writes:
    """Writes under way, limited in number and bytes. A context manager.

    The block ends with the last write. If it fails, writes that have not begun are dropped.

    Parameters
    ----------
    depth : number of writes.
    bytes_max : of their values; a single write may have more.
    progress : called in the thread that uses this object, as writes end and while it waits.
    """

    def __init__(self, depth: int, bytes_max: int, progress: Progress) -> None:
        self._depth = depth
        self._bytes_max = bytes_max
        self.progress = progress
        self._under_way: deque[tuple[Future[None], int, float]] = deque()
        self._nbytes = 0
        self._last: list[Callable[[], None]] = []

    def add(self, start: Callable[[], Future[None]], nbytes: int, credit: float) -> None:
        """Start a write as soon as there is room. Raises what an earlier one raised.

        Parameters
        ----------
        nbytes : that it keeps in memory.
        credit : passed to `progress` when it has ended.
        """
        while self._under_way and (
            len(self._under_way) >= self._depth or self._nbytes + nbytes > self._bytes_max
        ):
            self._end_oldest()
        self._under_way.append((start(), nbytes, credit))
        self._nbytes += nbytes

    def wait(self) -> None:
        """Wait for all writes. Raises what one of them raised."""
        while self._under_way:
            self._end_oldest()

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something called at the end of the block, when no write is under way."""
        self._last.append(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            futures = [future for future, *_ in self._under_way]
            wait([future for future in futures if not future.cancel()])
            for call in self._last:
                call()

    def _end_oldest(self) -> None:
        future, nbytes, credit = self._under_way[0]
        while not wait([future], LOOK_S).done:
            self.progress(0)
        self._under_way.popleft()
        self._nbytes -= nbytes
        future.result()
        self.progress(credit)


Start: TypeAlias = Callable[[Slices, Values, Writes, float], object]
"""Starts the writes of a box of whole chunks of the target.

The values must not change any more. The last argument is the credit for each element.
"""


def copy(
    content: Content,
    target: Shapes,
    start: Start,
    size: BlockSize,
    writes: Writes,
    progress: Progress,
) -> None:
    """Copy all values, block by block.

    A block is whole units of the target. A unit that is larger than a block may be is read and
    encoded in parts.

    Parameters
    ----------
    writes : to which `start` adds. They may go on when this returns.
    progress : called with half of the bytes as they are read; `writes` reports the other half.
    """
    try:
        for selection in blocks(content.shape, target.unit, content.chunks, size):
            copy_block(content, target, start, size, selection, writes, progress)
    finally:
        content.release()


def copy_block(
    content: Content,
    target: Shapes,
    start: Start,
    size: BlockSize,
    selection: Slices,
    writes: Writes,
    progress: Progress,
) -> None:
    """Copy the values of a box of whole units of the target, as `copy` does."""
    for part in _parts(content, target, selection, size):
        values = _read(content, part, size.usual, progress)
        for piece in target.pieces(part, size.usual):
            start(piece, _part(values, piece, part), writes, content.item_bytes / 2)
        if 2 * values.size > size.most:
            writes.wait()
        del values


def _parts(
    content: Content, target: Shapes, selection: Slices, size: BlockSize
) -> Iterator[Slices]:
    """Cut a block into parts of whole chunks, if it is larger than it may be."""
    lengths = [part.stop - part.start for part in selection]
    if prod(lengths) <= size.most:
        yield selection
        return
    step = block_shape(lengths, target.chunk, content.chunks, size)
    yield from aligned(selection, [-(-s // c) * c for s, c in zip(step, target.chunk, strict=True)])


def _read(content: Content, selection: Slices, elements_max: int, progress: Progress) -> Values:
    """Read the values of a block, in pieces if it is larger than usual."""
    found: Values | None = None
    for piece in pieces(selection, content.chunks, elements_max):
        values = content.read(piece)
        if piece == selection:
            found = values
        else:
            if found is None:
                found = np.empty([part.stop - part.start for part in selection], values.dtype)
            found[_relative(piece, selection)] = values
        progress(values.size * content.item_bytes / 2)
    assert found is not None
    return found


def _part(values: Values, piece: Slices, selection: Slices) -> Values:
    index: tuple[Any, ...] = (*_relative(piece, selection), ...)  # a scalar stays an array
    part: Values = values[index]
    return part


def _relative(piece: Slices, selection: Slices) -> Slices:
    """Return a box within a larger one, counted from the latter's first element."""
    return tuple(
        slice(p.start - s.start, p.stop - s.start) for p, s in zip(piece, selection, strict=True)
    )


def longest_string(content: Content, size: BlockSize, progress: Progress) -> int:
    """Return the bytes of the longest string of a variable in UTF-8.

    Parameters
    ----------
    progress : called with 0 after each block.
    """
    longest = 0
    for selection in blocks(content.shape, content.chunks, content.chunks, size):
        for text in content.read(selection).reshape(-1):
            longest = max(longest, len(text.encode("utf-8", "surrogateescape")))
        progress(0)
    return longest
