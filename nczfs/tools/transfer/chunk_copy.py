"""Copying the chunks of variables: as stored bytes if possible, otherwise encoded again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from nczfs.engine.dataset import Dataset
from nczfs.errors import NoSuchObject
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Variable
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.blocks import BLOCK_SHARE
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.chunk_target import ChunkTarget
from nczfs.tools.transfer.copying import Writes, copy
from nczfs.tools.transfer.dataset_target import target_block_size
from nczfs.tools.transfer.listed import listed_units
from nczfs.tools.transfer.target import Target
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key, join


class ChunkCopier:
    """A copier of the chunks of some variables from one dataset into another.

    Parameters
    ----------
    base : path of the node of the source that contains all of them.
    """

    def __init__(
        self,
        source: Dataset,
        base: str,
        target: Target,
        pairs: Sequence[ChunkPair],
        memory_limit_bytes: int,
        progress: Progress,
    ) -> None:
        self._source = source
        self._base = base
        self._target = target
        self._pairs = pairs
        self._limit = memory_limit_bytes
        self._progress = progress

    def run(self) -> None:
        """Copy all chunks. Raises StoreError, CodecError."""
        if self._source.zmap.features.lists_all:
            self._survey()
        elif not self._target.is_new:
            self._survey_target({})
        with self._writes() as writes:
            self._copy_bytes([pair for pair in self._pairs if pair.keeps_bytes], writes)
            for pair in self._pairs:
                if not pair.keeps_bytes:
                    self._copy_values(pair, writes)

    def _writes(self) -> Writes:
        options = self._target.dataset.engine.options
        is_near = all(d.zmap.features.near for d in (self._source, self._target.dataset))
        depth = 2 * options.decode_threads if is_near else options.store_threads
        return Writes(depth, self._limit // BLOCK_SHARE, self._progress)

    # Survey

    def _survey(self) -> None:
        """Find out which units the source has, and which the target has from an earlier run.

        Units that are copied as stored need no survey in the first run: they are copied while they
        are listed.
        """
        resumes = not self._target.is_new
        surveyed = [pair for pair in self._pairs if resumes or not pair.keeps_bytes]
        if not surveyed:
            return
        newest = dict.fromkeys((pair.path for pair in surveyed), 0)
        for pair in surveyed:
            pair.stored = ChunkSet(pair.source.array.units)
        for pair, unit, stat in self._listed(surveyed):
            assert pair.stored is not None
            pair.stored.add(unit)
            newest[pair.path] = max(newest[pair.path], stat.mtime_ns or 0)
        if resumes:
            self._survey_target(newest)

    def _survey_target(self, newest: Mapping[str, int]) -> None:
        """Find out what an earlier run has done, and remove what it should not have left.

        Units that are older than the newest one of the source are copied again: the source may
        have changed since.

        Parameters
        ----------
        newest : the time of the newest unit of each variable, if known.
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
            elif not stat.mtime_ns or stat.mtime_ns >= newest.get(pair.path, 0):
                pair.done.add(unit)
        if stale:
            dataset.zmap.delete_many(stale)

    def _listed(self, pairs: Sequence[ChunkPair]) -> Iterator[tuple[ChunkPair, ChunkIndex, Stat]]:
        by_path = {pair.path: pair for pair in pairs}
        sources = {path: pair.source for path, pair in by_path.items()}
        for path, unit, stat in listed_units(self._source, self._base, sources):
            self._progress(0)
            yield by_path[path], unit, stat

    # Copying

    def _copy_bytes(self, pairs: Sequence[ChunkPair], writes: Writes) -> None:
        """Copy units as they are stored, with one listing for all variables."""
        if not pairs:
            return
        left = {pair.path: pair.content.nbytes for pair in pairs}
        pool = self._target.dataset.engine.pools.write
        for pair, unit, size in self._units_to_copy(pairs):
            credit = pair.nbytes_of(unit)
            left[pair.path] -= credit
            if pair.done is not None and unit in pair.done:
                self._progress(credit)
            else:
                begin = partial(pool.submit, self._copy_unit, pair, unit)
                writes.add(begin, size, credit)
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

    def _copy_unit(self, pair: ChunkPair, unit: ChunkIndex) -> None:
        key = _key(self._source, pair.source, unit)
        goal = _key(self._target.dataset, pair.target, unit)
        with suppress(NoSuchObject):  # it was never written, or was just removed
            self._target.dataset.zmap.copy_from(self._source.zmap, key, goal)

    def _copy_values(self, pair: ChunkPair, writes: Writes) -> None:
        """Decode the source's chunks, and encode the target's from their values."""
        target = ChunkTarget(
            self._target.dataset,
            pair.target,
            is_new=self._target.is_new,
            wanted_parts=pair.wanted_parts,
        )
        copy(
            pair.sparse_content,
            target.shapes,
            target.start,
            target_block_size(pair.target, self._limit),
            writes,
            self._progress,
            pair.blocks,
            pair.is_wanted,
        )


def _key(dataset: Dataset, variable: Variable, unit: ChunkIndex) -> Key:
    return join(dataset.prefix(variable.key), variable.array.chunk_keys.name(unit))
