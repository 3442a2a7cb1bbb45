"""Indexing expressions of variables, and the positions that they select."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby, product
from math import prod
from operator import index as as_index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from nczfs.buffers import Positions
from nczfs.engine.chunks.chunkaccess import Index
from nczfs.errors import BadSelection
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkGrid, ChunkIndex, Cuts
from nczfs.plaindata import frozen

Axis: TypeAlias = "range | Positions"
"""A selection along one dimension: an ascending range, or positions in any order."""


@frozen
class ChunkSelection:
    """The selected elements that lie in one chunk.

    Attributes
    ----------
    chunk : index of the chunk in the grid.
    source : numpy index of the elements in the chunk.
    target : numpy index of the same elements in an array of the selection's shape.
    """

    chunk: ChunkIndex
    source: Index
    target: Index


@frozen
class Selection:
    """A selection of elements: all combinations of the selections along each dimension.

    Attributes
    ----------
    axes : one for each dimension of the array.
    flipped : the dimensions whose range was given in descending order.
    dropped : the dimensions that were given as an integer and are not in the result.
    """

    axes: tuple[Axis, ...]
    flipped: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths along all dimensions of the array; 1 for integers."""
        return tuple(map(len, self.axes))

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Lengths along the dimensions of the result."""
        return tuple(len(axis) for d, axis in enumerate(self.axes) if d not in self.dropped)

    @property
    def box(self) -> Box | None:
        """The selection as a box; None if it has gaps or another order."""
        if not all(isinstance(axis, range) and axis.step == 1 for axis in self.axes):
            return None
        ranges = [axis for axis in self.axes if isinstance(axis, range)]
        return Box(tuple(r.start for r in ranges), tuple(r.stop for r in ranges))

    def result(self, values: Any) -> Any:
        """Convert values of `shape` to the caller's result: flipped, without dropped dimensions."""
        return values[self._cut()]

    def result_array(self, values: Any) -> Any:
        """Convert values as `result` does, but to an array of rank 0 instead of a scalar."""
        return values[(*self._cut(), ...)]

    def spread(self, values: Any) -> Any:
        """Convert the caller's values to an array of `shape`: broadcast and flipped.

        Raises
        ------
        BadSelection : the values do not fit the selection.
        """
        shape = np.shape(values)
        surplus = max(0, len(shape) - len(self.result_shape))
        if set(shape[:surplus]) <= {1}:
            values = np.reshape(values, shape[surplus:])
        try:
            wide = np.broadcast_to(values, self.result_shape)
        except ValueError:
            raise BadSelection(
                f"values of shape {shape} do not fit a selection of shape {self.result_shape}"
            ) from None
        backwards = tuple(
            slice(None, None, -1) if d in self.flipped else slice(None)
            for d in range(len(self.axes))
            if d not in self.dropped
        )
        return wide[(*backwards, ...)].reshape(self.shape)

    def by_chunk(self, grid: ChunkGrid) -> ChunkSelections:
        """Return the selected elements chunk by chunk."""
        splits: list[list[_Piece]] = [[]]
        shape = self.shape
        if prod(shape):
            splits = [_split(axis, cuts) for axis, cuts in zip(self.axes, grid.cuts, strict=True)]
        return ChunkSelections(shape, grid, splits)

    def _cut(self) -> tuple[int | slice, ...]:
        if not self.flipped and not self.dropped:
            return ()
        return tuple(
            0 if d in self.dropped else slice(None, None, -1 if d in self.flipped else 1)
            for d in range(len(self.axes))
        )


_Piece: TypeAlias = "tuple[int, slice | Positions, slice | Positions]"


class ChunkSelections:
    """The chunks of a selection, each once, in C order of the grid, generated on demand."""

    def __init__(self, shape: tuple[int, ...], grid: ChunkGrid, splits: list[list[_Piece]]) -> None:
        self._shape = shape
        self._grid = grid
        self._splits = splits

    def __len__(self) -> int:
        return prod(map(len, self._splits))

    def __iter__(self) -> Iterator[ChunkSelection]:
        return map(self._selected, product(*self._splits))

    def by_unit(self, units: ChunkGrid) -> Iterator[ChunkSelection]:
        """Yield the chunks unit by unit, in C order within each.

        Parameters
        ----------
        units : the grid of what chunks lie in.
        """
        sides = zip(self._splits, self._grid.cuts, units.cuts, strict=True)
        together = [
            [list(pieces) for _, pieces in groupby(split, partial(_unit_of, chunks, whole))]
            for split, chunks, whole in sides
        ]
        for unit in product(*together):
            yield from map(self._selected, product(*unit))

    def _selected(self, pieces: tuple[_Piece, ...]) -> ChunkSelection:
        return ChunkSelection(
            tuple([piece[0] for piece in pieces]),
            _index([piece[1] for piece in pieces], self._grid.chunk_shape),
            _index([piece[2] for piece in pieces], self._shape),
        )


def select(selector: object, shape: tuple[int, ...]) -> Selection:
    """Return the selection of ``variable[selector]`` for an array of a shape.

    Integers, slices with any step and one ellipsis, as numpy has them; lists of integers and
    boolean masks select along their own dimension (orthogonally).

    Raises
    ------
    BadSelection : an index is out of range or of another kind, or there are too many.
    """
    return _selection(_expand(selector, len(shape)), shape)


def select_for_writing(
    selector: object,
    shape: tuple[int, ...],
    unlimited: tuple[bool, ...],
    values_shape: tuple[int, ...],
) -> Selection:
    """Return the selection of ``variable[selector] = values``, beyond unlimited dimensions too.

    A slice without an end along an unlimited dimension ends with the values, if they reach beyond
    the dimension.
    """
    indices = _expand(selector, len(shape))
    for d, (index, length) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(index, slice):
            _range(index, length, d)  # or it is not an index
    kept = [d for d, index in enumerate(indices) if not _is_integer(index)]
    given = dict(zip(reversed(kept), reversed(values_shape), strict=False))
    lengths = [
        max(length, _reach(index, length, given.get(d))) if grows else length
        for d, (index, length, grows) in enumerate(zip(indices, shape, unlimited, strict=True))
    ]
    # Negative indices count from the present end, not from the future one.
    settled = [_from_start(index, length) for index, length in zip(indices, shape, strict=True)]
    return _selection(settled, tuple(lengths))


def _selection(indices: list[object], shape: tuple[int, ...]) -> Selection:
    axes: list[Axis] = []
    flipped, dropped = set(), set()
    for d, (index, length) in enumerate(zip(indices, shape, strict=True)):
        match index:
            case slice():
                positions = _range(index, length, d)
                if positions.step < 0:
                    flipped.add(d)
                    positions = positions[::-1]
                axes.append(positions)
            case SupportsIndex() if _is_integer(index):
                position = _position(as_index(index), length, d)
                dropped.add(d)
                axes.append(range(position, position + 1))
            case _:
                axes.append(_positions(index, length, d))
    return Selection(tuple(axes), frozenset(flipped), frozenset(dropped))


def _is_integer(index: object) -> bool:
    if isinstance(index, np.ndarray):
        return index.ndim == 0 and index.dtype.kind in "iu"
    # A bool is an integer, too, but would be a mask for numpy.
    return isinstance(index, SupportsIndex) and not isinstance(index, bool | np.bool_)


def _expand(selector: object, ndim: int) -> list[object]:
    indices = selector if isinstance(selector, tuple) else (selector,)
    # By identity, because arrays in the index compare element by element.
    dots = [i for i, index in enumerate(indices) if index is Ellipsis]
    if len(dots) > 1:
        raise BadSelection("an index can have only one ellipsis ('...')")
    given = len(indices) - len(dots)
    if given > ndim:
        raise BadSelection(f"too many indices: {given} for {ndim} dimensions")
    at = dots[0] if dots else len(indices)
    rest: list[object] = [slice(None)] * (ndim - given)
    return [*indices[:at], *rest, *indices[at + len(dots) :]]


def _position(position: int, length: int, d: int) -> int:
    if not -length <= position < length:
        raise BadSelection(f"dimension {d}: index {position} is out of range for length {length}")
    return position % length


def _range(index: slice, length: int, d: int) -> range:
    try:
        positions = range(*index.indices(length))
    except (TypeError, ValueError) as error:
        raise BadSelection(f"dimension {d}: {index!r}: {error}") from None
    return positions if positions else range(0)


def _positions(index: object, length: int, d: int) -> Positions:
    if index is None:
        raise BadSelection("numpy.newaxis (None) is not an index of a variable: reshape the result")
    if not isinstance(index, list | tuple | np.ndarray) or np.ndim(index) == 0:
        raise BadSelection(
            f"dimension {d}: {index!r} is not an index: integers, slices, '...', lists of integers "
            "and boolean masks are"
        )
    found = np.asarray(index, np.int64 if len(index) == 0 else None)
    if found.ndim != 1:
        raise BadSelection(
            f"dimension {d}: an index has {found.ndim} dimensions; only 1 is supported"
        )
    if found.dtype == bool:
        if len(found) != length:
            raise BadSelection(
                f"dimension {d}: a mask of length {len(found)} for a dimension of length {length}"
            )
        return np.flatnonzero(found)
    if found.dtype.kind not in "iu":
        raise BadSelection(f"dimension {d}: {found.dtype} is not a type for positions")
    wrong = (found < -length) | (found >= length)
    if wrong.any():
        position = found[wrong][0]
        raise BadSelection(f"dimension {d}: index {position} is out of range for length {length}")
    return np.where(found < 0, found + length, found).astype(np.int64)


def _reach(index: object, length: int, given: int | None) -> int:
    """Return how long a dimension must be to contain an index."""
    match index:
        case slice():
            step = 1 if index.step is None else as_index(index.step)
            if step < 0:
                return 0 if index.start is None else as_index(index.start) + 1
            if index.stop is not None:
                return as_index(index.stop)
            start = 0 if index.start is None else as_index(index.start)
            start = max(0, start + length) if start < 0 else start
            count = 1 if given is None else given
            return start + (count - 1) * step + 1
        case SupportsIndex() if _is_integer(index):
            return as_index(index) + 1
        case list() | tuple() | np.ndarray():
            found = np.asarray(index)
            return int(found.max()) + 1 if found.dtype.kind in "iu" and found.size else 0
        case _:
            return 0


def _from_start(index: object, length: int) -> object:
    """Return an index with the same meaning after its dimension has become longer."""

    def settled(position: SupportsIndex | None) -> int | None:
        number = None if position is None else as_index(position)
        return number if number is None or number >= 0 else number + length

    match index:
        case slice():
            start, stop = settled(index.start), settled(index.stop)
            if index.step is None or as_index(index.step) > 0:
                return slice(start and max(start, 0), stop and max(stop, 0), index.step)
            if start is not None and start < 0:
                return slice(0, 0)
            return slice(start, None if stop is not None and stop < 0 else stop, index.step)
        case list() | tuple() | np.ndarray() if np.asarray(index).dtype.kind == "i":
            found = np.asarray(index)
            return np.where((-length <= found) & (found < 0), found + length, found)
        case _:
            return index


def _unit_of(chunks: Cuts, units: Cuts, piece: _Piece) -> int:
    return units.at(chunks.place(piece[0]).start).number


def _split(axis: Axis, cuts: Cuts) -> list[_Piece]:
    """Yield along one dimension: chunk number, positions in the chunk, and in the selection."""
    if isinstance(axis, range):
        return _split_range(axis, cuts)
    chunks, within = cuts.found(axis)
    order = np.argsort(chunks, kind="stable")
    numbers, starts = np.unique(chunks[order], return_index=True)
    groups = np.split(order, starts[1:])
    return [(int(n), within[group], group) for n, group in zip(numbers, groups, strict=True)]


def _split_range(axis: range, cuts: Cuts) -> list[_Piece]:
    pieces: list[_Piece] = []
    done = 0
    while done < len(axis):
        position = axis[done]
        place = cuts.at(position)
        first = position - place.start
        count = min(len(axis) - done, (place.stop - 1 - position) // axis.step + 1)
        source = slice(first, first + (count - 1) * axis.step + 1, axis.step)
        pieces.append((place.number, source, slice(done, done + count)))
        done += count
    return pieces


def _index(parts: list[slice | Positions], lengths: tuple[int, ...]) -> Index:
    """Return a numpy index of all combinations of the parts."""
    if sum([isinstance(part, np.ndarray) for part in parts]) < 2:
        return tuple(parts)
    arrays = [
        np.arange(length)[part] if isinstance(part, slice) else part
        for part, length in zip(parts, lengths, strict=True)
    ]
    return np.ix_(*arrays)
