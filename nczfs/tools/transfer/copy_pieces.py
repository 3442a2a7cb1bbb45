"""The pieces of a copy: each is done by itself, in any order, by any process, even twice.

A piece is a box of a variable that is whole units of the target, or some units that are copied as
they are stored. What has to be known to do one is in the piece, so one can be sent to another
process, and they are made one after the other: a copy of a million chunks never holds a list of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays.selection import select
from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.errors import NoSuchObject
from nczfs.library.variable import Variable as LibraryVariable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkGrid, ChunkIndex, Slices
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.blocks import BLOCK_SHARE
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.chunk_target import ChunkTarget
from nczfs.tools.transfer.copying import Writes, copy_block
from nczfs.tools.transfer.dataset_source import content_of
from nczfs.tools.transfer.dataset_target import target_block_size
from nczfs.tools.transfer.source import Content
from nczfs.zmap.keys import Key, join

KEYS_NAMED_MAX = 20


@frozen
class StoredPiece:
    """Units that are copied as they are stored, each with its stored bytes."""

    pair: ChunkPair
    units: tuple[tuple[ChunkIndex, int], ...]


@frozen
class ValuesPiece:
    """A box whose values are decoded and encoded, of whole units of the target."""

    pair: ChunkPair
    box: Box


CopyPiece: TypeAlias = StoredPiece | ValuesPiece


class PieceCopier:
    """Copies pieces from one dataset into another.

    Parameters
    ----------
    is_new : whether the target has no chunk yet; see `ChunkTarget`.
    memory_limit_bytes : for the values of a piece and the writes under way.
    """

    def __init__(
        self, source: Dataset, target: Dataset, *, is_new: bool, memory_limit_bytes: int
    ) -> None:
        self._source = source
        self._target = target
        self._is_new = is_new
        self._limit = memory_limit_bytes
        self._writer: tuple[ChunkPair, ChunkTarget, Content] | None = None

    def writes(self, progress: Progress) -> Writes:
        """Return writes with the best number of them at a time between the two stores."""
        options = self._target.engine.options
        is_near = all(dataset.zmap.features.near for dataset in (self._source, self._target))
        depth = 2 * options.decode_threads if is_near else options.store_threads
        return Writes(depth, self._limit // BLOCK_SHARE, progress)

    def copy(self, piece: CopyPiece, writes: Writes, progress: Progress) -> None:
        """Copy a piece. The last of its writes may go on when this returns.

        Raises
        ------
        CodecError, StoreError, BadValue : also what a write of an earlier piece raised.
        """
        if isinstance(piece, StoredPiece):
            pool = self._target.engine.pools.write
            for unit, size in piece.units:
                begin = partial(pool.submit, self._copy_unit, piece.pair, unit)
                writes.add(begin, size, piece.pair.nbytes_of(unit))
            return
        pair = piece.pair
        target, content = self._of(pair)
        block = target_block_size(pair.target, self._limit)
        box = piece.box.slices()
        copy_block(content, target.shapes, target.start, block, box, writes, progress)

    def _of(self, pair: ChunkPair) -> tuple[ChunkTarget, Content]:
        if self._writer is None or self._writer[0] is not pair:
            target = ChunkTarget(
                self._target, pair.target, is_new=self._is_new, wanted_parts=pair.wanted_parts
            )
            self._writer = pair, target, pair.sparse_content
        return self._writer[1:]

    def _copy_unit(self, pair: ChunkPair, unit: ChunkIndex) -> None:
        key = unit_key(self._source, pair.source, unit)
        goal = unit_key(self._target, pair.target, unit)
        with suppress(NoSuchObject):  # it was never written, or was just removed
            self._target.zmap.copy_from(self._source.zmap, key, goal)


def unit_key(dataset: Dataset, variable: Variable, unit: ChunkIndex) -> Key:
    """Return the key of a chunk or shard of a variable."""
    return join(dataset.prefix(variable.key), variable.array.chunk_keys.name(unit))


def keys_of(piece: CopyPiece, target: Dataset) -> list[Key]:
    """Return the keys of the target that a piece stores; of many, the first ones."""
    pair = piece.pair
    units: Iterator[ChunkIndex]
    if isinstance(piece, StoredPiece):
        units = (unit for unit, _ in piece.units)
    else:
        touched = pair.target.array.units.touched(piece.box)
        units = (unit for unit in touched.indexes() if pair.is_wanted_unit(unit))
    return [unit_key(target, pair.target, unit) for unit in islice(units, KEYS_NAMED_MAX)]


# Sending


@frozen
class _SentSet:
    """The part of a set of units that concerns a piece.

    Attributes
    ----------
    bits : a bit for each unit of the box, in C order.
    """

    box: Box
    bits: bytes


@frozen
class SentPiece:
    """A piece as plain data, for another process.

    Attributes
    ----------
    units : of a `StoredPiece`. box : of a `ValuesPiece`. The other one is None.
    stored, done : as of `ChunkPair`, as far as they concern the box.
    """

    path: str
    source: Variable
    target: Variable
    units: tuple[tuple[ChunkIndex, int], ...] | None = None
    box: Box | None = None
    stored: _SentSet | None = None
    done: _SentSet | None = None


def sent(piece: CopyPiece) -> SentPiece:
    """Return a piece as plain data."""
    pair = piece.pair
    plain = SentPiece(pair.path, pair.source, pair.target)
    if isinstance(piece, StoredPiece):
        return replace(plain, units=piece.units)
    return replace(
        plain,
        box=piece.box,
        stored=_sent_set(pair.stored, piece.box),
        done=_sent_set(pair.done, piece.box),
    )


def received(piece: SentPiece, source: Dataset) -> CopyPiece:
    """Return the piece that was sent, to be read from an open dataset."""
    variable = LibraryVariable(source, piece.source, None)
    pair = chunk_pair(piece.path, variable, piece.target)
    if piece.box is None:
        return StoredPiece(pair, piece.units or ())
    pair.stored = _received_set(piece.stored, pair.source.array.units)
    pair.done = _received_set(piece.done, pair.target.array.units)
    return ValuesPiece(pair, piece.box)


def _sent_set(units: ChunkSet | None, box: Box) -> _SentSet | None:
    if units is None:
        return None
    touched = units.grid.touched(box)
    flags = np.zeros(touched.shape, np.bool_)
    for unit in units.within(touched):
        flags[tuple(i - start for i, start in zip(unit, touched.start, strict=True))] = True
    return _SentSet(touched, np.packbits(flags).tobytes())


def _received_set(sent_set: _SentSet | None, grid: ChunkGrid) -> ChunkSet | None:
    if sent_set is None:
        return None
    found = ChunkSet(grid)
    bits = np.unpackbits(np.frombuffer(sent_set.bits, np.uint8))
    for unit, bit in zip(sent_set.box.indexes(), bits.tolist(), strict=False):
        if bit:
            found.add(unit)
    return found


# Pairs


def chunk_pair(path: str, variable: LibraryVariable, target: Variable) -> ChunkPair:
    """Return a pair that reads a variable of an open dataset.

    If the types are the same, elements are read as they are stored: strings of NCZarr are copied
    without decoding.
    """
    content = content_of(variable)
    if variable.description.array.dtype.native == target.array.dtype.native:
        content = replace(content, read=_NativeReader(variable))
    return ChunkPair(path, variable.description, target, content)


@frozen
class _NativeReader:
    """A reader of elements as they are stored."""

    variable: LibraryVariable

    def __call__(self, selection: Slices) -> Values:
        description = self.variable.description
        selected = select(selection, description.array.shape)
        values = np.empty(selected.shape, description.array.dtype.native)
        array = self.variable.engine_dataset.array(description)
        array.read_selection(selected, values, Tally())
        return values
