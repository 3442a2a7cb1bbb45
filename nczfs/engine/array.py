"""The values of one array: element runs and boxes, through the chunk cache."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import count, islice
from math import prod

import numpy as np

from nczfs.engine.cache import ChunkCache, ChunkId, Loaded, Values
from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.options import Tally
from nczfs.engine.pools import Pools
from nczfs.errors import NczfsError, Unavailable
from nczfs.model.boxes import Box, boxes_of_run, index_of
from nczfs.model.grid import ChunkIndex, Part
from nczfs.model.hierarchy import ArrayDescription

log = logging.getLogger(__name__)

_numbers = count(1)


class Array:
    """One incarnation of an array: a new shape, dtype or codec chain makes a new `Array`.

    Immutable but for the cache it shares; every method may be called from any thread.

    Parameters
    ----------
    far : the store behind it takes a network round trip for each request.
    """

    def __init__(
        self,
        description: ArrayDescription,
        chunkio: ChunkIO,
        cache: ChunkCache,
        pools: Pools,
        *,
        far: bool,
        fetch_threads: int,
        decode_threads: int,
    ) -> None:
        self.description = description
        self.number = next(_numbers)
        self.far = far
        self._io = chunkio
        self._cache = cache
        self._pools = pools
        # So many chunks are under way at a time when several are wanted, as far as the budget goes.
        wanted = fetch_threads if far else 2 * decode_threads
        room = cache.limit_bytes // 4 // max(1, description.chunk_bytes)
        self._depth = min(wanted, room)
        self._run_split = _run_split(description)

    def require_codecs(self) -> None:
        """Raise UnknownCodec now when the values could never be decoded."""
        _ = self._io.pipeline

    def read_box(self, box: Box, out: Values, tally: Tally, fresh_since: float = 0.0) -> None:
        """Copy the elements of a box into `out`, which has its shape and the native dtype."""
        assert out.shape == box.shape
        parts = self.description.grid.parts(box)
        first = list(islice(parts, 2))
        if len(first) < 2:
            for part in first:
                self._copy(part, out, tally, fresh_since)
            return
        pending: deque[Part] = deque()
        for part in _chain(first, parts):
            if self._depth > 1:
                self.request(part.chunk, tally, fresh_since)
            pending.append(part)
            if len(pending) > self._depth:
                self._copy(pending.popleft(), out, tally, fresh_since)
        for part in pending:
            self._copy(part, out, tally, fresh_since)

    def read_run(self, first: int, out: Values, tally: Tally, fresh_since: float = 0.0) -> None:
        """Copy ``len(out)`` consecutive elements in C order, from `first` on, into `out`."""
        position = 0
        for box in boxes_of_run(first, len(out), self.description.shape):
            target = out[position : position + box.size].reshape(box.shape)
            self.read_box(box, target, tally, fresh_since)
            position += box.size

    def chunk(
        self, index: ChunkIndex, tally: Tally, fresh_since: float = 0.0
    ) -> AbstractContextManager[Values]:
        """The values of a whole chunk, filler beyond the edge included, kept while it is open."""
        load = partial(self._load, index, tally)
        return self._cache.pinned(
            (self.number, index), load, self.description.chunk_bytes, fresh_since
        )

    def request(self, index: ChunkIndex, tally: Tally, fresh_since: float = 0.0) -> bool:
        """Have a chunk loaded ahead by other threads; False when it is there, or there is no room.

        Errors are kept for whoever waits for the chunk meanwhile, and otherwise forgotten: the
        reader that needs the chunk will ask again.
        """
        chunk_id = (self.number, index)
        if self._cache.peek(chunk_id, fresh_since) is not None:
            return False
        reserved = self.description.chunk_bytes
        if not self._cache.start_load(chunk_id, reserved, fresh_since):
            return False
        return self._start(
            lambda: self._pools.fetch.submit(self._fetch_ahead, chunk_id, reserved, tally),
            chunk_id,
            reserved,
        )

    def request_run(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        """Have the chunks of the elements [first, stop) loaded ahead, in order."""
        stop = min(stop, self.description.size)
        if first >= stop:
            return
        for box in boxes_of_run(first, stop - first, self.description.shape):
            for part in self.description.grid.parts(box):
                self.request(part.chunk, tally, fresh_since)

    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        """Bytes [start, stop) of all elements in C order, as slices of chunks in memory.

        None when a chunk is not there, or the chunks of this array are not runs of its elements.
        """
        if self._run_split is None:
            return None
        row_bytes, chunk_bytes, lead_shape, trail = self._run_split
        pieces: list[memoryview] = []
        while start < stop:
            row, in_row = divmod(start, row_bytes)
            number, in_chunk = divmod(in_row, chunk_bytes)
            index = (*index_of(row, lead_shape), number, *trail)
            values = self._cache.peek((self.number, index), fresh_since)
            if values is None or not values.flags.c_contiguous:
                return None
            size = min(stop - start, row_bytes - in_row, chunk_bytes - in_chunk)
            flat = values.reshape(-1).view(np.uint8).data
            pieces.append(flat[in_chunk : in_chunk + size])
            start += size
        return pieces

    def peek_run(self, first: int, out: Values, fresh_since: float) -> bool:
        """As `read_run`, from memory alone: False when a chunk is not there."""
        position = 0
        for box in boxes_of_run(first, len(out), self.description.shape):
            target = out[position : position + box.size].reshape(box.shape)
            for part in self.description.grid.parts(box):
                values = self._cache.peek((self.number, part.chunk), fresh_since)
                if values is None:
                    return False
                target[part.target.slices()] = values[part.source.slices()]
            position += box.size
        return True

    def peek_chunk(self, index: ChunkIndex, fresh_since: float) -> Values | None:
        """The values of a whole chunk if they are in memory. Never blocks."""
        return self._cache.peek((self.number, index), fresh_since)

    @property
    def chunks_are_runs(self) -> bool:
        """Whether every chunk holds consecutive elements of the array."""
        return self._run_split is not None

    @property
    def row_elements(self) -> int:
        """Elements from one row of chunks to the next: what reading in order needs at a time."""
        shape, chunks = self.description.shape, self.description.chunk_shape
        d = 0
        while d < len(shape) - 1 and chunks[d] == 1:
            d += 1
        return prod(shape[d + 1 :]) * chunks[d] if shape else 1

    def forget(self) -> None:
        """Drop the chunks of this array from the cache."""
        self._cache.discard(self.number)

    def _copy(self, part: Part, out: Values, tally: Tally, fresh_since: float) -> None:
        with self.chunk(part.chunk, tally, fresh_since) as values:
            out[part.target.slices()] = values[part.source.slices()]

    def _load(self, index: ChunkIndex, tally: Tally, known: Loaded | None) -> Loaded:
        return _tallied(self._io.load(index, known), known, tally)

    def _start(self, submit: Callable[[], object], chunk_id: ChunkId, reserved: int) -> bool:
        try:
            submit()
        except RuntimeError as error:  # the engine is closing, or the interpreter is ending
            self._cache.fail_load(chunk_id, reserved, Unavailable(str(error)))
            return False
        return True

    def _fetch_ahead(self, chunk_id: ChunkId, reserved: int, tally: Tally) -> None:
        known = self._cache.known(chunk_id)
        try:
            decode = self._io.fetch(chunk_id[1], known)
        except NczfsError as error:
            self._cache.fail_load(chunk_id, reserved, error)
            return
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            self._cache.fail_load(chunk_id, reserved, _unexpected(error))
            return

        def load() -> Loaded:
            return _tallied(decode(), known, tally)

        self._start(
            lambda: self._pools.decode.submit(self._settle, chunk_id, reserved, load),
            chunk_id,
            reserved,
        )

    def _settle(self, chunk_id: ChunkId, reserved: int, load: Callable[[], Loaded]) -> None:
        try:
            self._cache.finish_load(chunk_id, reserved, load())
        except NczfsError as error:
            self._cache.fail_load(chunk_id, reserved, error)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            self._cache.fail_load(chunk_id, reserved, _unexpected(error))


def _tallied(loaded: Loaded, known: Loaded | None, tally: Tally) -> Loaded:
    if loaded is not known:
        tally.chunks_loaded += 1
        tally.bytes_decoded += loaded.nbytes
    return loaded


def _unexpected(error: Exception) -> Unavailable:
    log.error("loading a chunk ahead failed", exc_info=error)
    return Unavailable(f"loading a chunk failed: {error!r}")


def _chain(first: list[Part], rest: Iterator[Part]) -> Iterator[Part]:
    yield from first
    yield from rest


def _run_split(
    array: ArrayDescription,
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]] | None:
    """How the bytes of an array fall into chunks, when each chunk is a run of consecutive elements.

    That is so when chunks have length 1 in the leading dimensions, any length in one, and the full
    length in all that follow.

    Returns
    -------
    bytes from one step of the leading dimensions to the next, bytes of a chunk, the lengths of the
    leading dimensions, zeros for the trailing part of a chunk index; None when it is not so.
    """
    shape, chunks = array.shape, array.chunk_shape
    if array.dtype.vlen is not None or not shape or array.size == 0:
        return None
    d = 0
    while d < len(shape) - 1 and chunks[d] == 1:
        d += 1
    if chunks[d + 1 :] != shape[d + 1 :]:
        return None
    item = array.dtype.item_size
    step = prod(shape[d + 1 :]) * item
    if step == 0:
        return None
    return shape[d] * step, chunks[d] * step, shape[:d], (0,) * (len(shape) - d - 1)


def now() -> float:
    """The clock that freshness is measured by."""
    return time.monotonic()
