"""The chunks of an array that were never written: its grid minus what the store has."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from itertools import islice

from nczfs.engine.chunks.base import UnitIndex
from nczfs.model.boxes import whole
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Variable
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.transfer.listed import listed_units
from nczfs.tools.verify.subject import Subject


def holes(subject: Subject, variable: Variable) -> Iterator[ChunkIndex]:
    """Yield the missing chunks of a variable, in C order; of shards, shard by shard.

    For the memory see `ChunkSet`. The indexes of shards are read a few at a time.

    Raises
    ------
    CorruptChunk : the index of a shard cannot be read.
    StoreError : the store could not be reached.
    """
    array = variable.array
    stored = ChunkSet(array.units)
    for _, unit, _ in listed_units(subject.dataset, variable.key, {"": variable}):
        stored.add(unit)
    if not array.shards:
        yield from stored.missing()
        return
    for unit, found in _contents(subject, variable, stored):
        yield from (chunk for chunk in array.chunks_of(unit).indexes() if chunk not in found)


def _contents(
    subject: Subject, variable: Variable, stored: ChunkSet
) -> Iterator[tuple[UnitIndex, Collection[ChunkIndex]]]:
    """Yield all shards of a variable in C order, with the chunks that each one has."""
    _, source = subject.dataset.chunks(variable)
    pool = subject.engine.pools.fetch
    depth = subject.engine.options.fetch_threads
    under_way: deque[tuple[UnitIndex, Future[Collection[ChunkIndex]] | None]] = deque()
    units = whole(variable.array.units.counts).indexes()
    while True:
        for unit in islice(units, depth - len(under_way)):
            is_stored = unit in stored
            under_way.append((unit, pool.submit(source.stored_in, unit) if is_stored else None))
        if not under_way:
            return
        unit, future = under_way.popleft()
        yield unit, () if future is None else future.result()
