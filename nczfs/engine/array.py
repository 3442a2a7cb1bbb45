"""The values of one array: element runs and boxes, through the chunk cache."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain, count, islice
from math import prod
from typing import Any

import numpy as np

from nczfs.engine.cache import ChunkCache
from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.loaded import ChunkId, Loaded, Values
from nczfs.engine.options import Tally
from nczfs.engine.pools import Pools, UnderWay
from nczfs.engine.selection import Pick, Selection
from nczfs.engine.shares import shares
from nczfs.engine.use import WHOLE, Use, use_of
from nczfs.engine.writeback import WriteBack
from nczfs.engine.written import Region
from nczfs.errors import NczfsError, StructureChanged, Unavailable
from nczfs.model.boxes import Box, boxes_of_run, index_of
from nczfs.model.grid import ChunkIndex, Part
from nczfs.model.hierarchy import ArrayDescription

log = logging.getLogger(__name__)

TOUCHED_MAX = 1 << 16

_numbers = count(1)


class Writes:
    """When an array was last written to, through any of its incarnations.

    Attributes
    ----------
    revision : another one after each write; a reader that saw the same twice kept no old values.
    at_ns : the time of the last write; 0: there was none.
    """

    __slots__ = ("_is_over", "at_ns", "revision")

    def __init__(self) -> None:
        self.revision = 0
        self.at_ns = 0
        self._is_over = False

    def end(self) -> None:
        """The array was removed: it is neither read nor written any more."""
        self._is_over = True
        self.note()

    def check(self) -> None:
        """Raise StructureChanged when the array was removed."""
        if self._is_over:
            raise StructureChanged("the variable was removed")

    def note(self) -> None:
        """Something was written, or may have been."""
        self.at_ns = time.time_ns()
        self.revision = next(_numbers)


class Array:
    """One incarnation of an array: a new chunk shape, dtype or codec chain makes a new `Array`.

    Immutable but for the cache it shares; every method may be called from any thread.

    Parameters
    ----------
    far : the store behind it takes a network round trip for each request.
    grows : for each dimension, whether others may make it longer at any time; None: none.
    rounding : what is done to values before they are stored; None: nothing.
    number : that its chunks have in the caches; None: a new one.
    writes : shared with the other incarnations; None: there is none.
    """

    def __init__(
        self,
        description: ArrayDescription,
        chunkio: ChunkIO,
        cache: ChunkCache,
        writeback: WriteBack,
        pools: Pools,
        *,
        far: bool,
        fetch_threads: int,
        decode_threads: int,
        grows: tuple[bool, ...] | None = None,
        rounding: Callable[[Values], Values] | None = None,
        number: int | None = None,
        writes: Writes | None = None,
    ) -> None:
        self.description = description
        self.writes = writes or Writes()
        self.number = next(_numbers) if number is None else number
        self.far = far
        self._io = chunkio
        self._cache = cache
        self._writeback = writeback
        self._grows = grows or (False,) * len(description.shape)
        self._rounding = rounding
        self._pools = pools
        self._threads = (fetch_threads, decode_threads)
        # So many chunks are under way at a time when several are wanted, as far as the budget goes.
        wanted = fetch_threads if far else 2 * decode_threads
        room = cache.limit_bytes // 4 // max(1, description.chunk_bytes)
        self._depth = min(wanted, room)
        # More threads than processors are for waiting for the disk; they hold memory all the same.
        self._may_wait = room >= 2 * decode_threads
        # Each chunk on its way holds its encoded bytes as well.
        self._write_depth = fetch_threads if far else 2 * decode_threads
        self._run_split = _run_split(description)
        self._touched: set[ChunkIndex] = set()

    def resized(self, description: ArrayDescription) -> Array:
        """The same array with another shape; it shares the chunks that are in memory."""
        fetch_threads, decode_threads = self._threads
        return Array(
            description,
            self._io.resized(description),
            self._cache,
            self._writeback,
            self._pools,
            far=self.far,
            fetch_threads=fetch_threads,
            decode_threads=decode_threads,
            grows=self._grows,
            rounding=self._rounding,
            number=self.number,
            writes=self.writes,
        )

    @property
    def chunkio(self) -> ChunkIO:
        """Where the chunks lie."""
        return self._io

    def require_codecs(self) -> None:
        """Raise UnknownCodec now when the values could never be decoded."""
        _ = self._io.pipeline

    def read_box(self, box: Box, out: Values, tally: Tally, fresh_since: float = 0.0) -> None:
        """Copy the elements of a box into `out`, which has its shape and the native dtype."""
        assert out.shape == box.shape
        picks = (
            Pick(part.chunk, part.source.slices(), part.target.slices())
            for part in self.description.grid.parts(box)
        )
        self._read(picks, out, tally, fresh_since)

    def read_selection(
        self, selection: Selection, out: Values, tally: Tally, fresh_since: float = 0.0
    ) -> None:
        """Copy the selected elements into `out`, which has the selection's shape.

        Must not be called by a thread of the pools. Chunks of which the caller gets all are not
        kept in memory: he has them.
        """
        assert out.shape == selection.shape
        picks = selection.picks(self.description.chunk_shape)
        if self.far:
            self._read(iter(picks), out, tally, fresh_since)
            return
        if len(picks) < 2:
            self._pick_each(picks, out, tally, fresh_since)
            return
        _, threads = self._threads
        pool = self._pools.assemble
        if self._may_wait:
            pool, threads = self._pools.copy, 2 * threads
        with UnderWay(2 * threads) as copies:
            for share in shares(picks, threads):
                copies.add(pool.submit(self._pick_each, share, out, tally, fresh_since))

    def _pick_each(
        self, picks: Iterable[Pick], out: Values, tally: Tally, fresh_since: float
    ) -> None:
        for pick in picks:
            self._pick(pick, out, tally, fresh_since)

    def _pick(self, pick: Pick, out: Values, tally: Tally, fresh_since: float) -> None:
        """Copy the elements of one chunk, and keep the chunk only where that may be of use."""
        chunk_id = (self.number, pick.chunk)
        in_memory = (
            self._writeback.find(chunk_id) is not None
            or self._cache.peek(chunk_id, fresh_since, share=0.0) is not None
        )
        if in_memory or not (self._is_whole(pick) or self._is_first_touch(pick.chunk)):
            self._copy(pick, out, tally, fresh_since)
            return
        self.writes.check()
        decode = self._io.fetch(pick.chunk, None)
        with self._pools.decoding():
            values = _tallied(decode(), None, tally).values
            out[pick.target] = values[pick.source]

    def _is_whole(self, pick: Pick) -> bool:
        """Whether all elements of a chunk that lie in the array are picked."""
        lengths = self.description.grid.box(pick.chunk).shape
        return all(
            isinstance(index, slice) and (index.start, index.stop, index.step or 1) == (0, n, 1)
            for index, n in zip(pick.source, lengths, strict=True)
        )

    def _is_first_touch(self, chunk: ChunkIndex) -> bool:
        """Whether a chunk that is as quickly decoded as kept is wanted for the first time."""
        if not self._io.pipeline.is_cheap or chunk in self._touched:
            return False
        if len(self._touched) >= TOUCHED_MAX:
            self._touched.clear()
        self._touched.add(chunk)
        return True

    def _read(self, picks: Iterator[Pick], out: Values, tally: Tally, fresh_since: float) -> None:
        first = list(islice(picks, 2))
        if len(first) < 2:
            for pick in first:
                self._copy(pick, out, tally, fresh_since)
            return
        pending: deque[Pick] = deque()
        for pick in chain(first, picks):
            if self._depth > 1:
                self.request(pick.chunk, tally, fresh_since)
            pending.append(pick)
            if len(pending) > self._depth:
                self._copy(pending.popleft(), out, tally, fresh_since)
        for pick in pending:
            self._copy(pick, out, tally, fresh_since)

    def read_run(self, first: int, out: Values, tally: Tally, fresh_since: float = 0.0) -> None:
        """Copy ``len(out)`` consecutive elements in C order, from `first` on, into `out`."""
        position = 0
        for box in boxes_of_run(first, len(out), self.description.shape):
            target = out[position : position + box.size].reshape(box.shape)
            self.read_box(box, target, tally, fresh_since)
            position += box.size

    def write_run(self, first: int, values: Values) -> None:
        """Write ``len(values)`` consecutive elements in C order, from `first` on.

        As `write_box`; of a run that is several boxes, an error can leave the first ones written.
        """
        position = 0
        for box in boxes_of_run(first, len(values), self.description.shape):
            self.write_box(box, values[position : position + box.size].reshape(box.shape))
            position += box.size

    def write_box(self, box: Box, values: Values) -> None:
        """Write the elements of a box.

        Chunks that are written whole are in the store when this returns; of the others the
        elements are kept until `WriteBack.flush`, or until there are too many.

        Parameters
        ----------
        values : of the shape of `box` and the native dtype of the array.

        Raises
        ------
        CodecError, StoreError : a chunk could not be stored.
        """
        assert values.shape == box.shape
        self.writes.check()
        self.require_codecs()
        if self._rounding is not None:
            values = self._rounding(values)
        grid = self.description.grid
        try:
            with UnderWay(self._write_depth) as through:
                for part in grid.parts(box):
                    # With an ellipsis a scalar stays an array; of text it would be no array's kin.
                    index: tuple[Any, ...] = (*part.target.slices(), ...)
                    source = values[index]
                    stored = self._write_through(part, source)
                    if stored is not None:
                        through.add(stored)
                    else:
                        self._write_part(part.chunk, part.source, source)
        finally:
            self.writes.note()

    def write_selection(self, selection: Selection, values: Values) -> None:
        """Write the selected elements; `values` has the selection's shape. See `write_box`."""
        assert values.shape == selection.shape
        if (box := selection.box) is not None:
            self.write_box(box, values)
            return
        self.writes.check()
        self.require_codecs()
        if self._rounding is not None:
            values = self._rounding(values)
        try:
            for pick in selection.picks(self.description.chunk_shape):
                self._write_part(pick.chunk, pick.source, values[pick.target])
        finally:
            self.writes.note()

    def write_flagged(self, chunk: ChunkIndex, flags: Values, values: Values) -> None:
        """Write the elements of a chunk that have a flag; both have the shape of the chunk."""
        self.require_codecs()
        grid = self.description.grid
        inside = grid.box(chunk).relative_to(grid.origin(chunk))
        if flags[inside.slices()].all():
            self._write_part(chunk, inside, values[inside.slices()])
        elif flags.any():
            written = tuple(axis.astype(np.int64) for axis in np.nonzero(flags))
            self._write_part(chunk, written, values[written])
        self.writes.note()

    def _write_part(self, chunk: ChunkIndex, region: Region, values: Values) -> None:
        grid = self.description.grid
        inside = grid.box(chunk).relative_to(grid.origin(chunk))
        # Where the array ends may be a chunk's end only for us: another client has appended to it.
        stop = tuple(
            length if grows else end
            for end, length, grows in zip(inside.stop, grid.chunk_shape, self._grows, strict=True)
        )
        clip = Box(inside.start, stop)
        self._writeback.write((self.number, chunk), self._io, clip, region, values)

    def _write_through(self, part: Part, values: Values) -> Future[None] | None:
        """Store a whole chunk from the caller's memory; None where it must be copied first."""
        array = self.description
        if part.source.stop != array.chunk_shape or part.source.size != prod(array.chunk_shape):
            return None
        chunk_id = (self.number, part.chunk)
        return self._writeback.write_through(chunk_id, self._io, part.source, values)

    def flush(self) -> None:
        """Have all that was written to this array stored. Raises CodecError, StoreError."""
        self._writeback.flush([self.number])

    def chunk(
        self, index: ChunkIndex, tally: Tally, fresh_since: float = 0.0, use: Use = WHOLE
    ) -> AbstractContextManager[Values]:
        """The values of a chunk, filler beyond the edge included, kept while it is open.

        Only those that `use` tells of are sure to be right.
        """
        if self._writeback.find((self.number, index)) is None:
            return self._clean(index, tally, fresh_since, use)
        return self._with_written(index, tally, fresh_since)

    def request(self, index: ChunkIndex, tally: Tally, fresh_since: float = 0.0) -> bool:
        """Have a chunk loaded ahead by other threads; False when it is there, or there is no room.

        Errors are kept for whoever waits for the chunk meanwhile, and otherwise forgotten: the
        reader that needs the chunk will ask again.
        """
        chunk_id = (self.number, index)
        if self._cache.peek(chunk_id, fresh_since, share=0.0) is not None:
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
            size = min(stop - start, row_bytes - in_row, chunk_bytes - in_chunk)
            inside = min(chunk_bytes, row_bytes - number * chunk_bytes)
            values = self._peek(index, fresh_since, size / inside)
            if values is None or not values.flags.c_contiguous:
                return None
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
                share = part.source.size / self.description.grid.box(part.chunk).size
                values = self._peek(part.chunk, fresh_since, share)
                if values is None:
                    return False
                target[part.target.slices()] = values[part.source.slices()]
            position += box.size
        return True

    def peek_chunk(self, index: ChunkIndex, fresh_since: float) -> Values | None:
        """The values of a whole chunk if they are in memory. Never blocks."""
        return self._peek(index, fresh_since)

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

    def _clean(
        self, index: ChunkIndex, tally: Tally, fresh_since: float, use: Use = WHOLE
    ) -> AbstractContextManager[Values]:
        """The values of a chunk as the store has them."""
        load = partial(self._load, index, tally)
        return self._cache.pinned(
            (self.number, index), load, self.description.chunk_bytes, fresh_since, use
        )

    @contextmanager
    def _with_written(
        self, index: ChunkIndex, tally: Tally, fresh_since: float
    ) -> Iterator[Values]:
        """The values of a chunk with what is not in the store yet."""
        while (dirty := self._writeback.find((self.number, index))) is not None:
            values = dirty.readable()
            if values is None:
                with self._clean(index, tally, fresh_since) as base:
                    values = dirty.complete_with(base)
            if values is not None:
                yield values
                return
        with self._clean(index, tally, fresh_since) as values:
            yield values

    def _peek(self, index: ChunkIndex, fresh_since: float, share: float = 1.0) -> Values | None:
        dirty = self._writeback.find((self.number, index))
        if dirty is not None:
            return dirty.readable()
        return self._cache.peek((self.number, index), fresh_since, share)

    def _copy(self, pick: Pick, out: Values, tally: Tally, fresh_since: float) -> None:
        use = use_of(
            pick.source, self.description.chunk_shape, self.description.grid.box(pick.chunk)
        )
        with self.chunk(pick.chunk, tally, fresh_since, use) as values:
            out[pick.target] = values[pick.source]

    def _load(self, index: ChunkIndex, tally: Tally, known: Loaded | None) -> Loaded:
        self.writes.check()
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
            self.writes.check()
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
