"""The chunks of one array: loading them on demand or ahead of it, and writing to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from math import prod

from nczfs.buffers import Values
from nczfs.engine.arrays.chunkloader import ChunkLoader
from nczfs.engine.arrays.pieces import part_of, run_of, starts_at
from nczfs.engine.arrays.selection import ChunkSelection
from nczfs.engine.chunks.base import ChunkSource, ChunkStore
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.chunkaccess import WHOLE, ChunkAccess, access_of
from nczfs.engine.chunks.fill import fill_chunk
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import Tally
from nczfs.engine.pools import Pools
from nczfs.engine.writing.writeback import WriteBack
from nczfs.engine.writing.written import Region
from nczfs.errors import NotWritable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex, ChunkPart
from nczfs.model.hierarchy import ArrayDescription


class ArrayChunks:
    """The chunks of one incarnation of an array, including what is not in the store yet.

    Immutable but for the cache it shares; every method may be called from any thread.

    Parameters
    ----------
    stored : the array of the chunks, shared with its other incarnations.
    grows : for each dimension, whether others may make it longer at any time; None: none.
    shape : returns the present shape of the array; None: its ends are not heeded.
    """

    def __init__(
        self,
        source: ChunkSource,
        stored: StoredArray,
        cache: ChunkCache,
        writeback: WriteBack,
        pools: Pools,
        *,
        grows: tuple[bool, ...] | None = None,
        shape: Callable[[], tuple[int, ...]] | None = None,
    ) -> None:
        self.description = source.array
        self.source = source
        self._writer = source.writer
        self._why = "the values are computed from others, and cannot be written"
        self.pools = pools
        self.stored = stored
        self._cache = cache
        self._writeback = writeback
        self._loader = ChunkLoader(source, stored, cache, writeback, pools)
        self._grows = grows or (False,) * len(source.array.shape)
        self._shape = shape

    def resized(self, description: ArrayDescription) -> ArrayChunks:
        """Return the same chunks of the array with another shape."""
        chunks, source = copy(self), self.source.resized(description)
        chunks.description, chunks.source = source.array, source
        chunks._loader = self._loader.of(source)
        chunks._writer = source.writer if self.is_writable else None
        return chunks

    @property
    def is_writable(self) -> bool:
        """Whether the chunks can be stored."""
        return self._writer is not None

    @property
    def capacity(self) -> int:
        """The number of chunks that fit into the budget of the cache."""
        return self._loader.capacity

    def unwritable(self, why: str) -> ArrayChunks:
        """Return the same chunks for reading alone."""
        chunks = copy(self)
        chunks._writer, chunks._why = None, why
        return chunks

    def permitted(self) -> ArrayChunks:
        """Return the same chunks for making the array shorter; see `Array.permitted`."""
        chunks = copy(self)
        chunks._writer, chunks._shape = self.source.writer, None
        return chunks

    def are_read_by(self, others: Callable[[], Iterable[StoredArray]]) -> None:
        """Let other arrays, which have the same objects, read anew what is stored of this one."""
        cache = self._cache

        def forget() -> None:
            for each in others():
                cache.discard(each)
                each.note_changed()

        self.stored.on_stored = forget

    def writer(self) -> ChunkStore:
        """Return where the chunks are stored. Raises NotWritable: they cannot be written."""
        if self._writer is None:
            raise NotWritable(f"{self.stored.prefix}: {self._why}")
        self.stored.on_writing()
        return self._writer

    def opened(
        self, index: ChunkIndex, tally: Tally, fresh_since: float, access: ChunkAccess = WHOLE
    ) -> AbstractContextManager[Values]:
        """Keep the values of a chunk in memory during the block, with the fill beyond the edge.

        Only those that `access` describes are sure to be right.
        """
        if self._writeback.find((self.stored, index)) is None:
            return self._clean(index, tally, fresh_since, access)
        return self._with_written(index, tally, fresh_since)

    def copy(self, selected: ChunkSelection, out: Values, tally: Tally, fresh_since: float) -> None:
        """Copy elements of one chunk into `out`."""
        access = access_of(
            selected.source, self.description.chunk_shape, self.description.grid.box(selected.chunk)
        )
        with self.opened(selected.chunk, tally, fresh_since, access) as values:
            out[selected.target] = values[selected.source]

    def copy_past_cache(
        self, selections: Sequence[ChunkSelection], out: Values, tally: Tally
    ) -> None:
        """Copy elements of chunks of a unit that are not in memory, without keeping them there.

        A chunk that is one run of `out` is decoded into it, so after an error `out` is undefined.
        """
        self.stored.check()
        try:
            halves = self._loader.fetched([(each.chunk, None) for each in selections])
            with self.pools.decoding() as scratch:
                for selected, decode in zip(selections, halves, strict=True):
                    target = run_of(selected, self.description.grid.extent(selected.chunk), out)
                    scratch.restart(target)
                    values = self._loader.counted(decode(), None, tally).values
                    self.stored.check()
                    if target is None or not starts_at(values, target):
                        out[selected.target] = values[selected.source]
                    elif out.dtype != values.dtype:  # decoded in place, in this machine's order
                        target.view(values.dtype).byteswap(inplace=True)
        except Exception:
            self.stored.check()  # what replaced it meanwhile may well be no chunk of it
            raise

    def is_in_memory(self, index: ChunkIndex, fresh_since: float) -> bool:
        """Return whether a chunk is dirty or cached. This does not count as a use of the chunk."""
        if self._loader.inputs:
            fresh_since = self._loader.as_fresh(fresh_since)
        chunk_id = (self.stored, index)
        return (
            self._writeback.find(chunk_id) is not None
            or self._cache.peek(chunk_id, fresh_since, share=0.0) is not None
            or self._loader.is_missing(index, fresh_since)
        )

    def peek(self, index: ChunkIndex, fresh_since: float, share: float = 1.0) -> Values | None:
        """Return the values of a chunk if they are in memory. Never blocks."""
        dirty = self._writeback.find((self.stored, index))
        if dirty is not None:
            return dirty.readable()
        if self._loader.inputs:
            fresh_since = self._loader.as_fresh(fresh_since)
        found = self._cache.peek((self.stored, index), fresh_since, share)
        if found is None and self._loader.is_missing(index, fresh_since):
            return fill_chunk(self.description, index)
        return found

    def keep(self, index: ChunkIndex, keeping: Keeping, tally: Tally, fresh_since: float) -> None:
        """Load a chunk, and keep it on the disk if there is room; see `ChunkCache.keep`.

        Raises
        ------
        MissingChunk, CorruptChunk, UnknownCodec, StoreError.
        """
        if self._writeback.find((self.stored, index)) is not None:
            keeping.in_memory(0)  # of the cache, until it is stored
            return
        if self._loader.is_missing(index, fresh_since):
            keeping.in_memory(0)
            return
        load = partial(self._loader.load, index, tally, fresh_since)
        if self._loader.inputs:
            fresh_since = self._loader.as_fresh(fresh_since)
        self._cache.keep((self.stored, index), load, self._loader.load_bytes, fresh_since, keeping)

    def holds(self, index: ChunkIndex) -> bool:
        """Return whether a chunk is dirty, in memory or on the disk, or known to be missing."""
        chunk_id = (self.stored, index)
        is_held = self._writeback.find(chunk_id) is not None or self._cache.holds(chunk_id)
        return is_held or self._loader.is_missing(index, -math.inf)

    def request(self, index: ChunkIndex, tally: Tally, fresh_since: float) -> bool:
        """Let other threads load a chunk ahead. Returns False if it is there, or there is no room.

        Readers that already wait for the chunk get its error; otherwise the error is dropped,
        because the reader that needs the chunk asks again.
        """
        here = (self.stored, index)
        if not self._loader.inputs and self._cache.peek(here, fresh_since, share=0.0) is not None:
            return False  # the usual case, with as few calls as possible
        return self._loader.request(index, tally, fresh_since)

    def request_all(
        self,
        indexes: Iterable[ChunkIndex],
        tally: Tally,
        fresh_since: float,
        *,
        near: bool = False,
    ) -> None:
        """Request several chunks, those of one unit together; no more than fit into the budget.

        Parameters
        ----------
        near : the store answers so soon that a thread loads several small chunks, or confirms
            several that are in memory.
        """
        self._loader.request_all(indexes, tally, fresh_since, near=near)

    def write(self, chunk: ChunkIndex, region: Region, values: Values) -> None:
        """Write elements of a chunk, counted from its first one. See `WriteBack.write`."""
        grid = self.description.grid
        inside = grid.inside(chunk)
        # The array may end here only for this process: another client may have appended to it.
        stop = tuple(
            length if grows else end
            for end, length, grows in zip(inside.stop, grid.extent(chunk), self._grows, strict=True)
        )
        clip = Box(inside.start, stop)
        writer = self.writer()
        self._writeback.write((self.stored, chunk), writer, clip, region, values, self._shape)

    def write_unit(self, unit: ChunkPart, values: Values) -> None:
        """Write elements of a unit as `write` does."""
        for part in self._parts(unit):
            self.write(part.chunk, part.source, part_of(values, part))

    def sent_at_a_time(self, most: int) -> int:
        """Return how many units may be sent at a time; 0: they are too large for that.

        If the store does not take them, as many are copied into half of the budget at most.
        """
        if not self.source.is_grouped:
            return most
        chunks = prod(self.source.units.chunk_shape) // max(1, prod(self.description.chunk_shape))
        return min(most, self.capacity // (2 * chunks))

    def send(self, unit: ChunkPart, values: Values) -> Future[None] | None:
        """Send a unit as `WriteBack.send` does; None also if it is not written whole."""
        shape = self.source.units.extent(unit.chunk)
        if unit.source.stop != shape or unit.source.size != prod(shape):
            return None
        lent = {p.chunk: (p.source, part_of(values, p)) for p in self._parts(unit)}
        return self._writeback.send((self.stored, unit.chunk), self.writer(), lent)

    def _parts(self, unit: ChunkPart) -> Iterable[ChunkPart]:
        """Return the pieces of a piece of a unit, one for each chunk."""
        if not self.source.is_grouped:
            return [replace(unit, target=unit.source.relative_to(unit.source.start))]
        origin = self.source.units.origin(unit.chunk)
        box = unit.source.relative_to(tuple(-first for first in origin))
        return self.description.grid.parts(box)

    def held(self, part: ChunkPart) -> Values:
        """See `WriteBack.held`."""
        return self._writeback.held((self.stored, part.chunk), part.source)

    def retract(self, part: ChunkPart) -> None:
        """See `WriteBack.retract`."""
        self._writeback.retract((self.stored, part.chunk), self.writer(), part.source)

    def settle(self) -> None:
        """Wait as `WriteBack.settle` does."""
        self._writeback.settle()

    def flush(self) -> None:
        """Store all that was written to this array. Raises CodecError, StoreError."""
        self._writeback.flush(lambda array: array is self.stored)
        self.stored.check_kept()

    def _clean(
        self, index: ChunkIndex, tally: Tally, fresh_since: float, access: ChunkAccess = WHOLE
    ) -> AbstractContextManager[Values]:
        """Return the values of a chunk as the store has them."""
        if self._loader.listed is not None:
            # What was loaded may be newer than a listing.
            cached = self._cache.peek((self.stored, index), fresh_since, share=0.0)
            if cached is None and self._loader.is_missing(index, fresh_since):
                return nullcontext(fill_chunk(self.description, index))
        load = partial(self._loader.load, index, tally, fresh_since)
        if self._loader.inputs:
            fresh_since = self._loader.as_fresh(fresh_since)
        return self._cache.pinned(
            (self.stored, index), load, self._loader.load_bytes, fresh_since, access
        )

    @contextmanager
    def _with_written(
        self, index: ChunkIndex, tally: Tally, fresh_since: float
    ) -> Iterator[Values]:
        """Return the values of a chunk, including what is not in the store yet."""
        while (dirty := self._writeback.find((self.stored, index))) is not None:
            values = dirty.readable()
            if values is None:
                with self._clean(index, tally, fresh_since) as base:
                    values = dirty.complete_with(base)
            if values is not None:
                yield values
                return
        with self._clean(index, tally, fresh_since) as values:
            yield values
