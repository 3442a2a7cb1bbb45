"""The journal: values that were written and are not stored, for when the process is killed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore, UnitIndex
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.chunks import ChunkDetails
from nczfs.engine.spool.log import VALUES, Log
from nczfs.engine.spool.moves import Moves
from nczfs.engine.spool.records import Packed, packed
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.plaindata import frozen
from nczfs.zmap.keys import Prefix, after_rename, is_within

_Place = tuple[Prefix, ChunkIndex]


@frozen
class _Growth:
    """An array that became longer; `is_pending` tells whether the store does not know yet."""

    array: ArrayDescription
    is_pending: Callable[[], bool]


class Journal:
    """What the log of a mount says of chunks. The lock of the log guards everything.

    All of it is stored whenever nothing is dirty. When there never comes such a time, files of the
    log end: the user stores everything that was written before, and then drops the old ones.
    """

    def __init__(self, log: Log, moves: Moves) -> None:
        self.log = log
        self._moves = moves
        self._numbers = itertools.count()
        self._known: dict[_Place, tuple[ArrayDescription, int, int]] = {}
        self._dirty: dict[_Place, set[ChunkIndex]] = {}  # by unit
        self._growing: dict[Prefix, _Growth] = {}

    def wrote(
        self,
        io: ChunkStore,
        index: ChunkIndex,
        box: Box,
        values: Values,
        basis: Basis,
        written_ns: int,
        revision: int,
    ) -> None:
        """Note that elements of a chunk were written; the last such call counts.

        Parameters
        ----------
        box : which elements, counted from the first one of the chunk.
        values : of the shape of the box, in native byte order, and of fixed size.
        basis : what the chunk is based on.
        written_ns : when the first unsaved elements of the chunk were written, since 1970.
        revision : of the chunk that has them.

        Raises
        ------
        NoSpace, Unavailable : they are not in the journal.
        """
        assert values.shape == box.shape
        assert not values.dtype.hasobject
        if not box.size:
            return
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        with self.log.lock:
            place, unit = (io.prefix, index), io.unit(index)
            age = self.log.open()
            dirty = self._dirty.setdefault((io.prefix, unit), set())
            array, number, said_at = self._known.get(place, (None, -1, -1))
            is_known = array is io.array and said_at == age
            if not is_known:
                number = next(self._numbers)
            records: list[Packed] = [] if is_known else [packed(_chunk(number, io, index))]
            at = {"start": box.start, "stop": box.stop, "revision": revision}
            wrote = {"is": "wrote", "number": number, **at}
            if not is_known or index not in dirty:
                records.append(packed(_basis(io, unit, basis)))
                wrote["written_ns"] = written_ns
            self.log.append([*records, packed(wrote, data)], is_open=True)
            self._known[place] = (io.array, number, age)
            dirty.add(index)
            self.log.hold(VALUES, self._records)

    def rests(
        self,
        io: ChunkStore,
        unit: UnitIndex,
        basis: Basis,
        stored: Mapping[ChunkIndex, int] = MappingProxyType({}),
    ) -> None:
        """Note that a unit with dirty chunks has another basis. Never raises.

        Parameters
        ----------
        stored : revisions of chunks: what was written until then is in the store.
        """
        with self.log.lock:
            if dirty := self._dirty.get((io.prefix, unit)):
                void = [
                    {"is": "stored", "key": io.prefix, "index": index, "revision": revision}
                    for index, revision in stored.items()
                    if index in dirty
                ]
                self.log.note(*void, _basis(io, unit, basis))

    def stored(self, io: ChunkStore, index: ChunkIndex, *, is_last: bool) -> None:
        """Note a stored or forgotten chunk; `is_last`: nothing else is dirty. Never raises."""
        with self.log.lock:
            place = (io.prefix, io.unit(index))
            void = []
            dirty = self._dirty.get(place, set())
            if index in dirty:
                dirty.remove(index)
                void.append({"is": "stored", "key": io.prefix, "index": index})
            if not dirty:
                self._dirty.pop(place, None)
            self._settle(void, is_clean=is_last)

    def retracted(
        self, io: ChunkStore, index: ChunkIndex, box: Box, basis: Basis, revision: int
    ) -> None:
        """Note that some elements of a chunk are void, and what the rest is based on. Never raises.

        Parameters
        ----------
        io : of the array as long as it is without them.
        box : which elements, counted from the first one of the chunk.
        revision : of the chunk that is without them.
        """
        with self.log.lock:
            unit = io.unit(index)
            if index in self._dirty.get((io.prefix, unit), ()):
                at = {"key": io.prefix, "index": index, "start": box.start, "stop": box.stop}
                shape = io.array.shape
                said = {"is": "retracted", **at, "shape": shape, "revision": revision}
                self.log.note(said, _basis(io, unit, basis))

    def grown(
        self, prefix: Prefix, array: ArrayDescription, is_pending: Callable[[], bool]
    ) -> None:
        """Note that an array became longer. Raises NoSpace, Unavailable."""
        with self.log.lock:
            self.log.append([packed(_grown(prefix, array))])
            self._growing[prefix] = _Growth(array, is_pending)
            self.log.hold(VALUES, self._records)

    @contextmanager
    def moving(self, prefix: Prefix, goal: Prefix) -> Iterator[None]:
        """As `Moves.moving`."""

        def new(key: Prefix) -> Prefix:
            return after_rename(key, prefix, goal)

        with self.log.lock:
            with self._moves.moving(prefix, goal):
                yield
            self._known = {at: e for at, e in self._known.items() if not is_within(at[0], prefix)}
            self._dirty = {(new(key), unit): each for (key, unit), each in self._dirty.items()}
            self._growing = {new(key): each for key, each in self._growing.items()}

    def keeps_length(self, prefix: Prefix, axis: int, length: int) -> bool:
        """Return whether it has such a length of an array, or a greater one."""
        with self.log.lock:
            known = self._growing.get(prefix)
            return known is not None and known.array.shape[axis] >= length

    def settled(self, *, is_clean: bool) -> None:
        """Note that the store knows lengths; `is_clean`: no chunk is dirty. Never raises."""
        with self.log.lock:
            known = [p for p, each in self._growing.items() if not each.is_pending()]
            for prefix in known:
                del self._growing[prefix]
            self._settle([{"is": "settled", "key": p} for p in known], is_clean=is_clean)

    def _settle(self, void: list[dict[str, Any]], *, is_clean: bool) -> None:
        """Note in the log what is void: everything, if nothing is held any more."""
        if is_clean and not any(each.is_pending() for each in self._growing.values()):
            void += [{"is": "settled", "key": prefix} for prefix in self._growing]
            self._growing.clear()
            self._known.clear()
            self._dirty.clear()
            if self.log.release(VALUES):
                return
        if void:
            self.log.note(*void)

    def _records(self) -> list[Packed]:
        return [packed(_grown(prefix, each.array)) for prefix, each in self._growing.items()]


def _chunk(number: int, io: ChunkStore, index: ChunkIndex) -> dict[str, Any]:
    return {
        "is": "chunk",
        "number": number,
        "key": io.prefix,
        "name": io.key(io.unit(index)),
        **ChunkDetails.of(io.array, index, io.unit(index)).document(),
    }


def _basis(io: ChunkStore, unit: UnitIndex, basis: Basis) -> dict[str, Any]:
    return {"is": "basis", "key": io.prefix, "unit": unit, **basis.document()}


def _grown(prefix: Prefix, array: ArrayDescription) -> dict[str, Any]:
    index = (0,) * len(array.shape)
    details = ChunkDetails.of(array, index, index)
    return {"is": "grown", "key": prefix, **details.document()}
