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
from nczfs.tools.transfer.listed import listed_chunks
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
        """Find out which chunks the source has, and which the target has from an earlier run.

        Chunks that are copied as stored need no survey in the first run: they are copied while they
        are listed.
        """
        resumes = not self._target.is_new
        surveyed = [pair for pair in self._pairs if resumes or not pair.keeps_bytes]
        if not surveyed:
            return
        newest = dict.fromkeys((pair.path for pair in surveyed), 0)
        for pair in surveyed:
            pair.stored = ChunkSet(pair.source.array.grid)
        for pair, chunk, stat in self._listed(surveyed):
            assert pair.stored is not None
            pair.stored.add(chunk)
            newest[pair.path] = max(newest[pair.path], stat.mtime_ns or 0)
        if resumes:
            self._survey_target(newest)

    def _survey_target(self, newest: Mapping[str, int]) -> None:
        """Find out what an earlier run has done, and remove what it should not have left.

        Chunks that are older than the newest chunk of the source are copied again: the source may
        have changed since.

        Parameters
        ----------
        newest : the time of the newest chunk of each variable, if known.
        """
        for pair in self._pairs:
            pair.done = ChunkSet(pair.target.array.grid)
        stale: list[Key] = []
        dataset = self._target.dataset
        pairs = {pair.target.key: pair for pair in self._pairs}
        arrays = {key: pair.target.array for key, pair in pairs.items()}
        for key, chunk, stat in listed_chunks(dataset, self._target.path, arrays):
            pair = pairs[key]
            assert pair.done is not None
            if pair.keeps_holes and not pair.is_wanted_chunk(chunk):
                stale.append(stat.key)
            elif not stat.mtime_ns or stat.mtime_ns >= newest.get(pair.path, 0):
                pair.done.add(chunk)
        if stale:
            dataset.zmap.delete_many(stale)

    def _listed(self, pairs: Sequence[ChunkPair]) -> Iterator[tuple[ChunkPair, ChunkIndex, Stat]]:
        by_key = {pair.source.key: pair for pair in pairs}
        arrays = {key: pair.source.array for key, pair in by_key.items()}
        for key, chunk, stat in listed_chunks(self._source, self._base, arrays):
            self._progress(0)
            yield by_key[key], chunk, stat

    # Copying

    def _copy_bytes(self, pairs: Sequence[ChunkPair], writes: Writes) -> None:
        """Copy chunks as they are stored, with one listing for all variables."""
        if not pairs:
            return
        left = {pair.path: pair.content.nbytes for pair in pairs}
        pool = self._target.dataset.engine.pools.write
        for pair, chunk, size in self._chunks_to_copy(pairs):
            credit = pair.nbytes_of(chunk)
            left[pair.path] -= credit
            if pair.done is not None and chunk in pair.done:
                self._progress(credit)
            else:
                begin = partial(pool.submit, self._copy_chunk, pair, chunk)
                writes.add(begin, size, credit)
        self._progress(sum(left.values()))  # bytes of chunks that were never written

    def _chunks_to_copy(
        self, pairs: Sequence[ChunkPair]
    ) -> Iterator[tuple[ChunkPair, ChunkIndex, int]]:
        """Yield the chunks that the source has, or may have, and their stored bytes."""
        if self._source.zmap.features.lists_all:
            for pair, chunk, stat in self._listed(pairs):
                yield pair, chunk, stat.size
            return
        for pair in pairs:
            for chunk in pair.all_chunks():
                yield pair, chunk, pair.source.array.chunk_bytes

    def _copy_chunk(self, pair: ChunkPair, chunk: ChunkIndex) -> None:
        key = _key(self._source, pair.source, chunk)
        goal = _key(self._target.dataset, pair.target, chunk)
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
            target.unit_shape,
            target.start,
            target_block_size(pair.target, self._limit),
            writes,
            self._progress,
            pair.blocks,
            pair.is_wanted,
        )


def _key(dataset: Dataset, variable: Variable, chunk: ChunkIndex) -> Key:
    return join(dataset.prefix(variable.key), variable.array.chunk_keys.name(chunk))
