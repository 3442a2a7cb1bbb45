"""The chunks of one array: loading them on demand or ahead of it, and writing to them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from math import prod
from typing import TypeAlias

from nczfs import metrics
from nczfs.buffers import Values
from nczfs.engine.arrays.pieces import part_of, run_of, starts_at
from nczfs.engine.arrays.selection import ChunkSelection
from nczfs.engine.chunks.base import ChunkSource, ChunkStore, Confirmed, Fetched
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.chunkaccess import WHOLE, ChunkAccess, access_of
from nczfs.engine.chunks.fill import fill_chunk
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import Tally
from nczfs.engine.pools import Pools
from nczfs.engine.writing.writeback import WriteBack
from nczfs.engine.writing.written import Region
from nczfs.errors import NczfsError, NotWritable, Unavailable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex, ChunkPart
from nczfs.model.hierarchy import ArrayDescription

log = logging.getLogger(__name__)

_ELEMENTS_FACTOR = 8  # the memory of a short text, compared with that of a reference to it
_SMALL_BYTES, _SMALL_MAX = 256 << 10, 64  # of chunks that a thread loads one after the other
_CONFIRMED_MAX = 32  # chunks: to ask a disk takes less time than to pass it to another thread
_LOAD_BYTES = 4 << 10  # that a load which others make takes besides the values

Claimed: TypeAlias = "tuple[ChunkIndex, int]"
"""A chunk that is to be loaded ahead, and the bytes that are reserved for it."""


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
        self._inputs = source.inputs
        self._listed = source.listed
        self.pools = pools
        self.stored = stored
        self._cache = cache
        self._writeback = writeback
        self._grows = grows or (False,) * len(source.array.shape)
        self._shape = shape

    def resized(self, description: ArrayDescription) -> ArrayChunks:
        """Return the same chunks of the array with another shape."""
        chunks, source = copy(self), self.source.resized(description)
        chunks.description, chunks.source = source.array, source
        chunks._inputs, chunks._listed = source.inputs, source.listed
        chunks._writer = source.writer if self.is_writable else None
        return chunks

    @property
    def is_writable(self) -> bool:
        """Whether the chunks can be stored."""
        return self._writer is not None

    @property
    def capacity(self) -> int:
        """The number of chunks that fit into the budget of the cache."""
        return self._cache.limit_bytes // (self._load_bytes + _LOAD_BYTES)

    @property
    def _small_count(self) -> int:
        """How many chunks take no longer to load than a thread should be occupied."""
        if self.description.dtype.vlen is not None:
            return 1
        return max(1, min(_SMALL_MAX, _SMALL_BYTES // max(1, self.description.chunk_bytes)))

    @property
    def _load_bytes(self) -> int:
        """The memory to reserve for the load of a chunk: its size, or what others had.

        The memory of elements of variable length is only known when they are decoded.
        """
        if self.description.dtype.vlen is None:
            return self.description.chunk_bytes
        return max(self.stored.weight, _ELEMENTS_FACTOR * self.description.chunk_bytes)

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
        halves = self.source.fetch_several([(each.chunk, None) for each in selections])
        with self.pools.decoding() as scratch:
            for selected, decode in zip(selections, halves, strict=True):
                target = run_of(selected, self.description.grid.extent(selected.chunk), out)
                scratch.restart(target)
                values = self._counted(decode(), None, tally).values
                self.stored.check()
                if target is None or not starts_at(values, target):
                    out[selected.target] = values[selected.source]
                elif out.dtype != values.dtype:  # decoded in place, in this machine's byte order
                    target.view(values.dtype).byteswap(inplace=True)

    def is_in_memory(self, index: ChunkIndex, fresh_since: float) -> bool:
        """Return whether a chunk is dirty or cached. This does not count as a use of the chunk."""
        if self._inputs:
            fresh_since = self._as_fresh(fresh_since)
        chunk_id = (self.stored, index)
        return (
            self._writeback.find(chunk_id) is not None
            or self._cache.peek(chunk_id, fresh_since, share=0.0) is not None
            or self._is_missing(index, fresh_since)
        )

    def peek(self, index: ChunkIndex, fresh_since: float, share: float = 1.0) -> Values | None:
        """Return the values of a chunk if they are in memory. Never blocks."""
        dirty = self._writeback.find((self.stored, index))
        if dirty is not None:
            return dirty.readable()
        if self._inputs:
            fresh_since = self._as_fresh(fresh_since)
        found = self._cache.peek((self.stored, index), fresh_since, share)
        if found is None and self._is_missing(index, fresh_since):
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
        if self._is_missing(index, fresh_since):
            keeping.in_memory(0)
            return
        load = partial(self._load, index, tally, fresh_since)
        if self._inputs:
            fresh_since = self._as_fresh(fresh_since)
        self._cache.keep((self.stored, index), load, self._load_bytes, fresh_since, keeping)

    def holds(self, index: ChunkIndex) -> bool:
        """Return whether a chunk is dirty, in memory or on the disk, or known to be missing."""
        chunk_id = (self.stored, index)
        is_held = self._writeback.find(chunk_id) is not None or self._cache.holds(chunk_id)
        return is_held or self._is_missing(index, -math.inf)

    def request(self, index: ChunkIndex, tally: Tally, fresh_since: float) -> bool:
        """Let other threads load a chunk ahead. Returns False if it is there, or there is no room.

        Readers that already wait for the chunk get its error; otherwise the error is dropped,
        because the reader that needs the chunk asks again.
        """
        here = (self.stored, index)
        if not self._inputs and self._cache.peek(here, fresh_since, share=0.0) is not None:
            return False  # the usual case, with as few calls as possible
        claimed = self._claim(index, fresh_since)
        return claimed is not None and self._fetch([claimed], tally, fresh_since)

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
        together: dict[Hashable, list[Claimed]] = {}
        for index in islice(indexes, max(1, self.capacity)):
            if (claimed := self._claim(index, fresh_since)) is None:
                continue
            of, most = self._companions(index, near=near)
            together.setdefault(of, []).append(claimed)
            if len(together[of]) >= most:
                self._fetch(together.pop(of), tally, fresh_since)
        for some in together.values():
            self._fetch(some, tally, fresh_since)

    def _companions(self, index: ChunkIndex, *, near: bool) -> tuple[Hashable, float]:
        """Return what a chunk has in common with those it is fetched with, and their number."""
        if self.source.is_grouped:
            return self.source.unit(index), math.inf
        if not near:
            return index, 1
        is_known = self._cache.peek((self.stored, index), -math.inf, share=0.0) is not None
        return is_known, _CONFIRMED_MAX if is_known else self._small_count

    def write(self, chunk: ChunkIndex, region: Region, values: Values) -> None:
        """Write elements of a chunk, counted from its first one. See `WriteBack.write`."""
        grid = self.description.grid
        inside = grid.box(chunk).relative_to(grid.origin(chunk))
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
        self._writeback.retract((self.stored, part.chunk), part.source)

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
        if self._listed is not None:
            # What was loaded may be newer than a listing.
            cached = self._cache.peek((self.stored, index), fresh_since, share=0.0)
            if cached is None and self._is_missing(index, fresh_since):
                return nullcontext(fill_chunk(self.description, index))
        load = partial(self._load, index, tally, fresh_since)
        if self._inputs:
            fresh_since = self._as_fresh(fresh_since)
        return self._cache.pinned((self.stored, index), load, self._load_bytes, fresh_since, access)

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

    def _is_missing(self, index: ChunkIndex, fresh_since: float) -> bool:
        """Return whether a listing has shown that the store lacks a chunk. Never blocks."""
        return self._missing_at(self._cache.absences.known, index, fresh_since) is not None

    def _missing_at(
        self, absence: Callable[..., float | None], index: ChunkIndex, fresh_since: float
    ) -> float | None:
        """Return when a listing has shown that the store lacks a chunk.

        Parameters
        ----------
        absence : `Absences.known`, or `Absences.find`, which lists what is worth it.
        """
        if (io := self._listed) is None:
            return None
        unit = io.unit(index)
        as_of = absence(self.stored, io, unit, fresh_since)
        # Some servers list new objects late.
        return None if self._writeback.has_stored((self.stored, unit)) else as_of

    def _filled(self, index: ChunkIndex, as_of: float) -> LoadedChunk:
        """Return a chunk that the store lacked at some time."""
        metrics.CHUNKS_MISSING.inc()
        return LoadedChunk(fill_chunk(self.description, index), 0, None, as_of)

    def _load(
        self, index: ChunkIndex, tally: Tally, fresh_since: float, known: LoadedChunk | None
    ) -> LoadedChunk:
        self.stored.check()
        as_of = self._missing_at(self._cache.absences.find, index, fresh_since)
        if as_of is not None:
            loaded = self._filled(index, as_of)
        else:
            loaded = self._counted(self.source.load(index, known), known, tally)
        self.stored.check()  # what replaced it meanwhile has other bytes
        return loaded

    def _counted(self, loaded: LoadedChunk, known: LoadedChunk | None, tally: Tally) -> LoadedChunk:
        if loaded.version is None and self._listed is not None:
            self._cache.absences.note(self.stored, self._listed)
        if loaded is not known:
            tally.chunks_loaded += 1
            tally.bytes_decoded += loaded.nbytes
            if loaded.nbytes > self.stored.weight:
                self.stored.weight = loaded.nbytes
        return loaded

    def _claim(self, index: ChunkIndex, fresh_since: float) -> Claimed | None:
        """Claim the load of a chunk. Returns None if it is there, or there is no room."""
        if self._inputs:
            fresh_since = self._as_fresh(fresh_since)
        chunk_id = (self.stored, index)
        if self._cache.peek(chunk_id, fresh_since, share=0.0) is not None:
            return None
        if self._is_missing(index, fresh_since):
            return None
        nbytes = self._load_bytes + _LOAD_BYTES
        return (index, nbytes) if self._cache.start_load(chunk_id, nbytes, fresh_since) else None

    def _fetch(self, claimed: list[Claimed], tally: Tally, fresh_since: float) -> bool:
        """Fetch claimed chunks in another thread. Returns False if that has ended.

        They are of one unit, or small, or in memory.
        """
        try:
            self.pools.fetch.submit(self._fetch_ahead, claimed, tally, fresh_since)
        except RuntimeError as error:  # the engine is closing, or the interpreter is ending
            self._fail(claimed, Unavailable(str(error)))
            return False
        return True

    def _fetch_ahead(self, claimed: list[Claimed], tally: Tally, fresh_since: float) -> None:
        if self.source.is_grouped:
            self._fetch_unit(claimed, tally, fresh_since)
        elif 1 < len(claimed) <= self._small_count:
            for each in claimed:
                known = self._cache.known((self.stored, each[0]))
                self._settle(each, known, partial(self.source.load, each[0], known), tally)
        else:
            for each in claimed:
                self._fetch_unit([each], tally, fresh_since)

    def _fetch_unit(self, claimed: list[Claimed], tally: Tally, fresh_since: float) -> None:
        """Fetch chunks of one unit; all but confirmed ones are decoded in another thread."""
        wanted = [(index, self._cache.known((self.stored, index))) for index, _ in claimed]
        try:
            self.stored.check()
            find, first = self._cache.absences.find, claimed[0][0]
            if (as_of := self._missing_at(find, first, fresh_since)) is not None:
                for (index, reserved), (_, known) in zip(claimed, wanted, strict=True):
                    filled = self._filled(index, as_of)
                    self._cache.finish_load((self.stored, index), reserved, filled, known)
                return
            halves = self.source.fetch_several(wanted)
        except Exception as error:  # noqa: BLE001 - waiting readers must get it
            self._fail(claimed, error)
            return
        for each, (_, known), decode in zip(claimed, wanted, halves, strict=True):
            if isinstance(decode, Confirmed):
                self._settle(each, known, decode, tally)
                continue
            try:
                self.pools.decode.submit(self._settle, each, known, decode, tally)
            except RuntimeError as error:
                self._fail([each], Unavailable(str(error)))

    def _settle(
        self, claimed: Claimed, known: LoadedChunk | None, decode: Fetched, tally: Tally
    ) -> None:
        index, reserved = claimed
        try:
            loaded = self._counted(decode(), known, tally)
            self.stored.check()
            self._cache.finish_load((self.stored, index), reserved, loaded, known)
        except Exception as error:  # noqa: BLE001 - waiting readers must get it
            self._fail([claimed], error)

    def _fail(self, claimed: list[Claimed], error: Exception) -> None:
        if not isinstance(error, NczfsError):
            log.error("loading a chunk ahead failed", exc_info=error)
            error = Unavailable(f"loading a chunk failed: {error!r}")
        for index, reserved in claimed:
            self._cache.fail_load((self.stored, index), reserved, error)

    def _as_fresh(self, fresh_since: float) -> float:
        """Return since when computed values must be known: since the last change of an input."""
        return max(fresh_since, *(array.changed_at for array in self._inputs))
