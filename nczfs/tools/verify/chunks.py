"""Checks that stored chunks decode to what their array declares, many objects at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice

from nczfs.engine.chunks.base import Fetched
from nczfs.engine.dataset import Dataset
from nczfs.engine.pools import Pools
from nczfs.errors import CodecError, CorruptStore, MetadataError, ReferenceRefused
from nczfs.model.grid import ChunkIndex
from nczfs.plaindata import frozen
from nczfs.tools.verify.keys import StoredUnit
from nczfs.tools.verify.subject import Subject

SEVERAL_BYTES = 4 << 20
"""Chunks of a shard that are fetched together have at most so many bytes, decoded."""

SEVERAL = 1 << 12
"""So many chunks of a shard are fetched together at most."""

TROUBLES_MAX = 100
"""So many findings about one object are listed, and the others counted."""

_BAD_DATA = (CodecError, CorruptStore, MetadataError, ReferenceRefused)


@frozen
class Checked:
    """A unit that was read.

    Attributes
    ----------
    chunks : how many it has.
    troubles : what was wrong with it.
    oddities : what is unusual about it, and disturbs no reader.
    """

    unit: StoredUnit
    chunks: int
    troubles: tuple[str, ...]
    oddities: tuple[str, ...] = ()


class UnitChecks:
    """Checks of units in the pools of an engine, in bounded memory.

    Results come in the order of the submitted units. What was removed meanwhile is sound: it reads
    as fill.

    Parameters
    ----------
    budget_bytes : of the units under way at a time; a single one may need more.
    """

    def __init__(self, subject: Subject, budget_bytes: int) -> None:
        self._dataset = subject.dataset
        self._pools = subject.engine.pools
        self._budget = budget_bytes
        self._under_way: deque[_Check] = deque()
        self._reserved = 0
        self._far = subject.metadata.far
        options = subject.engine.options
        self._depth = 2 * (options.fetch_threads if self._far else options.decode_threads)

    def submit(self, unit: StoredUnit) -> Iterator[Checked]:
        """Submit a unit, and yield the results that are ready, or that it had to wait for.

        Raises
        ------
        StoreError : a chunk could not be requested.
        """
        check = _Check(self._dataset, unit, self._pools, is_far=self._far)
        while self._under_way and (
            self._under_way[0].result.done()
            or len(self._under_way) >= self._depth
            or self._reserved + check.cost > self._budget
        ):
            yield self._next()
        self._reserved += check.cost
        self._under_way.append(check)
        check.start()

    def drain(self) -> Iterator[Checked]:
        """Yield the results of everything under way. Raises as `submit` does."""
        while self._under_way:
            yield self._next()

    def _next(self) -> Checked:
        check = self._under_way.popleft()
        self._reserved -= check.cost
        return check.result.result()


class _Check:
    """The check of one unit, of which a few chunks at a time are fetched, and then decoded.

    Attributes
    ----------
    cost : an estimate of the memory: the stored bytes, and two steps of the codecs.
    result : ready when everything was read.
    """

    def __init__(self, dataset: Dataset, unit: StoredUnit, pools: Pools, *, is_far: bool) -> None:
        self._unit = unit
        self._pools = pools
        self._is_far = is_far
        # One source for each unit, so that a message about a long chunk belongs to this one.
        self._troubles: list[str] = []
        self._untold = 0
        self._source = dataset.chunks(unit.variable)[1].reporting(self._note)
        self._where = f"{dataset.zmap.name}/{unit.stat.key}: "
        array = unit.variable.array
        self._several = min(SEVERAL, max(1, SEVERAL_BYTES // max(1, array.chunk_bytes)))
        size = unit.stat.size
        if array.shards:
            size = min(size, max(SEVERAL_BYTES, array.chunk_bytes))
        self.cost = size + 2 * array.chunk_bytes
        self._chunks = self._unfetched = 0
        self._oddities: tuple[str, ...] = ()
        self._left: Iterator[ChunkIndex] = iter(())
        self.result: Future[Checked] = Future()

    def start(self) -> None:
        """Begin in another thread."""
        self._fetch_later(self._begin)

    def _begin(self) -> None:
        stored = self._source.stored_in(self._unit.index)
        self._left = iter(stored)
        self._chunks = self._unfetched = len(stored)
        self._oddities = tuple(self._source.oddities(self._unit.index))
        self._fetch_next()

    def _fetch_next(self) -> None:
        """Fetch some of the chunks that are left. After these are decoded, others follow."""
        while wanted := [(chunk, None) for chunk in islice(self._left, self._several)]:
            self._unfetched -= len(wanted)
            fetched = self._source.fetch_several(wanted)
            if self._is_far:
                decode = partial(self._decode_then_go_on, fetched)
                self._pools.decode.submit(self._guarded, decode)
                return
            self._decode(fetched)
        self._end()

    def _decode_then_go_on(self, fetched: Sequence[Fetched]) -> None:
        self._decode(fetched)
        if self._unfetched:
            self._fetch_later(self._fetch_next)
        else:
            self._end()

    def _decode(self, fetched: Iterable[Fetched]) -> None:
        for decode in fetched:
            try:
                decode()
            except _BAD_DATA as error:
                self._note(str(error))

    def _fetch_later(self, step: Callable[[], None]) -> None:
        pool = self._pools.fetch if self._is_far else self._pools.decode
        pool.submit(self._guarded, step)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Do a step. An error of the data is a result; any other one ends the verification."""
        try:
            step()
        except _BAD_DATA as error:
            self._note(str(error))
            self._end()
        except Exception as error:  # noqa: BLE001 - the waiting thread must get it
            self.result.set_exception(error)

    def _note(self, trouble: str) -> None:
        if len(self._troubles) < TROUBLES_MAX:
            self._troubles.append(trouble.removeprefix(self._where))
        else:
            self._untold += 1

    def _end(self) -> None:
        if self._untold:
            self._troubles.append(f"{self._untold} more chunks of it are not as they should be")
        troubles = tuple(self._troubles)
        self.result.set_result(Checked(self._unit, self._chunks, troubles, self._oddities))
