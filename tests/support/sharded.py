"""Arrays whose chunks lie in shards, whatever format their metadata have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

import pytest

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.shardindexes import ShardMemory
from nczfs.engine.chunks.shardio import ShardIO
from nczfs.engine.options import EngineOptions
from nczfs.engine.retrying import Confirmation
from nczfs.model.hierarchy import ArrayDescription, CodecSpec, Shards
from nczfs.zmap.base import ZMap

INDEX_CODECS = (CodecSpec("bytes", {"endian": "little"}), CodecSpec("crc32c"))


def in_shards(
    array: ArrayDescription, *levels: Sequence[int], index_at_end: bool = True
) -> ArrayDescription:
    """Return an array with its chunks in shards.

    Parameters
    ----------
    levels : how many of what is inside lie beside each other in a shard along the first
        dimensions, for each level of nesting, the innermost one first.
    """
    rank, shape = len(array.shape), array.chunk_shape
    shards: list[Shards] = []
    for counts in levels:
        counts = (*counts, *(1 for _ in range(rank)))[:rank]
        shape = tuple(n * c for n, c in zip(counts, shape, strict=True))
        shards.insert(0, Shards(shape, INDEX_CODECS, index_at_end))
    return replace(array, shards=tuple(shards))


class ShardedChunks(ShardIO):
    """Chunks of an array whose metadata know nothing of shards."""

    levels: tuple[Sequence[int], ...]
    index_at_end: bool

    def resized(self, array: ArrayDescription) -> Self:
        return super().resized(in_shards(array, *self.levels, index_at_end=self.index_at_end))


@contextmanager
def all_sharded(*levels: Sequence[int], index_at_end: bool = True) -> Iterator[None]:
    """Let the chunks of all arrays that are opened lie in shards, as `in_shards` has them."""
    levels = levels or ((2,),)

    def source_of(
        zmap: ZMap,
        place: ArrayPlace,
        array: ArrayDescription,
        options: EngineOptions,
        confirm: Confirmation,
        shards: ShardMemory,
        grows: Sequence[bool],
    ) -> ChunkStore:
        """As `nczfs.engine.chunks.sources.source_of`."""
        array = in_shards(array, *levels, index_at_end=index_at_end)
        limit, missing = options.memory_limit_bytes, options.missing_chunks
        chunks = ShardedChunks(zmap, place, array, missing, shards, grows, confirm, limit)
        chunks.levels, chunks.index_at_end = levels, index_at_end
        return chunks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nczfs.engine.dataset.source_of", source_of)
        yield
