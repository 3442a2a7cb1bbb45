"""The indexes of shards that are known, within the budget for memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import field
from typing import Protocol, TypeAlias

from nczfs.codecs.shardindex import Places
from nczfs.engine.chunks.base import UnitIndex
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.shardlayout import Path
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version

INDEX_BYTES: int = 200
"""Of memory that a known index takes besides its places."""

IndexId: TypeAlias = "tuple[ArrayPlace, UnitIndex, Path]"
"""The array and unit of an index, and the path of its shard in the unit."""


@frozen
class KnownIndex:
    """The index of a shard in one version of an object.

    Attributes
    ----------
    start, stop : where the shard is in the object.
    places : of its entries, from `start` on.
    """

    version: Version
    start: int
    stop: int
    places: Places

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.places.nbytes + INDEX_BYTES


class IndexShelf(Protocol):
    """A cache of indexes with a bound; an entry may be gone whenever it is looked up."""

    def get(self, key: IndexId, /) -> KnownIndex | None: ...

    def put(self, key: IndexId, value: KnownIndex, nbytes: int, /) -> None: ...

    def pop(self, key: IndexId, /) -> KnownIndex | None: ...


class ShardIndexes:
    """The known indexes of all arrays. Threads that want the same one at a time share a request.

    `_lock` guards the requests under way.
    """

    def __init__(self, shelf: IndexShelf) -> None:
        self._shelf = shelf
        self._lock = threading.Lock()
        self._asking: dict[IndexId, Future[KnownIndex]] = {}

    def get(self, index_id: IndexId) -> KnownIndex | None:
        """Return the index as it was when it was read; None: it is not known. Takes no lock."""
        return self._shelf.get(index_id)

    def put(self, index_id: IndexId, index: KnownIndex) -> None:
        """Keep an index, in place of an older one."""
        self._shelf.put(index_id, index, index.nbytes)

    def forget(self, index_id: IndexId) -> None:
        """Forget an index."""
        self._shelf.pop(index_id)

    def once(self, index_id: IndexId, ask: Callable[[], KnownIndex]) -> tuple[KnownIndex, bool]:
        """Return an index, and whether this thread asked for it, so that it is as of now.

        Parameters
        ----------
        ask : reads it. Its errors are those of all threads that wait for it.
        """
        while True:
            ours = Future[KnownIndex]()
            try:
                with self._lock:
                    asking = self._asking.setdefault(index_id, ours)
                if asking is ours:
                    index = ask()
                    self.put(index_id, index)
                else:
                    with suppress(CancelledError):  # who asked was interrupted
                        return asking.result(), False
                    continue
            except BaseException as error:
                self._end(index_id, ours)
                if isinstance(error, Exception):
                    ours.set_exception(error)
                else:
                    ours.cancel()
                raise
            self._end(index_id, ours)
            ours.set_result(index)
            return index, True

    def _end(self, index_id: IndexId, asking: Future[KnownIndex]) -> None:
        with self._lock:
            if self._asking.get(index_id) is asking:
                del self._asking[index_id]


@frozen
class ShardMemory:
    """The memory that shards take beside the cache of chunks.

    Attributes
    ----------
    claim : takes bytes of the budget, or gives them back.
    """

    indexes: ShardIndexes
    claim: Callable[[int], None] = field(default=lambda _: None)
