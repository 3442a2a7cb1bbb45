"""The versions that a store has of chunks, as far as they are known without asking for each."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from typing import Final, TypeAlias

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.errors import StoreError
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Prefix
from nczfs.zmap.run import ListedRange

log = logging.getLogger(__name__)

LATEST_MAX: Final = 10_000
ARRAYS_MAX: Final = 16
RUNS_MAX: Final = 4  # of an array; a run has up to a thousand objects

_Place: TypeAlias = "tuple[StoredArray, Prefix]"


class StoredVersions:
    """The versions of chunks that this process stored, and of those that were listed.

    A chunk is stored on the condition that the store still has the known version: then a request
    that takes effect after its deadline replaces nothing that was stored since. The version of a
    chunk that this process meets for the first time comes from a listing, which takes one request
    for up to a thousand chunks. If a version is outdated, the store refuses the condition.

    `_lock` guards the dicts, and is not held during a request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: OrderedDict[ChunkId, Version] = OrderedDict()
        # None: none can be had
        self._runs: OrderedDict[_Place, deque[ListedRange] | None] = OrderedDict()
        self._asking: dict[_Place, Future[None]] = {}

    def latest(self, chunk_id: ChunkId) -> Version | None:
        """Return the version that this process stored last; None: it stored none."""
        return self._latest.get(chunk_id)

    def note(self, chunk_id: ChunkId, version: Version | None) -> None:
        """Note the version that was stored; None: nothing was, because the chunk is all fill."""
        with self._lock:
            self._latest.pop(chunk_id, None)
            if version is None:
                return
            self._latest[chunk_id] = version
            if len(self._latest) > LATEST_MAX:
                forgotten, _ = self._latest.popitem(last=False)
                forgotten[0].is_new = False

    def has_met(self, array: StoredArray, io: ChunkStore) -> bool:
        """Return whether `ask` was called for a chunk of an array before, or is not needed."""
        place = array, io.prefix
        return array.is_new or place in self._runs or place in self._asking

    def ask(self, chunk_id: ChunkId, io: ChunkStore) -> Version | None:
        """Return the version of a chunk; `ABSENT`: the store has none; None: it cannot be learnt.

        One thread at a time asks the store about an array, and the others wait for its answer.

        Raises
        ------
        StoreError : the store could not be asked.
        """
        array, index = chunk_id
        if (latest := self._latest.get(chunk_id)) is not None:
            return latest
        if array.is_new:
            return ABSENT
        key, place = io.key(index), (array, io.prefix)
        while True:
            with self._lock:
                runs = self._runs.get(place, ())
                if runs is None:
                    return None
                for run in runs:
                    if run.covers(key):
                        return Version(run.versions.get(key, ABSENT))
                asking = self._asking.get(place)
                if asking is None:
                    ours = self._asking[place] = Future()
            if asking is not None:
                asking.result()
                continue
            try:
                answer = self._asked(io, index)
            except BaseException as error:
                with self._lock:
                    del self._asking[place]
                ours.set_exception(error)
                raise
            with self._lock:
                del self._asking[place]
                self._keep(place, answer if answer is not None and answer.covers(key) else None)
            ours.set_result(None)

    def _asked(self, io: ChunkStore, index: ChunkIndex) -> ListedRange | None:
        try:
            return io.run_from(index)
        except StoreError as error:
            if error.transient:
                raise
            log.info("%s: versions of chunks cannot be listed: %s", io.key(index), error)
            return None

    def _keep(self, place: _Place, run: ListedRange | None) -> None:
        known = self._runs.pop(place, None) or deque(maxlen=RUNS_MAX)
        self._runs[place] = None if run is None else known
        if run is not None:
            known.append(run)
        if len(self._runs) > ARRAYS_MAX:
            self._runs.popitem(last=False)
