"""Copying selected elements out of several chunks: the order, the threads, and caching."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, groupby, islice

from nczfs.buffers import Values
from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.arrays.batches import ITEMS_MAX, Counted, batches
from nczfs.engine.arrays.selection import ChunkSelection
from nczfs.engine.options import Tally
from nczfs.engine.pools import UnderWay
from nczfs.errors import Unavailable
from nczfs.model.grid import ChunkIndex

TOUCHED_MAX = 1 << 16
TOGETHER_BYTES = 1 << 20  # of chunks that one thread fetches at a time
TOGETHER_MAX = 64
TINY_BYTES = 16 << 10  # decoding a chunk of no more takes less time than handing it to a thread


class SelectionReader:
    """A reader of several chunks of one array at a time, within the budget.

    Parameters
    ----------
    depth : how many chunks to have under way at a time.
    threads : the number of threads that decode.
    far : whether the store takes a network round trip for each request.
    """

    def __init__(self, chunks: ArrayChunks, *, depth: int, threads: int, far: bool) -> None:
        self._chunks = chunks
        self._room = room = chunks.capacity // 4
        self._depth = min(depth, room)
        self._threads = threads
        # Threads beyond the number of processors wait for the disk, but hold memory all the same.
        self._may_wait = room >= 2 * threads
        self._touched: set[ChunkIndex] = set()
        nbytes = chunks.description.chunk_bytes
        self._small_count = max(1, min(TOGETHER_MAX, TOGETHER_BYTES // max(1, nbytes)))
        is_tiny = not far and nbytes <= TINY_BYTES and chunks.description.dtype.vlen is None
        self._requests = self._depth > 1 and not (is_tiny and not chunks.source.is_grouped)

    def in_order(
        self, selections: Iterator[ChunkSelection], out: Values, tally: Tally, fresh_since: float
    ) -> None:
        """Copy chunk by chunk in this thread, while others load the next ones into the cache."""
        copy = self._chunks.copy
        self.ahead_of(
            lambda selected: copy(selected, out, tally, fresh_since), selections, tally, fresh_since
        )

    def ahead_of(
        self,
        use: Callable[[ChunkSelection], None],
        selections: Iterator[ChunkSelection],
        tally: Tally,
        fresh_since: float,
    ) -> None:
        """Call `use` for each chunk in this thread, while others load the next ones."""
        first = list(islice(selections, 2))
        if len(first) < 2:
            for selected in first:
                use(selected)
            return
        if self._chunks.source.is_grouped and self._depth > 1:
            self._in_groups(use, chain(first, selections), tally, fresh_since)
            return
        pending: deque[ChunkSelection] = deque()
        for selected in chain(first, selections):
            if self._requests:
                self._chunks.request(selected.chunk, tally, fresh_since)
            pending.append(selected)
            if len(pending) > self._depth:
                use(pending.popleft())
        for selected in pending:
            use(selected)

    def _in_groups(
        self,
        use: Callable[[ChunkSelection], None],
        selections: Iterator[ChunkSelection],
        tally: Tally,
        fresh_since: float,
    ) -> None:
        """Do as `ahead_of`; the next chunks are requested several at a time."""
        batch: list[ChunkSelection] = []
        for following in chain(self._unit_batches(selections), [[]]):
            self._chunks.request_all((each.chunk for each in following), tally, fresh_since)
            for selected in batch:
                use(selected)
            batch = following

    def _unit_batches(self, selections: Iterator[ChunkSelection]) -> Iterator[list[ChunkSelection]]:
        """Yield chunks that are requested together: whole units, if the budget has room for one."""
        least = max(2, self._depth // 2)
        most = max(least, self._room)
        batch: list[ChunkSelection] = []
        for _, together in groupby(selections, lambda each: self._chunks.source.unit(each.chunk)):
            if len(batch) >= least:
                yield batch
                batch = []
            for selected in together:
                if len(batch) >= most:
                    yield batch
                    batch = []
                batch.append(selected)
        if batch:
            yield batch

    def shared_out(
        self, selections: Counted[ChunkSelection], out: Values, tally: Tally, fresh_since: float
    ) -> None:
        """Copy in several threads, each of which fetches and decodes what it copies.

        Must not be called by a thread of the pools. Chunks that the caller receives whole are not
        kept in memory.
        """
        if len(selections) < 2:
            self._copy_each(selections, out, tally, fresh_since)
            return
        threads = 2 * self._threads if self._may_wait else self._threads
        with UnderWay(2 * threads) as copies:
            for batch in batches(selections, threads, max(ITEMS_MAX, self._small_count)):
                copies.add(self.begun(batch, out, tally, fresh_since))

    def begun(
        self, selections: Iterable[ChunkSelection], out: Values, tally: Tally, fresh_since: float
    ) -> Future[None]:
        """Begin to copy in one other thread, otherwise as `shared_out` does.

        Raises
        ------
        Unavailable : the engine is closing, or the system starts no more threads.
        """
        pools = self._chunks.pools
        try:
            pool = pools.copy if self._may_wait else pools.assemble
            return pool.submit(self._copy_each, selections, out, tally, fresh_since)
        except RuntimeError as error:
            raise Unavailable(str(error)) from error

    def _copy_each(
        self, selections: Iterable[ChunkSelection], out: Values, tally: Tally, fresh_since: float
    ) -> None:
        for together in self._together(selections):
            past: list[ChunkSelection] = []
            for selected in together:
                if self._is_worth_keeping(selected, fresh_since):
                    self._chunks.copy(selected, out, tally, fresh_since)
                else:
                    past.append(selected)
            if past:
                self._chunks.copy_past_cache(past, out, tally)

    def _together(self, selections: Iterable[ChunkSelection]) -> Iterator[Sequence[ChunkSelection]]:
        """Divide chunks into those that are fetched together: small ones of one unit."""
        source = self._chunks.source
        if self._small_count == 1 or not source.is_grouped:
            yield from ([selected] for selected in selections)
            return
        for _, together in groupby(selections, lambda each: source.unit(each.chunk)):
            while some := list(islice(together, self._small_count)):
                yield some

    def _is_worth_keeping(self, selected: ChunkSelection, fresh_since: float) -> bool:
        """Return whether a chunk is in memory already, or may be useful there."""
        if self._chunks.is_in_memory(selected.chunk, fresh_since):
            return True
        return not (self._is_whole(selected) or self._is_first_touch(selected.chunk))

    def _is_whole(self, selected: ChunkSelection) -> bool:
        """Return whether all elements of a chunk that lie in the array are selected."""
        lengths = self._chunks.description.grid.box(selected.chunk).shape
        return all(
            isinstance(index, slice) and (index.start, index.stop, index.step or 1) == (0, n, 1)
            for index, n in zip(selected.source, lengths, strict=True)
        )

    def _is_first_touch(self, chunk: ChunkIndex) -> bool:
        """Return whether a cheaply decoded chunk is needed for the first time."""
        if not self._chunks.source.is_cheap or chunk in self._touched:
            return False
        if len(self._touched) >= TOUCHED_MAX:
            self._touched.clear()
        self._touched.add(chunk)
        return True
