"""Loading the chunks of one array, for the reader that needs them or ahead of it."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from nczfs import metrics
from nczfs.engine.chunks.base import ChunkSource, Confirmed, Fetched, Missing
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.entries import ChunkLoad
from nczfs.engine.chunks.fill import fill_chunk
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import Tally
from nczfs.engine.pools import Pools
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import NczfsError, StructureChanged, Unavailable
from nczfs.model.grid import ChunkIndex

log = logging.getLogger(__name__)

_ELEMENTS_FACTOR = 8  # the memory of a short text, compared with that of a reference to it
_SMALL_BYTES, _SMALL_MAX = 256 << 10, 64  # of chunks that a thread loads one after the other
_CONFIRMED_MAX = 32  # chunks: to ask a disk takes less time than to pass it to another thread
_UNIT_PATIENCE_S = 0.1  # that a reader waits rather than make another request
_IN_TURN_S = 0.01  # for a chunk; beyond it the store is slow, and others load the rest
_LOAD_BYTES = 4 << 10  # that a load which others make takes besides the values


Claims: TypeAlias = "deque[ChunkLoad]"
"""Chunks that a thread loads together. Who takes one out, also after an error, ends its load."""


class ChunkLoader:
    """Loads the chunks of one incarnation of an array into the cache.

    Immutable but for the cache; every method may be called from any thread.

    Attributes
    ----------
    inputs : arrays that the values are computed from; see `ChunkSource.inputs`.
    listed : the same chunks if a listing may tell which are missing; see `ChunkSource.listed`.
    """

    def __init__(
        self,
        source: ChunkSource,
        stored: StoredArray,
        cache: ChunkCache,
        writeback: WriteBack,
        pools: Pools,
    ) -> None:
        self.source = source
        self.listed = source.listed
        self.inputs = source.inputs
        self._description = source.array
        self._stored = stored
        self._cache = cache
        self._writeback = writeback
        self._pools = pools

    def of(self, source: ChunkSource) -> ChunkLoader:
        """Return a loader of the same chunks of the array with another shape."""
        return ChunkLoader(source, self._stored, self._cache, self._writeback, self._pools)

    @property
    def capacity(self) -> int:
        """The number of chunks that fit into the budget of the cache."""
        return self._cache.limit_bytes // (self.load_bytes + _LOAD_BYTES)

    @property
    def load_bytes(self) -> int:
        """The memory to reserve for the load of a chunk: its size, or what others had.

        The memory of elements of variable length is only known when they are decoded.
        """
        if self._description.dtype.vlen is None:
            return self._description.chunk_bytes
        return max(self._stored.weight, _ELEMENTS_FACTOR * self._description.chunk_bytes)

    @property
    def _small_count(self) -> int:
        """How many chunks take no longer to load than a thread should be occupied."""
        if self._description.dtype.vlen is not None:
            return 1
        return max(1, min(_SMALL_MAX, _SMALL_BYTES // max(1, self._description.chunk_bytes)))

    def as_fresh(self, fresh_since: float) -> float:
        """Return since when computed values must be known: since the last change of an input."""
        return max(fresh_since, *(array.changed_at for array in self.inputs))

    def is_missing(self, index: ChunkIndex, fresh_since: float) -> bool:
        """Return whether a listing has shown that the store lacks a chunk. Never blocks."""
        return self._missing_at(self._cache.absences.known, index, fresh_since) is not None

    def load(
        self, index: ChunkIndex, tally: Tally, fresh_since: float, known: LoadedChunk | None
    ) -> LoadedChunk:
        """Load a chunk in this thread. Raises as `ChunkSource.fetch`, or StructureChanged."""
        self._stored.check()
        try:
            as_of = self._missing_at(self._cache.absences.find, index, fresh_since)
            if as_of is not None:
                loaded = self._filled(index, as_of)
            else:
                loaded = self.counted(self._loaded(index, known), known, tally)
        except Exception:
            self._stored.check()  # what replaced it meanwhile may well be no chunk of it
            raise
        self._stored.check()  # what replaced it meanwhile has other bytes
        return loaded

    def fetched(self, wanted: Sequence[tuple[ChunkIndex, LoadedChunk | None]]) -> Sequence[Fetched]:
        """Fetch chunks of one unit; see `ChunkSource.fetch_several`.

        If the store lacks it, that is noted now: the second halves may wait long for a thread.
        """
        halves = self.source.fetch_several(wanted)
        if self.listed is not None and any(isinstance(each, Missing) for each in halves):
            self._cache.absences.note(self._stored)
        return halves

    def _loaded(self, index: ChunkIndex, known: LoadedChunk | None) -> LoadedChunk:
        (decode,) = self.fetched([(index, known)])
        return decode()

    def counted(self, loaded: LoadedChunk, known: LoadedChunk | None, tally: Tally) -> LoadedChunk:
        """Return a chunk that was loaded, after it was counted."""
        if loaded is not known:
            tally.chunks_loaded += 1
            tally.bytes_decoded += loaded.nbytes
            if loaded.nbytes > self._stored.weight:
                self._stored.weight = loaded.nbytes
        return loaded

    def request(self, index: ChunkIndex, tally: Tally, fresh_since: float) -> bool:
        """Let other threads load a chunk ahead; see `ArrayChunks.request`."""
        if not self._is_wanted(index, fresh_since):
            return False
        claims: Claims = deque()
        try:
            is_claimed = self._claim(claims, index, fresh_since)
            return is_claimed and self._fetch(claims, tally, fresh_since)
        except BaseException:
            self._withdraw(claims)
            raise

    def request_all(
        self, indexes: Iterable[ChunkIndex], tally: Tally, fresh_since: float, *, near: bool
    ) -> None:
        """Request several chunks; see `ArrayChunks.request_all`."""
        together: dict[Hashable, Claims] = {}
        try:
            for index in islice(indexes, max(1, self.capacity)):
                if not self._is_wanted(index, fresh_since):
                    continue
                of, most = self._companions(index, near=near)
                claims = together.setdefault(of, deque())
                # Chunks of one unit have one request, which a reader would make once more.
                patience_s = _UNIT_PATIENCE_S if self.source.is_grouped else 0.0
                self._claim(claims, index, fresh_since, patience_s)
                if len(claims) >= most:
                    self._fetch(claims, tally, fresh_since)
                    del together[of]
            for of in list(together):
                if together[of]:
                    self._fetch(together[of], tally, fresh_since)
                del together[of]
        except BaseException:  # also if the program is interrupted
            for claims in together.values():
                self._withdraw(claims)
            raise

    def _companions(self, index: ChunkIndex, *, near: bool) -> tuple[Hashable, float]:
        """Return what a chunk has in common with those it is fetched with, and their number."""
        if self.source.is_grouped:
            return self.source.unit(index), math.inf
        if not near:
            return index, 1
        is_known = self._cache.peek((self._stored, index), -math.inf, share=0.0) is not None
        return is_known, _CONFIRMED_MAX if is_known else self._small_count

    def _is_wanted(self, index: ChunkIndex, fresh_since: float) -> bool:
        """Return whether a chunk is not there as far as that can be seen without a lock."""
        if self.inputs:
            fresh_since = self.as_fresh(fresh_since)
        if self._cache.peek((self._stored, index), fresh_since, share=0.0) is not None:
            return False
        return not self.is_missing(index, fresh_since)

    def _claim(
        self, claims: Claims, index: ChunkIndex, fresh_since: float, patience_s: float = 0.0
    ) -> bool:
        """Claim the load of a chunk. Returns False if it is there, or there is no room."""
        if self.inputs:
            fresh_since = self.as_fresh(fresh_since)
        load = ChunkLoad((self._stored, index), patience_s)
        start, nbytes = self._cache.start_load, self.load_bytes + _LOAD_BYTES
        claims.append(load)  # before it is granted, so that it is not lost between
        if start(load, nbytes, fresh_since):
            return True
        claims.pop()
        return False

    def _withdraw(self, claims: Claims) -> None:
        for load in _taken(claims):
            self._cache.end_load(load)

    def _fetch(self, claims: Claims, tally: Tally, fresh_since: float) -> bool:
        """Fetch claimed chunks in another thread. Returns False if there is none.

        They are of one unit, or small, or in memory.
        """
        try:
            self._pools.fetch.submit(self._fetch_ahead, claims, tally, fresh_since)
        except RuntimeError:  # the engine is closing, or the system starts no more threads
            self._withdraw(claims)
            return False
        return True

    def _fetch_ahead(self, claims: Claims, tally: Tally, fresh_since: float) -> None:
        if self.source.is_grouped or len(claims) == 1:
            if begun := [each for each in _taken(claims) if self._cache.begin_load(each)]:
                self._fetch_unit(begun, tally, fresh_since)
            return
        is_small = len(claims) <= self._small_count
        began, is_slow = time.monotonic(), False
        for load in _taken(claims):
            now = time.monotonic()
            is_slow, began = is_slow or now - began > _IN_TURN_S, now
            if is_slow:
                self._fetch(deque([load]), tally, fresh_since)
            elif self._cache.begin_load(load):
                if is_small:
                    known = self._cache.known(load.chunk_id)
                    decode = partial(self._loaded, load.index, known)
                    self._settle(load, known, decode, tally)
                else:
                    self._fetch_unit([load], tally, fresh_since)

    def _fetch_unit(self, loads: list[ChunkLoad], tally: Tally, fresh_since: float) -> None:
        """Fetch chunks of one unit; all but confirmed ones are decoded in another thread."""
        wanted = [(each.index, self._cache.known(each.chunk_id)) for each in loads]
        try:
            self._stored.check()
            find, first = self._cache.absences.find, loads[0].index
            if (as_of := self._missing_at(find, first, fresh_since)) is not None:
                for each, (index, known) in zip(loads, wanted, strict=True):
                    self._cache.finish_load(each, self._filled(index, as_of), known)
                return
            halves = self.fetched(wanted)
        except BaseException as error:  # noqa: BLE001 - waiting readers must get it
            self._fail(loads, error)
            return
        for each, (_, known), decode in zip(loads, wanted, halves, strict=True):
            if isinstance(decode, Confirmed):
                self._settle(each, known, decode, tally)
                continue
            try:
                self._pools.decode.submit(self._settle, each, known, decode, tally)
            except RuntimeError:  # as for `_fetch`; a thread may still get what was queued
                self._cache.end_load(each)

    def _settle(
        self, load: ChunkLoad, known: LoadedChunk | None, decode: Fetched, tally: Tally
    ) -> None:
        try:
            self._stored.check()  # what replaced it meanwhile need not be decoded
            loaded = self.counted(decode(), known, tally)
            self._stored.check()
            self._cache.finish_load(load, loaded, known)
        except BaseException as error:  # noqa: BLE001 - waiting readers must get it
            self._fail([load], error)

    def _fail(self, loads: list[ChunkLoad], error: BaseException) -> None:
        try:
            self._stored.check()
        except StructureChanged as ended:
            error = ended  # of which the other error is a result, most likely
        if not isinstance(error, NczfsError):
            log.error("loading a chunk ahead failed", exc_info=error)
            error = Unavailable(f"loading a chunk failed: {error!r}")
        for each in loads:
            self._cache.end_load(each, error)

    def _missing_at(
        self, absence: Callable[..., float | None], index: ChunkIndex, fresh_since: float
    ) -> float | None:
        """Return when a listing has shown that the store lacks a chunk.

        Parameters
        ----------
        absence : `Absences.known`, or `Absences.find`, which lists what is worth it.
        """
        if (io := self.listed) is None:
            return None
        unit = io.unit(index)
        as_of = absence(self._stored, io, unit, fresh_since)
        # Some servers list new objects late.
        return None if self._writeback.has_stored((self._stored, unit)) else as_of

    def _filled(self, index: ChunkIndex, as_of: float) -> LoadedChunk:
        """Return a chunk that the store lacked at some time."""
        metrics.CHUNKS_MISSING.inc()
        return LoadedChunk(fill_chunk(self._description, index), 0, None, as_of)


def _taken(claims: Claims) -> Iterator[ChunkLoad]:
    """Take the claims out one by one, but for those that another thread takes out meanwhile."""
    while True:
        try:
            load = claims.popleft()
        except IndexError:
            return
        yield load
