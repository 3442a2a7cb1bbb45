"""The journal: values that were written and are not in the store, for when the process is killed.

Segments, ``journal-N-values``, are logs of these records:

* ``journal``: the URL of the mount. The first one of a segment.
* ``chunk``: a number that stands for a chunk in this segment from here on, and the `ChunkDetails`.
* ``basis``: what a chunk is written upon, as in `Basis`; the last one counts.
* ``wrote``: the elements of a box of a chunk.
* ``stored``: what stands before it of a chunk is in the store, or will never be.
* ``grown``: an array became longer, and the store does not know yet; ``settled``: it does.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.loaded import Values
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.chunks import ChunkDetails
from nczfs.engine.spool.records import Log, packed
from nczfs.engine.spool.space import Spool
from nczfs.errors import NczfsError
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.keys import Prefix

log = logging.getLogger(__name__)

FORMAT: Final = 1
BEFORE: Final = "journal-"  # begins the name of a segment
SEGMENT_BYTES: Final = 64 << 20

_Packed = list[bytes | memoryview]
_Place = tuple[Prefix, ChunkIndex]


@dataclass(frozen=True, slots=True)
class _Growth:
    """An array that became longer; `is_pending` tells whether the store does not know yet."""

    array: ArrayDescription
    is_pending: Callable[[], bool]


class Journal:
    """What was written to chunks and is not stored. `_lock` guards everything.

    It is emptied whenever nothing is dirty. When there never comes such a time, segments end: the
    user stores everything that was written before, and then drops the old ones.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._lock = threading.Lock()
        self._segments: list[tuple[int, Log]] = []
        self._count = 0
        self._numbers = itertools.count()
        self._known: dict[_Place, tuple[ArrayDescription, int]] = {}
        self._dirty: set[_Place] = set()
        self._growing: dict[Prefix, _Growth] = {}
        self._owed: list[_Packed] = []

    @property
    def is_long(self) -> bool:
        """Whether there are segments that have ended. No lock."""
        return len(self._segments) > 1

    def wrote(self, io: ChunkIO, index: ChunkIndex, box: Box, values: Values, basis: Basis) -> None:
        """Elements of a chunk were written; the last such call counts.

        Parameters
        ----------
        box : which elements, counted from the first one of the chunk.
        values : of the shape of the box, in native byte order, and of fixed size.
        basis : what the chunk was written upon.

        Raises
        ------
        NoSpace, Unavailable : they are not in the journal.
        """
        assert values.shape == box.shape
        assert not values.dtype.hasobject
        if not box.size:
            return
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        place = (io.prefix, index)
        with self._lock:
            segment = self._segment()
            known = self._known.get(place)
            is_known = known is not None and known[0] is io.array
            number = known[1] if known is not None and is_known else next(self._numbers)
            records = [] if is_known else [packed(_chunk(number, io, index))]
            if not is_known or place not in self._dirty:
                records.append(packed(_basis(io, index, basis)))
            wrote = {"is": "wrote", "number": number, "start": box.start, "stop": box.stop}
            self._append(segment, [*records, packed(wrote, data)])
            self._known[place] = (io.array, number)
            self._dirty.add(place)

    def sending(self, io: ChunkIO, index: ChunkIndex, basis: Basis) -> None:
        """A chunk is written upon something else, or was sent once more. Never raises."""
        with self._lock:
            if (io.prefix, index) in self._dirty:
                self._note(_basis(io, index, basis))

    def stored(self, io: ChunkIO, index: ChunkIndex, *, is_last: bool) -> None:
        """A chunk is in the store, or forgotten; `is_last`: nothing else is dirty. Never raises."""
        place = (io.prefix, index)
        with self._lock:
            if is_last and not self._is_growing():
                self._clear()
            elif place in self._dirty:
                self._dirty.discard(place)
                self._note({"is": "stored", "key": io.prefix, "index": index})

    def grown(
        self, prefix: Prefix, array: ArrayDescription, is_pending: Callable[[], bool]
    ) -> None:
        """An array became longer. Raises NoSpace, Unavailable."""
        with self._lock:
            segment = self._segment()
            self._append(segment, [packed(_grown(prefix, array))])
            self._growing[prefix] = _Growth(array, is_pending)

    def settled(self, *, is_clean: bool) -> None:
        """The store knows lengths by now; `is_clean`: no chunk is dirty. Never raises."""
        with self._lock:
            if is_clean and not self._is_growing():
                self._clear()
                return
            for prefix in [p for p, each in self._growing.items() if not each.is_pending()]:
                del self._growing[prefix]
                self._note({"is": "settled", "key": prefix})

    def ended(self) -> int | None:
        """The last segment that has ended, None where none has.

        Once all that was written by now is stored, `drop` may be told.
        """
        with self._lock:
            return self._segments[-2][0] if self.is_long else None

    def drop(self, number: int) -> None:
        """Remove the segments up to one: all that is in them is stored."""
        with self._lock:
            while self.is_long and self._segments[0][0] <= number:
                self._remove(self._segments.pop(0)[1])

    def close(self) -> None:
        """Remove it if it is empty; else leave it to those who put back what is in it."""
        with self._lock:
            for _, segment in self._segments:
                if segment.size:
                    segment.close()
                else:
                    self._remove(segment)
            self._segments.clear()

    def _segment(self) -> Log:
        """The segment that is written to, which begins with what holds for all that follows."""
        if not self._segments or self._segments[-1][1].size > SEGMENT_BYTES:
            self._count += 1
            log_of_values = Log(self._spool, self._spool.new_path("values", BEFORE))
            self._segments.append((self._count, log_of_values))
            self._known.clear()
        segment = self._segments[-1][1]
        if not segment.size:
            growing = [packed(_grown(p, each.array)) for p, each in self._growing.items()]
            first = {"is": "journal", "format": FORMAT, "url": self._spool.url}
            segment.append([packed(first), *growing], always=True)
        return segment

    def _append(self, segment: Log, records: list[_Packed]) -> None:
        segment.append([*self._owed, *records])
        self._owed.clear()

    def _note(self, document: dict[str, Any]) -> None:
        """Append what makes others void; where the disk has no room, with what comes next."""
        self._owed.append(packed(document))
        try:
            self._segment().append(self._owed, always=True)
        except NczfsError as error:
            log.warning("the journal does not record that something was stored: %s", error)
        else:
            self._owed.clear()

    def _is_growing(self) -> bool:
        return any(growth.is_pending() for growth in self._growing.values())

    def _clear(self) -> None:
        self._known.clear()
        self._dirty.clear()
        self._growing.clear()
        self._owed.clear()
        while self.is_long:
            self._remove(self._segments.pop(0)[1])
        for _, segment in self._segments:
            if segment.size:
                try:
                    segment.clear()
                except NczfsError as error:
                    log.warning("the journal still holds data that are stored: %s", error)

    def _remove(self, segment: Log) -> None:
        try:
            segment.remove()
        except NczfsError as error:
            log.warning("the journal still holds data that are stored: %s", error)


def _chunk(number: int, io: ChunkIO, index: ChunkIndex) -> dict[str, Any]:
    return {
        "is": "chunk",
        "number": number,
        "key": io.prefix,
        "name": io.key(index),
        "item_size": io.array.dtype.native.itemsize,
        **ChunkDetails.of(io.array, index).document(),
    }


def _basis(io: ChunkIO, index: ChunkIndex, basis: Basis) -> dict[str, Any]:
    return {"is": "basis", "key": io.prefix, "index": index, **basis.document()}


def _grown(prefix: Prefix, array: ArrayDescription) -> dict[str, Any]:
    details = ChunkDetails.of(array, (0,) * len(array.shape))
    return {"is": "grown", "key": prefix, **details.document()}
