"""The dirty chunks of an engine, and the memory that they take."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakSet

from nczfs import metrics
from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.chunks.storedversions import StoredVersions
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.journal import Journal
from nczfs.engine.writing.attempts import record_attempts
from nczfs.engine.writing.copies import UnitCopies
from nczfs.engine.writing.dirty import DirtyChunk, DirtyUnit
from nczfs.engine.writing.extents import are_inside
from nczfs.engine.writing.snapshot import Snapshot
from nczfs.errors import NczfsError
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Part, Version

log = logging.getLogger(__name__)

_LIVING: Final[WeakSet[DirtyMap]] = WeakSet()
_living_lock = threading.Lock()  # guards the set


class DirtyMap:
    """All chunks with unsaved elements. Nothing evicts them.

    They are listed by their identity in the store, whichever handle they were written through.
    `_lock` guards the map, the units and the sum of bytes; each unit has its own lock. The order is
    map, then unit. No lock is held during a request to the store.

    Parameters
    ----------
    cache : its clean chunks make room for dirty ones.
    journal : is informed about chunks that leave the map.

    Attributes
    ----------
    chunks : may be read without a lock; only this class changes it.
    nbytes : memory of all chunks together, as counted in the budget.
    versions : those of stored chunks.
    """

    def __init__(self, cache: ChunkCache, journal: Journal | None) -> None:
        self.chunks: dict[ChunkId, DirtyChunk] = {}
        self.nbytes = 0
        self._of_array: dict[StoredArray, dict[ChunkId, None]] = {}
        self._units: dict[ChunkId, DirtyUnit] = {}
        self._cache = cache
        self._journal = journal
        self.versions = StoredVersions()
        self._copies: list[UnitCopies] = []
        self._lock = threading.Lock()
        self._landed = threading.Condition(self._lock)
        with _living_lock:
            _LIVING.add(self)

    def ids(self, is_wanted: Callable[[StoredArray], bool]) -> list[ChunkId]:
        """Return the chunks of the arrays for which `is_wanted` returns true."""
        with self._lock:
            wanted = (ids for array, ids in self._of_array.items() if is_wanted(array))
            return [chunk_id for ids in wanted for chunk_id in ids]

    def has_any(self, is_wanted: Callable[[StoredArray], bool]) -> bool:
        """Return whether there is a chunk of an array for which `is_wanted` returns true."""
        with self._lock:
            return any(map(is_wanted, self._of_array))

    def all(self) -> list[DirtyChunk]:
        """Return the present chunks."""
        with self._lock:
            return list(self.chunks.values())

    def aged(self, before: float) -> list[ChunkId]:
        """Return the chunks written before some time, then those of units that failed, of any age.

        Units that fail each time must not keep the others waiting.
        """
        with self._lock:
            found = [
                item
                for item in self.chunks.items()
                if item[1].since <= before or item[1].unit.error is not None
            ]
        return [i for i, _ in sorted(found, key=lambda item: item[1].unit.retry.attempts)]

    def oldest(self, excess: int) -> list[ChunkId]:
        """Return the oldest chunks up to so many bytes; those of units that failed come last."""
        if excess <= 0:
            return []
        with self._lock:
            oldest = sorted(
                self.chunks.items(), key=lambda item: (item[1].unit.retry.attempts, item[1].since)
            )
        ids: list[ChunkId] = []
        for chunk_id, chunk in oldest:
            if excess <= 0:
                break
            if chunk.nbytes:
                ids.append(chunk_id)
                excess -= chunk.nbytes
        return ids

    def entry(self, chunk_id: ChunkId, io: ChunkStore, clip: Box) -> DirtyChunk:
        """Return the chunk, which is made if it is not dirty yet.

        Raises
        ------
        StructureChanged : its array is gone.
        """
        with self._lock:
            chunk = self.chunks.get(chunk_id)
            if chunk is None:
                array, index = chunk_id
                unit = io.unit(index)
                known = self._units.get((array, unit)) or DirtyUnit(array, unit, io)
                chunk = DirtyChunk(known, index, clip)
                array.check()
                self._add(chunk_id, chunk)
            return chunk

    def units(self, ids: Iterable[ChunkId]) -> list[DirtyUnit]:
        """Return the units of the dirty ones among some chunks. Takes no lock."""
        found: dict[DirtyUnit, None] = {}
        for chunk_id in ids:
            chunk = self.chunks.get(chunk_id)
            if chunk is not None:
                found[chunk.unit] = None
        return list(found)

    def known_version(self, chunk_id: ChunkId, io: ChunkStore) -> Version | None:
        """Return the stored version of a chunk's unit if it is known without a request, or None."""
        if (known := self._cache.known(chunk_id)) is not None:
            return ABSENT if known.version is None else known.version
        unit = io.unit(chunk_id[1])
        if (latest := self.versions.latest((chunk_id[0], unit))) is not None or io.is_dated:
            return latest
        try:
            stat = io.stat(unit)
        except NczfsError as error:
            log.debug("%s: its version is unknown: %s", io.key(unit), error)
            return None
        return stat.version if stat is not None else ABSENT

    def sending(self, unit: DirtyUnit, parts: Sequence[Part], replaces: Version | None) -> None:
        """Note what is about to be sent of a unit: it may arrive although the answer is lost."""
        with unit.lock:
            unit.sending(parts, replaces)
        if self._journal is not None or unit.has_entries:
            unit.note_sent()
            with unit.lock:
                unrecorded = unit.unrecorded()
            record_attempts(unrecorded)
            if self._journal is not None:
                with unit.lock:
                    self._tell_journal(self._journal, unit)

    def lend(
        self, unit_id: ChunkId, io: ChunkStore, lent: Mapping[ChunkIndex, tuple[Box, Values]]
    ) -> tuple[DirtyUnit, Mapping[ChunkIndex, Snapshot]] | None:
        """Begin a flush of the caller's own values of all chunks of a unit.

        Returns None if one of them is dirty already, or not within the ends of the array.
        """
        if unit_id in self._units:
            return None
        array, index = unit_id
        version = self.known_version((array, next(iter(lent))), io)
        with self._lock:
            if unit_id in self._units:
                return None
            unit = DirtyUnit(array, index, io)
            unit.basis = self.first_basis(unit, version)
            array.check()
            if not all(are_inside(array, io, chunk, clip) for chunk, (clip, _) in lent.items()):
                return None
            with unit.lock:
                for chunk, (clip, values) in lent.items():
                    dirty = DirtyChunk(unit, chunk, clip)
                    self._add((array, chunk), dirty)
                    dirty.lend(values)
                snapshots, _ = unit.take(unit.chunks.values())
        return unit, snapshots

    def count(self, chunk: DirtyChunk) -> None:
        """Count the memory that a chunk takes now."""
        with self._lock, chunk.lock:
            if not chunk.gone:
                self._take(chunk.memory - chunk.nbytes)
                chunk.nbytes = chunk.memory

    def settle(
        self, unit: DirtyUnit, values: Mapping[ChunkIndex, Values], version: Version | None
    ) -> tuple[list[DirtyChunk], list[DirtyChunk]]:
        """End a flush that succeeded. Chunks leave the map if nothing is left to write.

        Returns
        -------
        those that have left, and those of the unit that have something left, as of now.
        """
        with self._landed:
            with unit.lock:
                flown = set(unit.flying)
                done = unit.settle(values, version)
                for chunk in done:
                    self._remove((unit.array, chunk.index), chunk)
                left = list(unit.chunks.values())
                if left:
                    unit.rest_upon(version)
                    unit.basis = replace(unit.basis, appended_from=unit.array.appended_from)
                    if self._journal is not None:
                        stored = {each.index: each.settled for each in left if each.index in flown}
                        self._journal.rests(unit.io, unit.index, unit.basis, stored)
            self.versions.note(unit.id, version)
            self._copies = [each for each in self._copies if each.may_be_young]
            self._landed.notify_all()
        return done, left

    def note_appended(self, unit: DirtyUnit) -> None:
        """Note from which record on the place is not certain. The caller holds the unit's lock."""
        first = unit.array.appended_from
        if unit.basis.appended_from != first:
            unit.basis = replace(unit.basis, appended_from=first)
            if self._journal is not None:
                self._tell_journal(self._journal, unit)

    def first_basis(self, unit: DirtyUnit, version: Version | None) -> Basis:
        """Return the basis of what is written now to a unit that nothing was written to.

        Parameters
        ----------
        version : that the store has as far as is known.
        """
        young = [each for each in self._copies if each.may_be_young]
        copies = [copy for made in young if (copy := made.of(unit)) is not None]
        is_copied = any(copy.source.version == version for copy in copies)
        versions = [copy.version for copy in copies]  # which were made before this is written
        basis = Basis()
        for each in (version, *versions) if is_copied else (*versions, version):  # the newest last
            basis = basis.upon(each)
        return basis

    def note_copies(self, made: UnitCopies) -> None:
        """Note that units were copied: what is put over one of them may be put over its copy."""
        young = made.young
        with self._lock:
            # Before what is dirty by now gets it: whoever writes first from now on finds it here.
            self._copies = [*(each for each in self._copies if each.may_be_young), young]
            units = list(self._units.values())
        for unit in units:
            if (copy := made.of(unit)) is None:
                continue
            with unit.lock:
                unit.copy = copy
                basis = unit.basis.upon_copy(copy)
                if basis is not unit.basis:
                    unit.basis = basis
                    if self._journal is not None:
                        self._tell_journal(self._journal, unit)
                for chunk in list(unit.chunks.values()):
                    if chunk.saved is not None:
                        chunk.saved.rest_upon(copy)

    def fail(self, unit: DirtyUnit, error: NczfsError) -> list[DirtyChunk]:
        """End a flush that failed. Returns its chunks."""
        unit.note_sent()
        with self._landed:
            with unit.lock:
                flown = unit.fail(error)
            self._landed.notify_all()
        return flown

    def wait_until_landed(self, units: Iterable[DirtyUnit]) -> None:
        """Wait until nothing of some units is on its way to the store."""

        def landed() -> bool:
            return not any(unit.flying for unit in units)

        with self._landed:
            self._landed.wait_for(landed)

    def remove_unwritten(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Remove a chunk to which nothing was written, though others may have looked at it."""
        with self._lock, chunk.lock:
            if chunk.written.is_empty and chunk.flying is None and not chunk.gone:
                self._remove(chunk_id, chunk)

    def drop(self, chunk_id: ChunkId) -> DirtyChunk | None:
        """Remove a chunk if it is in the map; what is on its way to the store still arrives."""
        with self._lock:
            chunk = self.chunks.get(chunk_id)
            if chunk is not None:
                with chunk.lock:
                    if chunk.flying is None:
                        self._remove(chunk_id, chunk)
            return chunk

    def retract(self, chunk_id: ChunkId, io: ChunkStore, box: Box) -> DirtyChunk | None:
        """Take elements out of a chunk that is not on its way to the store.

        Parameters
        ----------
        io : of the array, which may be shorter than it was when they were written.

        Returns
        -------
        the chunk as it was; None: none of them was written.

        Raises
        ------
        Unavailable, StructureChanged : it cannot be read, or its array is gone; nothing is taken
            out.
        """
        with self._lock:
            chunk = self.chunks.get(chunk_id)
            if chunk is None:
                return None
            chunk_id[0].check()
            with chunk.lock:
                if not chunk.written.meets(box):
                    return None
                left = chunk.without(box)
                chunk.unit.io = io
                if left is None:
                    self._remove(chunk_id, chunk)
                    return chunk
                is_alone = len(chunk.unit.chunks) == 1
                if is_alone and not left.written.meets(_before(box, left.shape)):
                    # All of it was put there just now, behind what is taken out.
                    chunk.unit.basis = Basis()
                    chunk.unit.attempts.clear()
                # In its place: those who look without a lock must find one of them.
                self.chunks[chunk_id] = chunk.unit.chunks[chunk.index] = left
            left.nbytes = left.memory
            self._take(left.nbytes - chunk.nbytes)
            if self._journal is not None:
                basis = left.unit.basis
                self._journal.retracted(left.unit.io, left.index, box, basis, left.revision)
            return chunk

    @property
    def are_due(self) -> bool:
        """Whether no unit pauses after its own failure."""
        with self._lock:
            return all(unit.retry.is_due for unit in self._units.values())

    def failed(self) -> list[DirtyUnit]:
        """Return the units whose last flush failed."""
        with self._lock:
            return [unit for unit in self._units.values() if unit.error is not None]

    def settle_journal(self) -> None:
        """Remove array lengths that the store knows from the journal."""
        if self._journal is not None:
            with self._lock:
                self._journal.settled(is_clean=not self.chunks)

    def _add(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        self.chunks[chunk_id] = chunk
        chunk.unit.chunks[chunk.index] = chunk
        self._units[chunk.unit.array, chunk.unit.index] = chunk.unit
        self._of_array.setdefault(chunk_id[0], {})[chunk_id] = None

    def _remove(self, chunk_id: ChunkId, chunk: DirtyChunk) -> None:
        """Remove a chunk. The caller holds both locks."""
        del self.chunks[chunk_id]
        of_array = self._of_array[chunk_id[0]]
        del of_array[chunk_id]
        if not of_array:
            del self._of_array[chunk_id[0]]
        unit = chunk.unit
        del unit.chunks[chunk.index]
        if not unit.chunks:
            del self._units[unit.array, unit.index]
        self._take(-chunk.nbytes)
        if self._journal is not None:
            self._journal.stored(unit.io, chunk.index, is_last=not self.chunks)

    @staticmethod
    def _tell_journal(journal: Journal, unit: DirtyUnit) -> None:
        """Note in the journal what the chunks of a unit are based on."""
        if unit.chunks:
            journal.rests(unit.io, unit.index, unit.basis)

    @property
    def decoded_bytes(self) -> int:
        """The decoded bytes of all chunks, also of those that only the spool has."""
        with self._lock:
            return sum(
                len(unit.chunks) * unit.io.array.chunk_bytes for unit in self._units.values()
            )

    def _take(self, nbytes: int) -> None:
        """Count bytes, also in the budget of the cache."""
        self.nbytes += nbytes
        self._cache.claim(nbytes)


def _before(box: Box, shape: tuple[int, ...]) -> Box:
    """Return the records of a chunk that lie before those of a box."""
    return Box((0,) * len(shape), (box.start[0], *shape[1:]))


def _dirty_bytes() -> int:
    """Return the decoded bytes of all maps of the process."""
    with _living_lock:
        return sum(each.decoded_bytes for each in _LIVING)


metrics.DIRTY_BYTES.set_function(_dirty_bytes)
