"""A chunk that is written to during a flush: only what is left of it is put back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from nczfs.engine.spool import saved as saved_chunks
from nczfs.engine.spool.entries import write_records
from nczfs.engine.spool.records import Packed
from nczfs.engine.spool.space import Spool, Survives
from nczfs.errors import NczfsError
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.testing.faults import Fault
from nczfs.zmap.memory import MemoryZMap
from tests.support.killed import left_by, recovered
from tests.support.spooling import CHUNK, FILL, WRITES, Mount, held, new_memory, stored


@pytest.fixture
def memory() -> MemoryZMap:
    return new_memory()


@pytest.fixture
def mount(memory: MemoryZMap, tmp_path: Path, survives: Survives) -> Iterator[Mount]:
    spool = Spool(tmp_path / "spool", "memory://store", survives=survives)
    mount = Mount(memory, tmp_path, spool=spool)
    yield mount
    mount.writeback.drop(mount.v.stored, lambda _: False)
    mount.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def flush_while_writing(mount: Mount, threads: ThreadPoolExecutor) -> None:
    """Store 1 in the first element, while 2 is written to the second one."""
    mount.write(0, 1)
    with held(mount, "write") as (begun, go_on):
        flush = threads.submit(mount.writeback.flush)
        assert begun.wait(60)
        mount.write(1, 2)
        go_on.set()
        flush.result(60)


def other_writes(memory: MemoryZMap, *values: int) -> None:
    with open_zmap(memory, "r+") as other:
        other.variables["v"][: len(values)] = values


def put_back(mount: Mount, memory: MemoryZMap, directory: Path) -> list[int]:
    """Put back what a kill leaves, and return the first elements."""
    recovered(left_by(mount.spool.directory.parent, directory / "left"), memory, refusing=True)
    return stored(memory)[:2]


@pytest.mark.parametrize("survives", [Survives.KILL])
@pytest.mark.parametrize("is_answer_lost", [False, True], ids=["request", "answer"])
def test_what_was_stored_is_not_put_over_what_another_client_stored_there_later(
    mount: Mount,
    memory: MemoryZMap,
    threads: ThreadPoolExecutor,
    tmp_path: Path,
    is_answer_lost: bool,
) -> None:
    """SEMANTICS W51: the mount has met the other client's version when its next flush fails."""
    flush_while_writing(mount, threads)
    assert stored(memory)[:2] == [1, FILL]
    other_writes(memory, 9)
    mount.zmap.arm(
        Fault(1, after=is_answer_lost, operations=WRITES),
        Fault(2, operations=WRITES, repeats=10**9),
    )
    with suppress(NczfsError):
        mount.writeback.flush()
    assert put_back(mount, memory, tmp_path) == [9, 2]


@pytest.mark.parametrize("survives", [Survives.KILL])
def test_what_is_left_was_written_when_it_was_and_not_when_the_flush_ended(
    mount: Mount, memory: MemoryZMap, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """SEMANTICS W51: another client stores the chunk before the mount has noted its own version."""
    mount.v.stored.on_stored = lambda: other_writes(memory, 9, 8)
    flush_while_writing(mount, threads)
    assert put_back(mount, memory, tmp_path) == [9, 8]


@pytest.mark.parametrize("survives", [Survives.KILL])
@pytest.mark.parametrize("is_late", [False, True], ids=["flying", "landed"])
def test_what_was_sent_in_vain_and_is_stored_since_is_not_put_back(
    mount: Mount,
    memory: MemoryZMap,
    threads: ThreadPoolExecutor,
    tmp_path: Path,
    is_late: bool,
) -> None:
    """SEMANTICS W51: another flush takes the chunk before it is in the journal."""
    mount.write(0, *range(1, CHUNK))
    mount.write(CHUNK - 1, CHUNK)
    chunk = mount.chunk(0)
    assert chunk is not None
    with held(mount, "write") as (begun, go_on):
        flush = threads.submit(mount.writeback.flush)
        assert begun.wait(60)
        mount.write(1, 20)
        if not is_late:
            mount.writeback._keep(chunk)
        go_on.set()
        flush.result(60)
    if is_late:
        mount.writeback._keep(chunk)
    other_writes(memory, 9)
    mount.zmap.arm(Fault(1, operations=WRITES, repeats=10**9))
    with suppress(NczfsError):
        mount.writeback.flush()
    assert put_back(mount, memory, tmp_path) == [9, 20]


@pytest.mark.parametrize("survives", [Survives.KILL])
def test_what_lies_before_records_that_are_taken_back_is_as_old_as_it_was(
    mount: Mount, memory: MemoryZMap, tmp_path: Path
) -> None:
    """SEMANTICS W51."""
    mount.write(0, 1)
    other_writes(memory, 9)
    mount.write(8, 7)
    io = mount.v.writer()
    mount.writeback.retract((mount.v.stored, (0,)), io, Box((8,), (9,)))
    assert put_back(mount, memory, tmp_path)[0] == 9


@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_an_entry_that_was_begun_during_a_flush_rests_upon_nothing_later(
    mount: Mount,
    memory: MemoryZMap,
    threads: ThreadPoolExecutor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS W51: it has an element that is stored since, and replaced by another client."""
    is_begun, go_on = Event(), Event()

    def slowly(path: Path, records: list[Packed]) -> Path:
        is_begun.set()
        assert go_on.wait(60)
        return write_records(path, records)

    monkeypatch.setattr(saved_chunks, "write_records", slowly)
    mount.write(0, 1)
    with held(mount, "write") as (begun, end_flush):
        flush = threads.submit(mount.writeback.flush)
        assert begun.wait(60)
        mount.write(1, 2)
        chunk = mount.chunk(0)
        assert chunk is not None
        save = threads.submit(mount.writeback._saver.save, chunk)
        assert is_begun.wait(60)
        end_flush.set()
        flush.result(60)
    other_writes(memory, 9)
    mount.zmap.arm(Fault(1, operations=WRITES, repeats=10**9))  # after it has met that version
    with suppress(NczfsError):
        mount.writeback.flush()
    go_on.set()
    save.result(60)
    assert put_back(mount, memory, tmp_path)[0] == 9
