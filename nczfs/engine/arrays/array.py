"""The values of one array: element runs and boxes, read and written through its chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import starmap
from math import prod

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.arrays import runs
from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.arrays.pieces import part_of
from nczfs.engine.arrays.selection import ChunkSelection, Selection
from nczfs.engine.arrays.selectionreader import SelectionReader
from nczfs.engine.chunks.base import NDIM_MAX, ChunkSource, ChunkStore
from nczfs.engine.chunks.chunkaccess import WHOLE, ChunkAccess
from nczfs.engine.chunks.keeping import Keeping
from nczfs.engine.options import EngineOptions, Tally
from nczfs.engine.pools import UnderWay
from nczfs.errors import CodecError, MissingChunk, NczfsError, UsageError
from nczfs.model.boxes import Box, boxes_of_run
from nczfs.model.grid import ChunkIndex, RegularGrid
from nczfs.model.hierarchy import ArrayDescription


class Array:
    """One incarnation of an array: a new chunk shape, dtype or codec chain makes a new `Array`.

    Immutable but for the cache it shares; every method may be called from any thread.

    Parameters
    ----------
    far : whether the store takes a network round trip for each request.
    rounding : applied to values before they are stored; None: nothing.

    Attributes
    ----------
    stored : shared with the other incarnations, including the chunks in memory.
    require_codecs : raises CodecError now if the values could never be decoded.
    """

    def __init__(
        self,
        chunks: ArrayChunks,
        options: EngineOptions,
        *,
        far: bool,
        rounding: Callable[[Values], Values] | None = None,
    ) -> None:
        self.description = chunks.description
        self.stored = chunks.stored
        self.far = far
        self._chunks = chunks
        self.require_codecs = chunks.source.require
        self._options = options
        self._rounding = rounding
        threads = options.decode_threads
        # So many chunks are read or written at a time. Each one on its way to the store holds its
        # encoded bytes as well.
        depth = options.fetch_threads if far else 2 * threads
        self._reader = SelectionReader(chunks, depth=depth, threads=threads, far=far)
        self._store_depth = options.store_threads if far else 2 * threads
        self._runs = runs.runs_of(self.description)
        # Elements of the array in any chunk; 0: some have fewer.
        self._inside = _elements_of_each(self.description)

    def resized(self, description: ArrayDescription) -> Array:
        """Return the same array with another shape; it shares the chunks that are in memory."""
        chunks = self._chunks.resized(description)
        return Array(chunks, self._options, far=self.far, rounding=self._rounding)

    def lengthened(self, length: int) -> Array:
        """Return the same array with records behind its end, which are written before it grows.

        Raises
        ------
        NotWritable : its values cannot be written. UsageError : it cannot be so long.
        """
        self.writer()
        end = self.description.units.cuts[0].stop
        if end is not None and length > end:
            raise UsageError(f"{self.stored.prefix}: its chunks are listed, and end at {end}")
        shape = (length, *self.description.shape[1:])
        return self.permitted().resized(replace(self.description, shape=shape))

    def permitted(self) -> Array:
        """Return the same array for making it shorter or longer: its ends are not heeded.

        It can be written although programs only read it, since it changes with its primary.
        """
        chunks = self._chunks.permitted()
        return Array(chunks, self._options, far=self.far, rounding=self._rounding)

    @property
    def source(self) -> ChunkSource:
        """Where the chunks come from."""
        return self._chunks.source

    @property
    def is_writable(self) -> bool:
        """Whether values can be written."""
        return self._chunks.is_writable

    def writer(self) -> ChunkStore:
        """Return where the chunks are stored. Raises NotWritable: they cannot be written."""
        return self._chunks.writer()

    def read_box(self, box: Box, out: Values, tally: Tally, fresh_since: float = 0.0) -> None:
        """Copy the elements of a box into `out`, which has its shape.

        Its dtype is the native one; that of a number may be in the other byte order.
        """
        assert out.shape == box.shape
        if self.source.is_grouped:
            everything = Selection(tuple(map(range, box.start, box.stop)))
            self._reader.in_order(self._by_unit(everything), out, tally, fresh_since)
            return
        selections = starmap(ChunkSelection, self.description.grid.slices(box))
        self._reader.in_order(selections, out, tally, fresh_since)

    def read_selection(
        self, selection: Selection, out: Values, tally: Tally, fresh_since: float = 0.0
    ) -> None:
        """Copy the selected elements into `out`, which has the selection's shape; see `read_box`.

        Must not be called by a thread of the pools. Chunks that the caller receives whole are not
        kept in memory.
        """
        assert out.shape == selection.shape
        if self.far and self.source.is_grouped:
            self._reader.in_order(self._by_unit(selection), out, tally, fresh_since)
            return
        selections = selection.by_chunk(self.description.grid)
        if self.far:
            self._reader.in_order(iter(selections), out, tally, fresh_since)
        else:
            self._reader.shared_out(selections, out, tally, fresh_since)

    def keep_selection(
        self,
        selection: Selection,
        keeping: Keeping,
        kept: Callable[[NczfsError | None], None],
        fresh_since: float,
    ) -> None:
        """Load the chunks that a selection touches, and keep them on the disk if there is room.

        Must not be called by a thread of the pools.

        Parameters
        ----------
        kept : called after each chunk, with its error if it alone cannot be read.

        Raises
        ------
        CodecError, StoreError : what comes next cannot be read either; and what `kept` raises.
        """
        self.require_codecs()
        tally = Tally()

        def keep(selected: ChunkSelection) -> None:
            failed = None
            try:
                self._chunks.keep(selected.chunk, keeping, tally, fresh_since)
            except (CodecError, MissingChunk) as error:
                failed = error
            kept(failed)

        self._reader.ahead_of(keep, self._by_unit(selection), tally, fresh_since)

    def are_kept(self, selection: Selection) -> Iterator[bool]:
        """Yield, for each chunk that a selection touches, whether the cache has it."""
        for selected in selection.by_chunk(self.description.grid):
            yield self._chunks.holds(selected.chunk)

    def begin_selection(
        self, selection: Selection, out: Values, tally: Tally, fresh_since: float = 0.0
    ) -> Future[None]:
        """Let one other thread do what `read_selection` does, for few chunks of a near store.

        `out` is that thread's until the future is done.
        """
        assert out.shape == selection.shape
        selections = selection.by_chunk(self.description.grid)
        return self._reader.begun(selections, out, tally, fresh_since)

    def read_run(self, first: int, out: Values, tally: Tally, fresh_since: float = 0.0) -> None:
        """Copy ``len(out)`` consecutive elements in C order, from `first` on, into `out`."""
        self.require_codecs()  # which refuses more dimensions than NumPy has
        position = 0
        for box in boxes_of_run(first, len(out), self.description.shape):
            target = out[position : position + box.size].reshape(box.shape)
            self.read_box(box, target, tally, fresh_since)
            position += box.size

    def chunk(
        self, index: ChunkIndex, tally: Tally, fresh_since: float = 0.0, access: ChunkAccess = WHOLE
    ) -> AbstractContextManager[Values]:
        """Keep the values of a chunk in memory during the block, with the fill beyond the edge.

        Only those that `access` describes are sure to be right.
        """
        return self._chunks.opened(index, tally, fresh_since, access)

    def request(self, index: ChunkIndex, tally: Tally, fresh_since: float = 0.0) -> bool:
        """Let other threads load a chunk ahead. Returns False if it is there, or there is no room.

        Readers that already wait for the chunk get its error; otherwise the error is dropped,
        because the reader that needs the chunk asks again.
        """
        return self._chunks.request(index, tally, fresh_since)

    def request_run(self, first: int, stop: int, tally: Tally, fresh_since: float) -> None:
        """Let other threads load the chunks of the elements [first, stop) ahead, in order."""
        stop = min(stop, self.description.size)
        if first >= stop:
            return
        for box in boxes_of_run(first, stop - first, self.description.shape):
            chunks = (part.chunk for part in self.description.grid.parts(box))
            self._chunks.request_all(chunks, tally, fresh_since, near=not self.far)

    def peek_bytes(self, start: int, stop: int, fresh_since: float) -> list[memoryview] | None:
        """Return bytes [start, stop) of all elements in C order, as slices of chunks in memory.

        None if a chunk is not there, or the chunks of this array are not runs of its elements.
        """
        if self._runs is None:
            return None
        slices: list[memoryview] = []
        for index, first, size, share in self._runs.pieces(start, stop):
            values = self._chunks.peek(index, fresh_since, share)
            if values is None or not values.flags.c_contiguous:
                return None
            slices.append(values.reshape(-1).view(np.uint8).data[first : first + size])
        return slices

    def peek_run(self, first: int, out: Values, fresh_since: float) -> bool:
        """Read as `read_run` does, from memory only. Returns False if a chunk is not there."""
        if len(self.description.shape) > NDIM_MAX:
            return False
        grid = self.description.grid
        position = 0
        for box in boxes_of_run(first, len(out), grid.shape):
            target = out[position : position + box.size].reshape(box.shape)
            for index, source, place in grid.slices(box):
                piece = target[place or ...]  # an ellipsis keeps a scalar an array
                inside = self._inside or grid.box(index).size
                values = self._chunks.peek(index, fresh_since, piece.size / inside)
                if values is None:
                    return False
                piece[...] = values[source]
            position += box.size
        return True

    def peek_chunk(self, index: ChunkIndex, fresh_since: float) -> Values | None:
        """Return the values of a whole chunk if they are in memory. Never blocks."""
        return self._chunks.peek(index, fresh_since)

    @property
    def chunks_are_runs(self) -> bool:
        """Whether every chunk holds consecutive elements of the array."""
        return self._runs is not None

    @property
    def row_elements(self) -> int:
        """Elements from one row of chunks to the next: what reading in order needs at a time."""
        return runs.row_elements(self.description)

    def write_run(self, first: int, values: Values) -> None:
        """Write ``len(values)`` consecutive elements in C order, from `first` on.

        See `write_box`. If the run is several boxes, an error can leave the first ones written.
        """
        position = 0
        for box in boxes_of_run(first, len(values), self.description.shape):
            self.write_box(box, values[position : position + box.size].reshape(box.shape))
            position += box.size

    def write_box(self, box: Box, values: Values) -> None:
        """Write the elements of a box.

        Units (chunks, or shards) that are written whole are sent to the store at once, and the
        call waits for them. Units that the store does not take, and elements of others, are kept
        until `WriteBack.flush`, or until there are too many.

        Parameters
        ----------
        values : of the shape of `box` and the native dtype of the array.

        Raises
        ------
        CodecError, StoreError : there is no room for what could not be stored. StructureChanged :
            the array was removed or replaced.
        """
        assert values.shape == box.shape
        values = self.storable(values)
        depth = self._chunks.sent_at_a_time(self._store_depth)
        try:
            with UnderWay(depth) as through:
                for unit in self.source.units.parts(box):
                    source = part_of(values, unit)
                    sent = self._chunks.send(unit, source) if depth else None
                    if sent is not None:
                        through.add(sent)
                    else:
                        self._chunks.write_unit(unit, source)
            self._chunks.settle()
        finally:
            self.stored.note_written()

    def hold(self, box: Box, values: Values) -> None:
        """Write the elements of a box, as `storable` gives them; none of them is sent at once.

        Raises
        ------
        CodecError, StoreError : as `write_box`.
        """
        try:
            for part in self.description.grid.parts(box):
                self._chunks.write(part.chunk, part.source, values[part.target.slices()])
        finally:
            self.stored.note_written()

    def held(self, box: Box) -> Values:
        """Return a copy of elements that were all written and are unsaved. Raises Unavailable."""
        out = np.empty(box.shape, self.description.dtype.native)
        for part in self.description.grid.parts(box):
            out[part.target.slices()] = self._chunks.held(part)
        return out

    def retract(self, box: Box) -> None:
        """Take back that elements were written. Raises Unavailable."""
        for part in self.description.grid.parts(box):
            self._chunks.retract(part)
        self.stored.note_changed()

    def write_selection(self, selection: Selection, values: Values) -> None:
        """Write the selected elements; `values` has the selection's shape. See `write_box`."""
        assert values.shape == selection.shape
        if (box := selection.box) is not None:
            self.write_box(box, values)
            return
        values = self.storable(values)
        try:
            for selected in selection.by_chunk(self.description.grid):
                self._chunks.write(selected.chunk, selected.source, values[selected.target])
        finally:
            self.stored.note_written()

    def _by_unit(self, selection: Selection) -> Iterator[ChunkSelection]:
        """Yield the selected elements chunk by chunk, so that each unit is fetched once."""
        selections = selection.by_chunk(self.description.grid)
        return selections.by_unit(self.source.units)

    def flush(self) -> None:
        """Store all that was written to this array. Raises CodecError, StoreError."""
        self._chunks.flush()

    def storable(self, values: Values) -> Values:
        """Return the values as they will be stored. Raises StructureChanged, CodecError."""
        self.stored.check()
        self.require_codecs()
        return values if self._rounding is None else self._rounding(values)


def _elements_of_each(array: ArrayDescription) -> int:
    """Return how many elements of the array each chunk has; 0: some have fewer than others."""
    lengths = zip(array.shape, array.chunk_shape, strict=True)
    is_even = isinstance(array.grid, RegularGrid) and all(n % c == 0 for n, c in lengths)
    return prod(array.chunk_shape) if is_even else 0


def now() -> float:
    """Return the time of the clock that freshness is measured with."""
    return time.monotonic()
