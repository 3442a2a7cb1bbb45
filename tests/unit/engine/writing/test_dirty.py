"""What was written of a chunk: masks, copy on write, and what a flush takes and gives back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.engine.chunks.chunkio import ChunkIO
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import MissingChunks
from nczfs.engine.retrying import Retry
from nczfs.engine.spool.saved import Saved
from nczfs.engine.spool.space import Spool
from nczfs.engine.writing.attempts import Attempts
from nczfs.engine.writing.dirty import DirtyChunk, DirtyUnit
from nczfs.engine.writing.snapshot import Snapshot
from nczfs.engine.writing.written import WrittenMask
from nczfs.errors import Unavailable
from nczfs.model.boxes import Box
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, CodecChain
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

SHAPE = (4, 6)
WHOLE = Box((0, 0), SHAPE)


def chunk(clip: Box = WHOLE, fill: object = -1, typestr: str = "<i4") -> DirtyChunk:
    type_ = DataType(typestr, np.dtype(typestr))
    described = ArrayDescription(SHAPE, SHAPE, type_, fill, CodecChain(2))
    io = ChunkIO(MemoryZMap(), ArrayPlace(ROOT), described, MissingChunks.FILL)
    array = StoredArray(MemoryZMap(), ArrayPlace(ROOT))
    unit = DirtyUnit(array, (0, 0), io)
    unit.chunks[0, 0] = DirtyChunk(unit, (0, 0), clip)
    return unit.chunks[0, 0]


def taken(dirty: DirtyChunk) -> Snapshot | None:
    """Begin a flush."""
    snapshots, unreadable = dirty.unit.take([dirty])
    if unreadable is not None:
        raise unreadable
    return snapshots.get(dirty.index)


def settle(dirty: DirtyChunk, stored: Values, version: str) -> bool:
    """End a flush that succeeded, as the map does. Returns whether anything is left to write."""
    is_done = dirty in dirty.unit.settle({dirty.index: stored}, Version(version))
    if is_done:
        del dirty.unit.chunks[dirty.index]
    return not is_done


def full(value: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.full(SHAPE, value, np.int32)


def flags_of(mask: WrittenMask) -> Values:
    """Which elements a mask holds, seen from outside."""
    found = np.zeros(SHAPE, bool)
    mask.copy_onto(found, np.ones(SHAPE, bool))
    return found


ROW0, ROW1 = Box((0, 0), (1, 6)), Box((1, 0), (2, 6))


def test_a_chunk_of_which_a_part_was_written_cannot_be_read_before_it_has_a_base() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    assert dirty.readable() is None
    values = dirty.complete_with(full(5))
    assert values is not None
    assert values[:, 0].tolist() == [1, 5, 5, 5]
    assert dirty.readable() is values


def test_the_memory_of_a_chunk_is_also_that_of_its_strings() -> None:
    dirty = chunk(fill="", typestr="|O")
    empty = dirty.memory
    dirty.write(ROW0, np.array([["x" * 1000] * 6], object))
    assert dirty.memory - empty >= 6 * 1000
    dirty.write(ROW0, np.array([["x"] * 6], object))
    assert dirty.memory - empty < 3000
    base = np.full(SHAPE, "", object)
    base[1:] = "y" * 1000
    dirty.complete_with(base)
    assert dirty.memory - empty >= 18 * 1000
    dirty.write(WHOLE, np.full(SHAPE, "", object))
    assert dirty.memory - empty < 3000


def test_the_base_is_not_changed_by_what_is_written() -> None:
    dirty, base = chunk(), full(5)
    dirty.write(ROW0, full(1)[:1])
    dirty.complete_with(base)
    dirty.write(ROW1, full(2)[:1])
    assert (base == 5).all()


def test_what_is_written_during_a_flush_does_not_change_what_flies() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    flying = taken(dirty)
    assert flying is not None
    dirty.write(ROW0, full(2)[:1])
    assert (flying.values[0] == 1).all()
    assert dirty.take() is None, "one flush of a chunk at a time"
    assert settle(dirty, full(1), "1"), "something is left to write"
    again = taken(dirty)
    assert again is not None
    assert (again.values[0] == 2).all()
    assert again.version == Version("1")
    assert not settle(dirty, again.values, "2")
    assert dirty.gone


def test_a_read_during_a_flush_sees_the_base_what_flies_and_what_came_since() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    taken(dirty)
    dirty.write(ROW1, full(2)[:1])
    values = dirty.complete_with(full(5))
    assert values is not None
    assert values[:, 0].tolist() == [1, 2, 5, 5]


def test_after_a_failure_all_is_dirty_and_newer_values_win() -> None:
    dirty = chunk()
    dirty.write(Box((0, 0), (2, 6)), full(1)[:2])
    taken(dirty)
    dirty.write(ROW1, full(2)[:1])
    dirty.unit.fail(Unavailable("down"))
    again = taken(dirty)
    assert again is not None
    target = full(5)
    again.written.copy_onto(target, again.values)
    assert target[:, 0].tolist() == [1, 2, 5, 5]


def test_a_failure_without_later_writes_keeps_what_flew() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    first = taken(dirty)
    dirty.unit.fail(Unavailable("down"))
    again = taken(dirty)
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(again.values, first.values)
    assert flags_of(again.written)[0].all()
    assert not flags_of(again.written)[1:].any()


def test_after_a_flush_the_rest_is_what_the_store_has() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    taken(dirty)
    dirty.write(ROW1, full(2)[:1])
    stored = full(7)
    stored[0] = 1
    settle(dirty, stored, "1")
    values = dirty.readable()
    assert values is not None
    assert values[:, 0].tolist() == [1, 2, 7, 7]


def test_what_is_left_of_a_flush_may_have_been_written_when_that_had_begun() -> None:
    """The journal drops files that end before the oldest of what is left."""
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    taken(dirty)
    written_at = time.monotonic()
    dirty.write(ROW1, full(2)[:1])
    settle(dirty, full(1), "1")
    assert dirty.since <= written_at


def test_a_chunk_at_the_edge_is_whole_when_all_that_lies_in_the_array_was_written() -> None:
    clip = Box((0, 0), (2, 6))
    dirty = chunk(clip)
    dirty.write(ROW0, full(1)[:1])
    dirty.write(ROW1, full(1)[:1])
    snapshot = taken(dirty)
    assert snapshot is not None
    assert snapshot.is_whole
    assert (snapshot.values[2:] == -1).all(), "fill beyond the edge"


def test_what_was_lent_is_copied_before_it_is_changed() -> None:
    dirty, own = chunk(), full(1)
    dirty.lend(own)
    assert dirty.values is own
    taken(dirty)
    dirty.write(ROW0, full(2)[:1])
    assert (own == 1).all()


class Entry:
    """What a spool has of a chunk, in memory.

    Attributes
    ----------
    meanwhile : called once, before the values are read.
    """

    def __init__(self, dirty: DirtyChunk) -> None:
        frozen = dirty.freeze()
        assert frozen is not None
        self.frozen = frozen
        self.values: Values = np.array(frozen.values)
        self.values.flags.writeable = False
        self.flags = np.ones(SHAPE, bool) if frozen.flags is None else np.array(frozen.flags)
        self.meanwhile: Callable[[], None] | None = None
        self.is_gone = False

    def saved(self, *, mappable: bool = True) -> Saved:
        values = self._values if mappable else None
        return Saved(
            Spool(Path("spool")), Path("entry"), 0, self.frozen.revision, values, lambda: self.flags
        )

    def _values(self) -> Values:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.is_gone:
            raise Unavailable("no such file")
        return self.values


def parked(dirty: DirtyChunk) -> Entry:
    """Have a chunk saved and its memory let go."""
    entry = Entry(dirty)
    assert dirty.save(entry.saved()) is None
    dirty.park()
    assert dirty.is_parked
    return entry


def scatter(dirty: DirtyChunk, value: int) -> Values:
    """Write every other element; their flags."""
    flags: Values = np.indices(SHAPE).sum(0) % 2 == 0
    dirty.write(tuple(axis.astype(np.int64) for axis in np.nonzero(flags)), full(value)[flags])
    return flags


def test_a_parked_chunk_takes_no_memory_and_is_still_what_it_was() -> None:
    dirty = chunk()
    flags = scatter(dirty, 1)
    assert dirty.memory > 4 * 24 + 24
    parked(dirty)
    assert dirty.memory == 0
    assert dirty.is_saved
    assert dirty.freeze() is None, "there is nothing new to be saved"
    assert dirty.readable() is None
    for _ in range(2):
        values = dirty.complete_with(full(5))
        assert values is not None
        np.testing.assert_array_equal(values, np.where(flags, 1, 5))
    assert dirty.memory == 0


def test_a_parked_chunk_that_was_complete_is_read_from_the_spool() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    dirty.complete_with(full(5))
    entry = parked(dirty)
    assert dirty.readable() is entry.values
    assert dirty.complete_with(full(7)) is entry.values


def test_writing_to_a_parked_chunk_leaves_its_entry_and_takes_memory() -> None:
    dirty = chunk()
    flags = scatter(dirty, 1)
    entry = parked(dirty)
    dirty.write(ROW0, full(2)[:1])
    assert (entry.values[0] != 2).all()
    assert not dirty.is_parked
    assert not dirty.is_saved
    assert dirty.memory > 4 * 24
    flags[0] = True
    again = dirty.freeze()
    assert again is not None
    assert again.flags is not None
    np.testing.assert_array_equal(again.flags, flags)


def test_a_parked_chunk_flies_and_is_parked_again_when_that_fails() -> None:
    dirty = chunk()
    flags = scatter(dirty, 1)
    parked(dirty)
    snapshot = taken(dirty)
    assert snapshot is not None
    assert snapshot.is_borrowed
    target = full(5)
    snapshot.written.copy_onto(target, snapshot.values)
    np.testing.assert_array_equal(target, np.where(flags, 1, 5))
    dirty.unit.fail(Unavailable("down"))
    assert dirty.memory == 0
    np.testing.assert_array_equal(dirty.complete_with(full(5)), target)


def test_what_is_written_while_a_parked_chunk_flies_is_kept_whatever_becomes_of_it() -> None:
    for succeeds in (True, False):
        dirty = chunk()
        dirty.write(ROW0, full(1)[:1])
        parked(dirty)
        taken(dirty)
        dirty.write(ROW1, full(2)[:1])
        if succeeds:
            stored = full(5)
            stored[0] = 1
            assert settle(dirty, stored, "1")
        else:
            dirty.unit.fail(Unavailable("down"))
        assert not dirty.is_parked
        assert not dirty.is_saved, "its entry is not what is left to be stored"
        values = dirty.complete_with(full(5))
        assert values is not None
        assert values[:, 0].tolist() == [1, 2, 5, 5]
        left = dirty.freeze()
        assert left is not None
        assert left.flags is not None
        assert left.flags[:, 0].tolist() == [not succeeds, True, False, False]


def test_what_was_written_while_a_chunk_was_saved_keeps_it_in_memory() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    entry = Entry(dirty)
    dirty.write(ROW0, full(2)[:1])
    dirty.save(entry.saved())
    dirty.park()
    assert not dirty.is_parked
    assert (entry.frozen.values[0] == 1).all(), "what is being saved does not change"
    values = dirty.complete_with(full(5))
    assert values is not None
    assert values[0, 0] == 2


def test_of_two_entries_the_newer_one_is_kept_in_whatever_order_they_come() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    older = Entry(dirty)
    dirty.write(ROW1, full(2)[:1])
    newer = Entry(dirty)
    first, second = older.saved(), newer.saved()
    assert dirty.save(second) is None
    assert dirty.save(first) is first
    assert dirty.saved is second


def test_of_two_entries_of_the_same_elements_the_first_one_is_kept() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    entries = [Entry(dirty), Entry(dirty)]
    first, second = (entry.saved() for entry in entries)
    assert dirty.save(first) is None
    assert dirty.save(second) is second
    assert dirty.saved is first


def test_an_entry_that_replaces_another_one_says_so() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    older = Entry(dirty)
    first = older.saved()
    dirty.save(first)
    dirty.write(ROW1, full(2)[:1])
    newer = Entry(dirty)
    assert dirty.save(newer.saved()) is first


def test_what_cannot_be_mapped_stays_in_memory_without_its_flags() -> None:
    dirty = chunk()
    scatter(dirty, 1)
    entry = Entry(dirty)
    dirty.save(entry.saved(mappable=False))
    before = dirty.memory
    dirty.park()
    assert dirty.memory == before - 24
    assert dirty.is_unmapped
    assert not dirty.is_parked


def test_an_entry_that_came_too_late_is_not_needed() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    entry = Entry(dirty)
    taken(dirty)
    settle(dirty, full(1), "1")
    saved = entry.saved()
    assert dirty.save(saved) is saved
    dirty.park()
    assert not dirty.is_parked


def test_a_reader_whose_entry_was_replaced_meanwhile_reads_the_new_one() -> None:
    dirty = chunk()
    dirty.write(WHOLE, full(1))
    old = parked(dirty)

    def replace() -> None:
        dirty.write(ROW0, full(2)[:1])
        new = Entry(dirty)
        dirty.save(new.saved())
        dirty.park()
        raise Unavailable("no such file")

    old.meanwhile = replace
    values = dirty.readable()
    assert values is not None
    assert values[:, 0].tolist() == [2, 1, 1, 1]


def test_a_reader_whose_chunk_was_stored_meanwhile_is_sent_to_the_store() -> None:
    dirty = chunk()
    dirty.write(WHOLE, full(1))
    old = parked(dirty)

    def store() -> None:
        taken(dirty)
        settle(dirty, full(1), "1")
        raise Unavailable("no such file")

    old.meanwhile = store
    assert dirty.readable() is None


def test_an_entry_that_somebody_removed_is_an_error_and_changes_nothing() -> None:
    dirty = chunk()
    dirty.write(WHOLE, full(1))
    entry = parked(dirty)
    entry.is_gone = True
    for attempt in (dirty.readable, lambda: taken(dirty), lambda: dirty.write(ROW0, full(2)[:1])):
        with pytest.raises(Unavailable):
            attempt()
    entry.is_gone = False
    assert dirty.flying is None
    snapshot = taken(dirty)
    assert snapshot is not None
    assert (snapshot.values == 1).all()


def test_pauses_grow_up_to_an_end_and_begin_anew_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("nczfs.engine.retrying.time.monotonic", lambda: now)
    retry = Retry()
    assert retry.is_due
    pauses: list[float] = []
    for _ in range(3000):
        retry.failed()
        assert not retry.is_due
        pauses.append(retry.at - now)
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pauses[-1] == 60
    retry.succeeded()
    assert retry.is_due
    retry.failed()
    assert retry.at - now == 1


def test_a_chunk_that_is_gone_gives_nothing() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    taken(dirty)
    settle(dirty, full(1), "1")
    assert dirty.complete_with(full(5)) is None
    assert taken(dirty) is None


@pytest.mark.parametrize("what", ["own", "unrecorded", "note_sent"])
def test_what_is_asked_of_a_unit_goes_on_while_another_chunk_of_it_becomes_dirty(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    dirty = chunk()
    unit = dirty.unit
    dirty.write(ROW0, full(1)[:1])
    parked(dirty)
    unit.sent = [b"sent"]

    def beside(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            unit.chunks[1, 0] = DirtyChunk(unit, (1, 0), WHOLE)
            return call(*arguments)

        return called

    for owner, name in ((DirtyChunk, "own"), (Attempts, "unrecorded"), (Attempts, "note")):
        monkeypatch.setattr(owner, name, beside(getattr(owner, name)))
    getattr(unit, what)()
    assert len(unit.chunks) == 2
