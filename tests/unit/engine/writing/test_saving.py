"""Chunks in the spool: what is there stays true, whatever is written or saved meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.chunks.loaded import ChunkId
from nczfs.engine.spool import basis
from nczfs.engine.spool import saved as saved_chunks
from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.chunks import KeptChunk
from nczfs.engine.spool.contents import read_entry
from nczfs.engine.spool.entries import add_record
from nczfs.engine.spool.records import Packed
from nczfs.engine.spool.saved import Attempt, Saved, save_chunk
from nczfs.engine.spool.space import SUFFIX, Spool, Survives
from nczfs.engine.writing import dirty, saving
from nczfs.engine.writing.dirty import DirtyUnit
from nczfs.errors import AccessDenied, NoSpace, StructureChanged, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault
from nczfs.tools import recovery
from nczfs.zmap.base import Part
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.support.killed import copied, left_by
from tests.support.spooling import (
    CHUNK,
    CHUNK_BYTES,
    DOWN,
    FILL,
    REFUSED,
    Kept,
    Mount,
    held,
    mounted,
    new_memory,
    put_all_back,
    recover,
    stored,
)


@pytest.fixture
def memory() -> MemoryZMap:
    return new_memory()


def test_a_spooled_chunk_takes_no_memory_until_it_is_written_to(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.writeback.memory_bytes == 0
        assert mount.read(0, 3) == [1, FILL, FILL]
        assert mount.writeback.memory_bytes == 0, "reading needs no memory that stays"
        mount.write(1, 2)
        assert mount.writeback.memory_bytes >= CHUNK_BYTES
        assert mount.read(0, 3) == [1, 2, FILL]


@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_no_lock_is_held_while_the_digest_of_what_was_sent_is_made(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: Survives
) -> None:
    """It reads all of a shard, and who writes to the chunks, or to any others, would wait."""
    spool, digest = Spool(tmp_path, "memory://store", None, survives), basis.sent
    were_locked: list[bool] = []

    def noted(parts: Sequence[Part]) -> Sent:
        chunks = mount.writeback._dirty
        locks = (chunks._lock, *(unit.lock for unit in chunks._units.values()))
        were_locked.extend(lock.locked() for lock in locks)
        return digest(parts)

    monkeypatch.setattr(dirty, "sent", noted)
    with mounted(memory, tmp_path, spool=spool) as mount, ThreadPoolExecutor(1) as pool:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        assert isinstance(found.entry, KeptChunk)
        assert found.entry.basis.sent
        mount.zmap.arm()
        with held(mount, "write") as (begun, go_on):
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(120)
            mount.write(1, 2)
            (chunk,) = mount.writeback.save()
            assert len(chunk.basis.sent) == 1
            go_on.set()
            flush.result(120)
    assert were_locked
    assert not any(were_locked)


def test_a_spooled_chunk_keeps_what_others_wrote_when_it_is_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        with open_zmap(memory, "r+") as other:
            other.variables["v"][0:2] = [5, 6]
        mount.zmap.arm()
        mount.writeback.flush()
        assert stored(memory)[:3] == [1, 6, FILL]
        assert mount.read(0, 3) == [1, 6, FILL]


def test_what_the_store_refuses_is_in_the_spool_before_the_caller_hears_of_it(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(3, 7)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        assert found.describe() == "memory://store v[3:4]"
        assert found.entry is not None
        assert "on purpose" in found.entry.reason
        assert found.is_owned


def test_what_was_written_after_a_refusal_is_in_the_spool_after_the_next(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        for position in (3, 5, 4):
            mount.write(position, 7)
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
        (found,) = mount.entries()
        assert found.describe() == "memory://store v[3:6]"


def test_refused_again_and_again_the_entry_is_not_written_again(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    for name in ("v", "text"):
        with mounted(memory, tmp_path, name=name) as mount:
            mount.zmap.arm(REFUSED)
            mount.write(0, "text" if name == "text" else 1)
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
            before = [found.path for found in mount.entries()]
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
            assert [found.path for found in mount.entries()] == before


def test_where_the_spool_takes_nothing_either_it_is_kept_in_memory_and_said(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any
) -> None:
    expected_warnings.add("v/0: kept in memory only: .*--max-spool-size")
    with mounted(memory, tmp_path, spool_bytes=10) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.read(0, 1) == [1]
        assert mount.entries() == []
    assert stored(memory)[0] == 1


def test_what_is_newer_than_the_entry_of_an_array_that_is_gone_is_kept_until_the_spool_has_it(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """SEMANTICS W90."""
    expected_warnings.add("v/0: kept in memory only: .*--max-spool-size|removed.*; saved in")
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.write(1, 2)
        mount.zmap.arm()
        memory.delete(parse_key("v/.zarray"))
        mount.v.writer().confirm.doubt()
        mount.spool.bytes_max = 10
        used = mount.spool.bytes_used
        with pytest.raises(StructureChanged):
            mount.writeback.flush()
        assert "saved in" not in caplog.text
        assert (mount.spool.bytes_used, mount.spool.kept_count) == (used, 0)
        mount.spool.bytes_max = None
        with pytest.raises(StructureChanged):
            mount.writeback.flush()
        assert "saved in" in caplog.text
        assert mount.writeback.unsaved == 0
        (path,) = mount.spool.directory.glob(f"*{SUFFIX}")
        entry = read_entry(path)
        assert isinstance(entry, KeptChunk)
        assert entry.values(np.dtype("i4"))[:2].tolist() == [1, 2]
        path.unlink()
        mount.v.stored.has_lost = False  # it has been told


def test_a_whole_chunk_that_is_refused_is_spooled_like_any_other(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, *range(CHUNK))
        assert mount.writeback.unsaved == len(mount.entries()) == 1
        assert mount.writeback.memory_bytes == 0
        assert mount.read(0, 2) == [0, 1]
    assert stored(memory)[:CHUNK] == list(range(CHUNK))


@pytest.mark.parametrize("refused", ["read", "write"], ids=["before it is sent", "as it is sent"])
def test_a_whole_chunk_that_is_refused_is_written_upon_the_version_that_was_known(
    memory: MemoryZMap, tmp_path: Path, refused: str
) -> None:
    """SEMANTICS W51: what another client stored since is not put back by its older one."""
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)
        mount.writeback.flush()
        known = mount.zmap.stat(parse_key("v/0")).version
        with open_zmap(memory, "r+") as other:
            other.variables["v"][0:2] = [5, 6]
        mount.v.writer().confirm.doubt()
        mount.zmap.arm(replace(REFUSED, operations=frozenset({refused})))
        mount.write(0, *range(CHUNK))
        (found,) = mount.entries()
        assert isinstance(found.entry, KeptChunk)
        assert found.entry.basis.versions == (known,)
        mount.zmap.arm()


def test_what_is_written_while_a_chunk_is_stored_is_kept_upon_what_was_stored(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """SEMANTICS W51."""
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(1) as pool:
        mount.write(0, 1)
        with held(mount, "write") as (begun, go_on):
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(120)
            mount.write(1, 2)
            go_on.set()
            flush.result(120)
        (left,) = mount.writeback.save()
        (found,) = mount.entries()
        assert isinstance(found.entry, KeptChunk)
        assert found.entry.basis.versions == (mount.zmap.stat(parse_key("v/0")).version,)
        assert left.is_saved


def test_what_was_written_over_a_lent_chunk_while_it_was_refused_is_spooled(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(1) as pool:
        mount.zmap.arm(REFUSED)
        with held(mount, "write") as (begun, go_on):
            whole = pool.submit(mount.write, 0, *range(CHUNK))
            assert begun.wait(120)
            mount.write(1, 99)
            go_on.set()
            whole.result(120)
        assert mount.read(0, 3) == [0, 99, 2]
        assert len(mount.entries()) == 1
    assert stored(memory)[:3] == [0, 99, 2]


def test_an_error_that_nobody_foresaw_is_kept_as_one_that_may_pass(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)

        def fail(operation: str, key: str) -> None:
            raise ZeroDivisionError("a bug")

        mount.before = fail
        with pytest.raises(Unavailable, match="a bug"):
            mount.writeback.flush()
        mount.before = lambda operation, key: None
        assert mount.read(0, 1) == [1]


def test_what_is_written_while_a_chunk_is_being_saved_is_not_lost(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        saved = iter([True])
        original = os.fsync

        def write_meanwhile(fd: int) -> None:
            original(fd)
            if stat.S_ISREG(os.fstat(fd).st_mode) and next(saved, False):
                mount.write(0, 2, 3)

        monkeypatch.setattr(os, "fsync", write_meanwhile)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.read(0, 3) == [2, 3, FILL]
        assert mount.writeback.memory_bytes >= CHUNK_BYTES
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        assert found.describe() == "memory://store v[0:2]"


def test_a_chunk_that_is_completed_while_it_is_being_saved_stays_complete(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_zmap(memory, "r+") as other:
        other.variables["v"][0:CHUNK] = 5
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        original, saved = os.fsync, iter([True])

        def read_meanwhile(fd: int) -> None:
            original(fd)
            if stat.S_ISREG(os.fstat(fd).st_mode) and next(saved, False):
                assert mount.read(0, 2) == [1, 5]

        monkeypatch.setattr(os, "fsync", read_meanwhile)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        assert mount.read(0, 3) == [1, 5, 5]


def test_of_two_that_save_a_chunk_at_once_the_newer_state_stays(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)
        chunk = mount.chunk(0)
        assert chunk is not None
        original, saved = os.fsync, iter([True])

        def save_meanwhile(fd: int) -> None:
            original(fd)
            if stat.S_ISREG(os.fstat(fd).st_mode) and next(saved, False):
                mount.write(1, 2)
                mount.writeback._saver.save(chunk)

        monkeypatch.setattr(os, "fsync", save_meanwhile)
        mount.writeback._saver.save(chunk)
        (found,) = mount.entries()
        assert found.describe() == "memory://store v[0:2]"
        assert mount.read(0, 2) == [1, 2]


def test_what_was_spooled_and_written_over_during_its_flush_stays_in_the_spool(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(1) as pool:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.zmap.arm()
        with held(mount, "write") as (begun, go_on):
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(120)
            mount.write(1, 2)
            chunk = mount.chunk(0)
            assert chunk is not None
            mount.writeback._saver.save(chunk)
            go_on.set()
            flush.result(120)
        assert stored(memory)[:2] == [1, FILL]
        (found,) = mount.entries()
        assert found.describe() == "memory://store v[1:2]", "the other one is stored"
        assert mount.read(0, 2) == [1, 2]


def test_a_write_that_fails_on_a_spooled_chunk_loses_nothing(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        (found,) = mount.entries()
        found.path.rename(tmp_path / "elsewhere")
        with pytest.raises(Unavailable):
            mount.write(1, 2)
        (tmp_path / "elsewhere").rename(found.path)
        assert mount.read(0, 2) == [1, FILL]


def test_dropping_a_spooled_chunk_removes_its_entry(memory: MemoryZMap, tmp_path: Path) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        mount.write(CHUNK, 2)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()

        def is_wanted(chunk_id: ChunkId) -> bool:
            return chunk_id[1] == (1,)

        mount.writeback.drop(mount.v.stored, is_wanted)
        (found,) = mount.entries()
        assert found.describe() == f"memory://store v[{CHUNK}:{CHUNK + 1}]"
        assert mount.writeback.unsaved == 1
        assert mount.read(0, 1) == [FILL]


def test_dropping_waits_for_what_flies_and_leaves_no_entry(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount, ThreadPoolExecutor(2) as pool:
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with held(mount, "write") as (begun, go_on):
            flush = pool.submit(mount.writeback.flush)
            assert begun.wait(120)
            drop = pool.submit(mount.writeback.drop, mount.v.stored, lambda _: False)
            assert not drop.done()
            go_on.set()
            assert isinstance(flush.exception(120), AccessDenied)
            drop.result(120)
        assert mount.entries() == []


def test_the_values_of_an_entry_are_not_kept_in_the_cache(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """They would take room on the disk that nothing counts."""
    with mounted(memory, tmp_path) as mount:
        for position in range(CHUNK):
            mount.write(position, position)
        mount.zmap.arm(REFUSED)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.zmap.arm()
        mount.writeback.flush()
        assert mount.engine.cache.peek((mount.v.stored, (0,)), 0.0) is None
        assert mount.read(0, CHUNK) == list(range(CHUNK))


LOST_ANSWER = Fault(0, Unavailable, after=True, operations=frozenset({"write"}))


def test_what_was_sent_after_it_was_saved_is_no_other_clients_and_stays(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """SEMANTICS W51: the mount is killed when a later attempt has arrived, and no answer came."""
    with mounted(memory, tmp_path / "spool") as mount:
        mount.write(1, 0)
        mount.writeback.flush()
        mount.zmap.arm(REFUSED)
        mount.write(0, 1)
        with pytest.raises(AccessDenied):
            mount.writeback.flush()
        mount.zmap.arm(LOST_ANSWER)
        mount.write(0, 2)
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        left = left_by(tmp_path / "spool", tmp_path / "left")
        assert stored(memory)[:2] == [2, 0]
        recover(memory, left)
        assert stored(memory)[:2] == [2, 0]
        mount.writeback.flush()


def lose_an_answer_while_newer_elements_are_saved(mount: Mount) -> None:
    """Send 1 of [1, 0], which arrives, while 2 is written in its place and saved."""
    mount.write(1, 0)
    mount.writeback.flush()
    mount.engine.cache.discard(mount.v.stored)
    mount.zmap.arm(LOST_ANSWER)
    mount.write(0, 1)
    with ThreadPoolExecutor(1) as threads, held(mount, "read") as (begun, go_on):
        flushing = threads.submit(mount.writeback.flush)
        assert begun.wait(60)
        mount.write(0, 2)
        mount.writeback.save()
        go_on.set()
        with pytest.raises(Unavailable):
            flushing.result()


def test_what_is_sent_while_newer_elements_are_saved_is_no_other_clients(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """SEMANTICS W51: the end of a mount saves a chunk that is about to be sent without them."""
    with mounted(memory, tmp_path / "spool") as mount:
        lose_an_answer_while_newer_elements_are_saved(mount)
        left = left_by(tmp_path / "spool", tmp_path / "left")
        assert stored(memory)[:2] == [1, 0]
        recover(memory, left)
        assert stored(memory)[:2] == [2, 0]
        mount.writeback.flush()


def test_an_older_entry_below_one_that_arrived_is_not_put_over_it(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    """Also with --force: what the later mount wrote there is newer."""
    left = tmp_path / "left"
    for number in (1, 2):
        with mounted(memory, tmp_path / "spool") as mount:
            mount.zmap.arm(REFUSED)
            mount.write(0, number)
            with pytest.raises(AccessDenied):
                mount.writeback.flush()
            if number == 2:
                mount.zmap.arm(LOST_ANSWER)
                mount.write(1, 7)
                with pytest.raises(Unavailable):
                    mount.writeback.flush()
            here = left_by(tmp_path / "spool", tmp_path / f"left{number}")
            kept = copied(memory)
        shutil.copytree(here, left, dirs_exist_ok=True)
        if number == 1:
            memory = new_memory()
    store = recovery.Store(Kept(kept), parse_url("memory://store"))
    put_all_back(store, recovery.entries(left), force=True)
    store.close()
    assert stored(kept)[:2] == [2, 7]


def test_newer_elements_that_are_sent_while_older_ones_are_saved_stay(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W51: the entry says that what was sent has all that it has, and more."""

    def slow(*arguments: Any, **options: Any) -> Saved:
        saved = save_chunk(*arguments, **options)
        monkeypatch.setattr(saving, "save_chunk", save_chunk)
        mount.write(0, 2)
        flushing.append(threads.submit(mount.writeback.flush))
        assert begun.wait(60)
        return saved

    flushing: list[Future[None]] = []
    with mounted(memory, tmp_path / "spool") as mount, ThreadPoolExecutor(1) as threads:
        mount.write(0, 1)
        monkeypatch.setattr(saving, "save_chunk", slow)
        chunk = mount.chunk(0)
        assert chunk is not None
        with held(mount, "write") as (begun, go_on):
            mount.writeback._saver.save(chunk)
            left = left_by(tmp_path / "spool", tmp_path / "left")
            go_on.set()
            flushing[0].result()
        assert stored(memory)[0] == 2
        recover(memory, left)
        assert stored(memory)[0] == 2


def test_an_attempt_that_an_entry_could_not_be_told_is_told_later_as_what_it_was(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W51: the attempt that arrived lacks what the entry has, the next one has it."""
    calls: list[Path] = []

    def full(path: Path, record: Packed) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise NoSpace("full")
        add_record(path, record)

    monkeypatch.setattr(saved_chunks, "add_record", full)
    with mounted(memory, tmp_path / "spool") as mount:
        lose_an_answer_while_newer_elements_are_saved(mount)
        mount.zmap.arm(DOWN)
        with pytest.raises(Unavailable):
            mount.writeback.flush()
        assert len(calls) > 1
        left = left_by(tmp_path / "spool", tmp_path / "left")
        assert stored(memory)[:2] == [1, 0]
        recover(memory, left)
        assert stored(memory)[:2] == [2, 0]


def test_what_is_noted_as_sent_while_a_chunk_is_saved_is_told(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W51: between looking for what was sent and the lock, something else may be sent."""
    note_sent, begun = DirtyUnit.note_sent, False

    def late(unit: DirtyUnit) -> None:
        nonlocal begun
        note_sent(unit)
        if is_saved and not begun:
            begun = True
            with unit.lock:
                unit.sending([b"another"], None)

    is_saved = False

    def noted(*arguments: Any, **options: Any) -> Saved:
        nonlocal is_saved
        saved = save_chunk(*arguments, **options)
        is_saved = True
        return saved

    monkeypatch.setattr(saving, "save_chunk", noted)
    monkeypatch.setattr(DirtyUnit, "note_sent", late)
    with mounted(memory, tmp_path / "spool") as mount:
        mount.write(0, 1)
        mount.writeback.save()
        (found,) = mount.entries()
        entry = found.entry
        assert isinstance(entry, KeptChunk)
        assert [each.size for each in entry.basis.sent] == [len(b"another")]


def test_what_an_entry_is_told_counts_and_never_takes_more_than_the_entry(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    with mounted(memory, tmp_path) as mount:
        mount.write(0, 1)
        mount.writeback.save()
        chunk = mount.chunk(0)
        assert chunk is not None
        saved = chunk.saved
        assert saved is not None
        began, size = saved.nbytes, saved.path.stat().st_size
        assert mount.spool.bytes_used == began
        long = Sent(10**6, 1, tuple((at, at + 1) for at in range(0, 10**6, 100)))
        saved.record([Attempt(long, is_whole=False)])
        assert (saved.nbytes, saved.path.stat().st_size) == (began, size)
        saved.record([Attempt(Sent(n, n, ((0, n),)), is_whole=False) for n in range(1, 100)])
        added = saved.path.stat().st_size - size
        assert 0 < added <= began
        assert mount.spool.bytes_used == saved.nbytes == began + added
        entry = mount.entries()[0].entry
        assert isinstance(entry, KeptChunk)
        assert set(entry.basis.sent) <= set(saved.recorded)
