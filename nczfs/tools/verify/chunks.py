"""Checks that stored chunks decode to what their array declares, many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.errors import CodecError, CorruptStore, MetadataError, ReferenceRefused
from nczfs.tools.verify.keys import StoredChunk
from nczfs.tools.verify.subject import Subject


@dataclass(frozen=True, slots=True)
class Checked:
    """A chunk that was read; `trouble` says what was wrong with it."""

    chunk: StoredChunk
    trouble: str | None


class ChunkChecks:
    """Checks of chunks in the pools of an engine, in bounded memory.

    Results come in the order of the submitted chunks. A chunk that was removed meanwhile is sound:
    it reads as fill.

    Parameters
    ----------
    budget_bytes : of the chunks under way at a time; a single one may be larger.
    """

    def __init__(self, subject: Subject, budget_bytes: int) -> None:
        self._subject = subject
        self._pools = subject.engine.pools
        self._budget = budget_bytes
        self._under_way: deque[tuple[StoredChunk, Future[str | None]]] = deque()
        self._reserved = 0
        options = subject.engine.options
        self._depth = 2 * (options.fetch_threads if self._far else options.decode_threads)

    @property
    def _far(self) -> bool:
        return self._subject.metadata.far

    def submit(self, chunk: StoredChunk) -> Iterator[Checked]:
        """Submit a chunk, and yield the results that are ready, or that it had to wait for.

        Raises
        ------
        StoreError : a chunk could not be requested.
        """
        cost = _cost(chunk)
        while self._under_way and (
            self._under_way[0][1].done()
            or len(self._under_way) >= self._depth
            or self._reserved + cost > self._budget
        ):
            yield self._next()
        self._reserved += cost
        self._under_way.append((chunk, self._start(chunk)))

    def drain(self) -> Iterator[Checked]:
        """Yield the results of everything under way. Raises as `submit` does."""
        while self._under_way:
            yield self._next()

    def _next(self) -> Checked:
        chunk, future = self._under_way.popleft()
        self._reserved -= _cost(chunk)
        return Checked(chunk, future.result())

    def _start(self, chunk: StoredChunk) -> Future[str | None]:
        dataset, variable = self._subject.dataset, chunk.variable
        # One for each chunk, so that a message about a long chunk belongs to this one.
        too_long: list[str] = []
        source = dataset.chunks(variable)[1].reporting(too_long.append)
        where = f"{dataset.zmap.name}/{chunk.stat.key}: "
        result: Future[str | None] = Future()

        def decode(fetched: Callable[[], LoadedChunk]) -> None:
            try:
                fetched()
            except Exception as error:  # noqa: BLE001 - the waiting thread must get it
                _fail(result, where, error)
            else:
                result.set_result("; ".join(too_long).removeprefix(where) or None)

        def fetch() -> None:
            try:
                fetched = source.fetch(chunk.index, None)
                if self._far:
                    self._pools.decode.submit(decode, fetched)
                else:
                    decode(fetched)
            except Exception as error:  # noqa: BLE001 - the waiting thread must get it
                _fail(result, where, error)

        (self._pools.fetch if self._far else self._pools.decode).submit(fetch)
        return result


def _cost(chunk: StoredChunk) -> int:
    """Estimate its memory: the stored bytes, and two steps of the codecs."""
    return chunk.stat.size + 2 * chunk.variable.array.chunk_bytes


def _fail(result: Future[str | None], where: str, error: Exception) -> None:
    """Turn an error of the data into a result; any other error ends the verification."""
    if isinstance(error, CodecError | CorruptStore | MetadataError | ReferenceRefused):
        result.set_result(str(error).removeprefix(where))
    else:
        result.set_exception(error)
