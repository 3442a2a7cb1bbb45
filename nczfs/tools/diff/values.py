"""The comparison of the values of two variables, block by block, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TypeAlias

import numpy as np

from nczfs.buffers import Flags, Values
from nczfs.model.grid import RegularGrid, Slices
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.diff.differences import ValueDifferences
from nczfs.tools.diff.texts import value_text
from nczfs.tools.progress import Progress
from nczfs.tools.sparse import Blocks, Reader, sparse_reader
from nczfs.tools.transfer.blocks import block_shape, block_size
from nczfs.tools.transfer.source import Content
from nczfs.tools.verify.digest import element_bytes

Number: TypeAlias = "int | float"

_NUMBERS = "numbers"


@frozen
class Tolerance:
    """A tolerance: equal numbers differ by no more than ``absolute + relative * abs(b)``."""

    absolute: float = 0.0
    relative: float = 0.0


EXACT = Tolerance()


@frozen
class Compared:
    """The values of one side of a pair.

    Attributes
    ----------
    stored : the chunks or shards that are stored; None: unknown.
    description : for other processes, which read the values by it; None: not of a dataset.
    """

    content: Content
    stored: ChunkSet | None = None
    description: Variable | None = None

    @property
    def reader(self) -> Reader:
        """Reads the elements of a box."""
        content, stored = self.content, self.stored
        if stored is None:
            return content.read
        return sparse_reader(content.read, stored)


Elsewhere: TypeAlias = Callable[
    [Compared, Compared, Iterator[Slices], Progress],
    Iterator[tuple[Slices, ValueDifferences | None]],
]
"""Compares blocks in other processes, and yields them with what differs, in any order."""


def value_differences(
    a: Compared,
    b: Compared,
    memory_limit_bytes: int,
    progress: Progress,
    *,
    tolerance: Tolerance,
    elsewhere: Elsewhere | None = None,
) -> ValueDifferences | None:
    """Compare the values that both sides have. Returns None if they are the same.

    If one side is longer, the rest of it is not compared. NaN equals NaN, -0.0 equals 0.0, and a
    string equals the same string of another type. All elements that neither side has stored are
    compared as one.

    Parameters
    ----------
    progress : called with the number of bytes of `a` that are done.
    elsewhere : None: everything is compared in this process.

    Raises
    ------
    CodecError, CorruptStore, StoreError : a side cannot be read.
    """
    shapes = a.content.shape, b.content.shape
    if len(shapes[0]) != len(shapes[1]):
        progress(a.content.nbytes)
        ranks = [f"{len(shape)} dimension{'' if len(shape) == 1 else 's'}" for shape in shapes]
        return ValueDifferences(0, 0, reason=" and ".join(ranks))
    shape = tuple(map(min, *shapes)) if shapes[0] else ()
    tally = _Tally(tolerance)
    chosen = _chosen(shape, a, b, memory_limit_bytes)
    read_a, read_b = a.reader, b.reader
    item_bytes = a.content.item_bytes
    holes = prod(shape) - chosen.size
    progress(a.content.nbytes - chosen.size * item_bytes)
    try:
        if holes:
            hole = chosen.first_hole
            tally.add(hole, read_a(hole), read_b(hole), weight=holes)
        if elsewhere is not None:
            for selection, found in elsewhere(a, b, iter(chosen), progress):
                if found is not None:
                    tally.merge(found)
                progress(_size(selection) * item_bytes)
            return tally.result(prod(shape))
        for selection in chosen:
            if tally.reason:
                break
            tally.add(selection, read_a(selection), read_b(selection))
            progress(_size(selection) * item_bytes)
    finally:
        a.content.release()
        b.content.release()
    return tally.result(prod(shape))


def block_differences(
    selection: Slices, a: Values, b: Values, tolerance: Tolerance
) -> ValueDifferences | None:
    """Compare the values of a block. Returns None if they are the same."""
    tally = _Tally(tolerance)
    tally.add(selection, a, b)
    return tally.result(_size(selection))


def _chosen(shape: tuple[int, ...], a: Compared, b: Compared, memory_limit_bytes: int) -> Blocks:
    """Return the boxes to compare: those in which a side has stored something, if that is known."""
    item = a.content.item_bytes + b.content.item_bytes
    size = block_size(memory_limit_bytes, np.dtype((np.void, item)), None)
    chunks = [max(1, min(c, n)) for c, n in zip(a.content.chunks, shape, strict=True)]
    block = block_shape(shape, chunks, b.content.chunks, size) if prod(shape) else chunks
    grid = RegularGrid(shape, tuple(block))
    if a.stored is None or b.stored is None:
        return Blocks(grid)
    return Blocks.with_any(grid, a.stored, b.stored)


def _size(selection: Slices) -> int:
    return prod(part.stop - part.start for part in selection)


class _Tally:
    """The results so far."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._count = 0
        self._first: tuple[int, ...] | None = None
        self._texts = ("", "")
        self._largest: Number | None = None
        self.reason = ""

    def add(self, selection: Slices, a: Values, b: Values, weight: int = 1) -> None:
        """Compare a block; each of its elements counts `weight` times."""
        a, b = np.asarray(a), np.asarray(b)
        if not (_is_char(a) and _is_char(b)):
            a, b = _comparable(a), _comparable(b)
        if not _are_alike(a, b):
            self.reason = f"{_kind(a)} and {_kind(b)}"
            return
        flags = _different(a, b, self._tolerance)
        count = int(np.count_nonzero(flags))
        if not count:
            return
        self._count += count * weight
        within = np.unravel_index(int(np.argmax(flags)), flags.shape)
        index = tuple(int(i) + s.start for i, s in zip(within, selection, strict=True))
        if self._first is None or index < self._first:
            self._first = index
            self._texts = value_text(a[within]), value_text(b[within])
        if _kind(a) == _NUMBERS:
            largest = _largest(a[flags], b[flags])
            if largest is not None and (self._largest is None or largest > self._largest):
                self._largest = largest

    def merge(self, other: ValueDifferences) -> None:
        """Add the result of other elements."""
        if other.reason:
            self.reason = other.reason
            return
        self._count += other.count
        if self._first is None or other.first < self._first:
            self._first, self._texts = other.first, (other.a, other.b)
        if other.largest is not None and (self._largest is None or other.largest > self._largest):
            self._largest = other.largest

    def result(self, total: int) -> ValueDifferences | None:
        """Return the result; None: no differences."""
        if self.reason:
            return ValueDifferences(0, 0, reason=self.reason)
        if self._first is None:
            return None
        return ValueDifferences(self._count, total, self._first, *self._texts, self._largest)


def _is_char(values: Values) -> bool:
    return values.dtype == np.dtype("S1")


def _comparable(values: Values) -> Values:
    """Convert texts to Python strings, and other objects to bytes, for comparison."""
    match values.dtype.kind:
        case "S":
            return np.strings.decode(values, "utf-8", "surrogateescape").astype(object)
        case "U":
            return values.astype(object)
        case "O":
            found = np.empty(values.shape, object)
            for index, value in np.ndenumerate(values):
                is_text = isinstance(value, str)
                found[index] = value.rstrip("\0") if is_text else element_bytes(value)
            return found
    return values


def _are_alike(a: Values, b: Values) -> bool:
    """Return whether it makes sense to compare two arrays."""
    return _kind(a) == _kind(b) and (a.dtype == b.dtype or a.dtype.kind not in "VMm")


def _kind(values: Values) -> str:
    match values.dtype.kind:
        case "b" | "i" | "u" | "f" | "c":
            return _NUMBERS
        case "S" | "O":
            return "texts or objects"
    return str(values.dtype)


def _different(a: Values, b: Values, tolerance: Tolerance) -> Flags:
    """Return which elements differ."""
    if a.dtype.kind == "V":
        return _different_bytes(a, b)
    with np.errstate(invalid="ignore"):
        flags: Flags = np.asarray(a != b, bool)
    if a.dtype.kind in "fc" and b.dtype.kind in "fc":
        flags &= ~(np.isnan(a) & np.isnan(b))
    elif a.dtype.kind in "Mm":
        flags &= ~(np.isnat(a) & np.isnat(b))
    if tolerance != EXACT and _kind(a) == _NUMBERS and flags.any():
        flags[flags] = ~_are_close(a[flags], b[flags], tolerance)
    return flags


def _different_bytes(a: Values, b: Values) -> Flags:
    one, other = (
        np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, values.dtype.itemsize)
        for values in (a, b)
    )
    return np.asarray((one != other).any(axis=1).reshape(a.shape))


def _are_close(a: Values, b: Values, tolerance: Tolerance) -> Flags:
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(b.astype(np.complex128 if b.dtype.kind == "c" else np.float64))
        limit = tolerance.absolute + tolerance.relative * size
        distance = _distance(a, b)
        # The tolerance is infinite at infinity, but no number is near it.
        return np.asarray((distance <= limit) & (distance < np.inf), bool)


def _largest(a: Values, b: Values) -> Number | None:
    """Return the largest difference of two finite numbers."""
    distance = _distance(a, b)
    if distance.dtype.kind != "f":
        return int(distance.max())
    finite = distance[np.isfinite(distance)]
    return float(finite.max()) if finite.size else None


def _distance(a: Values, b: Values) -> Values:
    """Return how far numbers are apart: exact for integers of any types, else as 64-bit floats."""
    kinds = a.dtype.kind + b.dtype.kind
    if not set(kinds) <= set("biu"):
        wide = np.complex128 if "c" in kinds else np.float64
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.abs(a.astype(wide) - b.astype(wide)))
    if np.uint64 in (a.dtype.newbyteorder("="), b.dtype.newbyteorder("=")) and a.dtype != b.dtype:
        return np.asarray(np.abs(a.astype(object) - b.astype(object)))
    exact = np.uint64 if a.dtype.kind == "u" and b.dtype.kind == "u" else np.int64
    one, other = a.astype(exact), b.astype(exact)
    # The larger minus the smaller one is exact modulo 2**64.
    return np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
