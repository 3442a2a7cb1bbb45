"""What a far store lacks, as listings show it: not one request for each missing chunk."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple

from nczfs.engine.chunks.base import ChunkStore, UnitIndex
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.errors import StoreError
from nczfs.zmap.keys import Prefix
from nczfs.zmap.run import ListedRange

log = logging.getLogger(__name__)

ASK_AFTER: Final = 32
"""Missing units for which there may be one listing: as many as are requested at a time."""

ARRAYS_MAX: Final = 32
RUNS_MAX: Final = 2  # of an array; a run has up to a thousand objects


class Absences:
    """The units that listings have shown to be missing, by array.

    An array is listed when the store has answered often enough that it lacks a unit, and again when
    the last listing was of use as often. So an array of which little is missing is not listed, and
    listings are never more than a small part of the requests. What is stored by this process makes
    the listings of its array void, also one that is under way.

    `_lock` guards the state of the arrays, and is not held during a request. Looking up a unit
    takes no lock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._arrays: OrderedDict[StoredArray, _Listed] = OrderedDict()

    def known(
        self, array: StoredArray, io: ChunkStore, unit: UnitIndex, fresh_since: float
    ) -> float | None:
        """Return when a listing was requested that shows a unit to be missing; None: none does.

        Parameters
        ----------
        fresh_since : a listing from before is not looked at.
        """
        listed = self._arrays.get(array)
        presence = listed.presence(io, unit, fresh_since) if listed is not None else None
        return presence.as_of if presence is not None and presence.is_missing else None

    def note(self, array: StoredArray) -> None:
        """Note that the store lacked the unit of a request."""
        listed = self._arrays.get(array)
        if listed is None:
            with self._lock:
                listed = self._arrays.setdefault(array, _Listed())
                if len(self._arrays) > ARRAYS_MAX:
                    self._arrays.popitem(last=False)
        listed.add(1.0)

    def find(
        self, array: StoredArray, io: ChunkStore, unit: UnitIndex, fresh_since: float
    ) -> float | None:
        """Return what `known` does, after a listing where that is worth its request.

        If another thread lists the array, this one waits for it.
        """
        listed = self._arrays.get(array)
        if listed is None:
            return None
        with self._lock:
            asking = listed.asking
        if asking is not None:
            asking.result()
        if (presence := listed.presence(io, unit, fresh_since)) is not None:
            return presence.as_of if presence.is_missing else None
        if not listed.is_worth_asking:
            return None
        ours, run = Future[None](), None
        try:
            with self._lock:
                if not listed.is_worth_asking:
                    return None
                listed.credit -= ASK_AFTER
                listed.asking, changes = ours, listed.changes
            prefix, asked_at = io.prefix, self._clock()
            run = io.run_from(unit)
            listed.can_be_had = run is not None
        except StoreError as error:
            listed.can_be_had = error.transient
            log.info("%s: missing chunks cannot be listed: %s", io.key(unit), error)
        finally:
            with self._lock:
                if listed.asking is ours:
                    listed.asking = None
                # Of an array that is over, what was known has been forgotten, or will be.
                if run is not None and listed.changes == changes and not array.is_over:
                    listed.runs = ((run, prefix, asked_at), *listed.runs)[:RUNS_MAX]
            ours.set_result(None)
        return self.known(array, io, unit, fresh_since)

    def forget(self, array: StoredArray) -> None:
        """Forget what listings have shown of an array, because it has changed."""
        listed = self._arrays.get(array)
        if listed is not None:
            with self._lock:
                listed.changes += 1
                listed.runs = ()


class _Presence(NamedTuple):
    """Whether a listing lacks a unit, and when it was requested."""

    is_missing: bool
    as_of: float


class _Listed:
    """What listings have shown of an array.

    Attributes
    ----------
    runs : each with the prefix of the array, and the time when it was requested.
    credit : missing units that no listing has been requested for; counted without a lock, so
        roughly.
    changes : since the beginning; a listing during which the number changed is not kept.
    asking : done when the listing under way is.
    can_be_had : whether the store has not refused to list.
    """

    __slots__ = ("asking", "can_be_had", "changes", "credit", "runs")

    def __init__(self) -> None:
        self.runs: tuple[tuple[ListedRange, Prefix, float], ...] = ()
        self.credit = 0.0
        self.changes = 0
        self.asking: Future[None] | None = None
        self.can_be_had = True

    @property
    def is_worth_asking(self) -> bool:
        """Whether a listing is worth its request, and none is under way."""
        return self.asking is None and self.credit >= ASK_AFTER and self.can_be_had

    def add(self, units: float) -> None:
        """Count what is missing."""
        self.credit = min(self.credit + units, 2 * ASK_AFTER)

    def presence(self, io: ChunkStore, unit: UnitIndex, fresh_since: float) -> _Presence | None:
        """Return what a listing shows of a unit; None: there is none, or it is too old."""
        if not self.runs:
            return None
        key, prefix = io.key(unit), io.prefix
        for run, run_prefix, asked_at in self.runs:
            if asked_at >= fresh_since and run_prefix == prefix and run.covers(key):
                is_missing = key not in run.versions
                if is_missing:
                    self.add(io.unit_share)
                return _Presence(is_missing, asked_at)
        return None
