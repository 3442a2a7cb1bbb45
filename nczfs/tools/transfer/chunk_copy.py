"""Copying the chunks of variables: as stored bytes if possible, otherwise encoded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from nczfs.engine.dataset import Dataset
from nczfs.model.grid import ChunkIndex, RegularGrid
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.tools.sparse import box_of
from nczfs.tools.transfer.blocks import block_shape
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.copy_pieces import CopyPiece, PieceCopier, StoredPiece, ValuesPiece
from nczfs.tools.transfer.dataset_target import target_block_size
from nczfs.tools.transfer.listed import listed_units
from nczfs.tools.transfer.sharing import Cut, shared
from nczfs.tools.transfer.target import Target
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key

UNITS_MAX = 64
UNITS_BYTES = 64 << 20
"""A piece of units that are copied as they are stored has at most `UNITS_MAX` of them, and no more
when these have so many bytes."""


class ChunkCopier:
    """A copier of the chunks of some variables from one dataset into another.

    Parameters
    ----------
    base : path of the node of the source that contains all of them.
    pairs : surveyed, unless their units are copied as they are stored, for the first time: these
        are copied while they are listed.
    threads : of other processes, which do the pieces.
    """

    def __init__(
        self,
        source: Dataset,
        base: str,
        target: Target,
        pairs: Sequence[ChunkPair],
        memory_limit_bytes: int,
        progress: Progress,
        threads: int = 1,
    ) -> None:
        self._source = source
        self._base = base
        self._target = target
        self._pairs = pairs
        self._limit = memory_limit_bytes
        self._progress = progress
        self._threads = threads

    def run(self) -> None:
        """Copy all chunks in this process. Raises StoreError, CodecError."""
        dataset = self._target.dataset
        copier = PieceCopier(
            self._source, dataset, is_new=self._target.is_new, memory_limit_bytes=self._limit
        )
        pieces = self.pieces()
        with copier.writes(self._progress) as writes:
            for piece in pieces:
                copier.copy(piece, writes, self._progress)

    def pieces(self) -> Iterator[CopyPiece]:
        """Yield what is left to copy. What is done, or was never written, counts as progress.

        Raises
        ------
        StoreError : a store could not be listed.
        """
        if not self._target.is_new:
            self._survey_target()
        yield from self._stored_pieces([pair for pair in self._pairs if pair.keeps_bytes])
        decoded = [pair for pair in self._pairs if not pair.keeps_bytes]
        total = sum(pair.content.nbytes for pair in decoded)
        for pair in decoded:
            yield from self._values_pieces(pair, pair.content.nbytes / max(1, total))

    def _survey_target(self) -> None:
        """Find out what an earlier run has done, and remove what it should not have left.

        Units that are older than the newest one of the source are copied again: the source may
        have changed since.
        """
        for pair in self._pairs:
            pair.done = ChunkSet(pair.target.array.units)
        stale: list[Key] = []
        dataset = self._target.dataset
        pairs = {pair.path: pair for pair in self._pairs}
        targets = {path: pair.target for path, pair in pairs.items()}
        for path, unit, stat in listed_units(dataset, self._target.path, targets):
            pair = pairs[path]
            assert pair.done is not None
            if pair.keeps_holes and not pair.is_wanted_unit(unit):
                stale.append(stat.key)
            elif not stat.mtime_ns or stat.mtime_ns >= pair.newest_ns:
                pair.done.add(unit)
        if stale:
            dataset.zmap.delete_many(stale)

    def _listed(self, pairs: Sequence[ChunkPair]) -> Iterator[tuple[ChunkPair, ChunkIndex, Stat]]:
        by_path = {pair.path: pair for pair in pairs}
        sources = {path: pair.source for path, pair in by_path.items()}
        for path, unit, stat in listed_units(self._source, self._base, sources):
            self._progress(0)
            yield by_path[path], unit, stat

    # Pieces

    def _stored_pieces(self, pairs: Sequence[ChunkPair]) -> Iterator[StoredPiece]:
        """Yield units to copy as they are stored, from one listing for all variables."""
        if not pairs:
            return
        left = {pair.path: pair.content.nbytes for pair in pairs}
        waiting: dict[str, list[tuple[ChunkIndex, int]]] = {pair.path: [] for pair in pairs}
        for pair, unit, size in self._units_to_copy(pairs):
            credit = pair.nbytes_of(unit)
            left[pair.path] -= credit
            if pair.done is not None and unit in pair.done:
                self._progress(credit)
                continue
            units = waiting[pair.path]
            units.append((unit, size))
            if len(units) == UNITS_MAX or sum(nbytes for _, nbytes in units) >= UNITS_BYTES:
                yield StoredPiece(pair, tuple(units))
                units.clear()
        for pair in pairs:
            if units := waiting[pair.path]:
                yield StoredPiece(pair, tuple(units))
        self._progress(sum(left.values()))  # bytes of chunks that were never written

    def _units_to_copy(
        self, pairs: Sequence[ChunkPair]
    ) -> Iterator[tuple[ChunkPair, ChunkIndex, int]]:
        """Yield the units that the source has, or may have, and their stored bytes."""
        if self._source.zmap.features.lists_all:
            for pair, unit, stat in self._listed(pairs):
                yield pair, unit, stat.size
            return
        for pair in pairs:
            array = pair.source.array
            for unit in pair.all_units():
                yield pair, unit, array.chunks_of(unit).size * array.chunk_bytes

    def _values_pieces(self, pair: ChunkPair, share: float) -> Iterator[ValuesPiece]:
        """Yield the boxes in which anything is to be written.

        Parameters
        ----------
        share : of the work that this pair is.
        """
        content = pair.content
        try:
            if not prod(content.shape):
                return
            selections = pair.blocks(RegularGrid(content.shape, self._block(pair, share)))
            self._progress((prod(content.shape) - selections.size) * content.item_bytes)
            for selection in selections:
                box = box_of(selection)
                if pair.is_wanted(selection):
                    yield ValuesPiece(pair, box)
                else:
                    self._progress(box.size * content.item_bytes)
        finally:
            content.release()

    def _block(self, pair: ChunkPair, share: float) -> tuple[int, ...]:
        """Return the shape of the pieces of a pair."""
        content, array = pair.content, pair.target.array
        unit = array.units.chunk_shape
        size = target_block_size(pair.target, self._limit)
        block = block_shape(content.shape, unit, content.chunks, size)
        if self._threads == 1 or pair.source.array.cuts:
            return block
        cut = Cut(tuple(content.shape), tuple(content.chunks), unit, block)
        return shared(cut, self._threads * share).block
