"""Logs of records: whole ones are read, up to the first that is not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.spool import records
from nczfs.engine.spool.records import FileData, RecordFile, is_followed, packed, read_log
from nczfs.engine.spool.space import Spool
from nczfs.errors import NoSpace, SpoolError, Unavailable

RECORDS: list[tuple[dict[str, object], bytes]] = [
    ({"n": 1}, b""),
    ({"n": 2, "of": [1, 2]}, b"some bytes"),
    ({"n": 3}, bytes(70)),
]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path)
    yield spool
    spool.close()


@pytest.fixture
def log(spool: Spool) -> RecordFile:
    log = RecordFile(spool.new_path("log"), spool.reserve)
    for document, data in RECORDS:
        log.append([packed(document, np.frombuffer(data, np.uint8))])
    return log


def read(path: Path) -> list[tuple[dict[str, object], bytes]]:
    return [(record.document, record.data.read("bytes").tobytes()) for record in read_log(path)]


def test_what_was_appended_is_read_and_counts_in_the_budget(log: RecordFile, spool: Spool) -> None:
    assert read(log.path) == RECORDS
    assert spool.bytes_used == log.size == log.path.stat().st_size
    log.append([packed({"n": 4}), packed({"n": 5})])
    assert [document["n"] for document, _ in read(log.path)] == [1, 2, 3, 4, 5]
    log.clear()
    assert (read(log.path), spool.bytes_used) == ([], 0)
    log.append([packed({"n": 6})])
    assert read(log.path) == [({"n": 6}, b"")]
    log.remove()
    assert (log.path.exists(), spool.bytes_used) == (False, 0)


def test_of_a_log_torn_at_any_byte_the_whole_records_are_read(
    log: RecordFile, tmp_path: Path
) -> None:
    content = log.path.read_bytes()
    stops = [record.stop for record in read_log(log.path)]
    torn = tmp_path / "torn"
    for size in range(len(content) + 1):
        torn.write_bytes(content[:size])
        assert read(torn) == RECORDS[: sum(stop <= size for stop in stops)]


def test_what_stands_before_a_damaged_byte_is_read(log: RecordFile, tmp_path: Path) -> None:
    content = log.path.read_bytes()
    stops = [record.stop for record in read_log(log.path)]
    damaged = tmp_path / "damaged"
    for at in range(len(content)):
        damaged.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        assert read(damaged) == RECORDS[: sum(stop <= at for stop in stops)]


def test_a_record_that_the_disk_took_a_part_of_is_taken_back(
    log: RecordFile, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    writev = os.writev
    left = [5]

    def full(fd: int, parts: Sequence[memoryview]) -> int:
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writev(fd, [parts[0][: left.pop()]])

    used = spool.bytes_used
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        with pytest.raises(NoSpace, match="No space left on device"):
            log.append([packed({"n": 4})])
    assert spool.bytes_used == used == log.path.stat().st_size
    log.append([packed({"n": 5})])
    assert [document["n"] for document, _ in read(log.path)] == [1, 2, 3, 5]


def test_nothing_is_added_behind_a_part_that_the_disk_keeps(
    log: RecordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    writev = os.writev
    left = [5]

    def half(fd: int, parts: Sequence[memoryview]) -> int:
        if not left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return writev(fd, [parts[0][: left.pop()]])

    def unable(_fd: int, _size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", half)
        patched.setattr(os, "ftruncate", unable)
        with pytest.raises(Unavailable):
            log.append([packed({"n": 4})])
    with pytest.raises(Unavailable, match="nothing can be added"):
        log.append([packed({"n": 5})])
    assert read(log.path) == RECORDS
    log.clear()
    log.append([packed({"n": 6})])
    assert read(log.path) == [({"n": 6}, b"")]


def test_many_bytes_are_mapped_instead_of_being_copied(
    log: RecordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_BLOCK", 16)
    assert read(log.path) == RECORDS
    mapped = [isinstance(each.data.read("bytes"), np.memmap) for each in read_log(log.path)]
    assert mapped == [False, False, True]
    (*_, last) = read_log(log.path)
    with pytest.raises(ValueError, match="read-only"):
        last.data.read("bytes")[0] = 1


def test_bytes_of_which_a_part_is_gone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    data = FileData(path, 10, 20, None)
    path.write_bytes(bytes(30))
    data.check("bytes")
    path.write_bytes(bytes(29))
    with pytest.raises(SpoolError, match="damaged: another program has shortened it"):
        data.check("bytes")


@pytest.mark.parametrize("block", [1 << 20, 64, 5])
def test_records_behind_damage_are_found_wherever_they_begin(
    log: RecordFile, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(records, "_BLOCK", block)
    last = [record.stop for record in read_log(log.path)][-2]
    assert all(is_followed(log.path, at) for at in range(last))
    assert not any(is_followed(log.path, at) for at in range(last, log.size))
    os.truncate(log.path, log.size - 1)
    assert not is_followed(log.path, last)


def test_the_search_behind_damage_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for count, is_damaged in ((records._BEGINS_MAX - 1, False), (records._BEGINS_MAX, True)):
        path.write_bytes(b"." + records._MAGIC * count)
        assert is_followed(path, 0) == is_damaged


def test_what_was_taken_out_is_out_although_the_disk_does_not_say_that_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RecordFile(tmp_path / "log", waits=True)
    log.append([packed({"n": 1})])

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for call, change in (("fdatasync", log.clear), ("writev", lambda: log.append([packed({})]))):
        with monkeypatch.context() as patched:
            patched.setattr(os, call, failing)
            with pytest.raises(Unavailable):
                change()
    log.append([packed({"n": 2})])
    assert read(log.path) == [({"n": 2}, b"")]


def test_a_record_beyond_the_budget_is_refused_unless_it_must_be(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=100)
    log = RecordFile(spool.new_path("log"), spool.reserve)
    with pytest.raises(NoSpace, match="--max-spool-size"):
        log.append([packed({"n": 1}, np.zeros(100, np.uint8))])
    assert log.path.stat().st_size == spool.bytes_used == 0
    log.append([packed({"n": 1}, np.zeros(100, np.uint8))], always=True)
    assert len(read(log.path)) == 1


@pytest.mark.parametrize(("waits", "synced"), [(False, 0), (True, 2)])
def test_only_what_is_to_survive_a_power_failure_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool, synced: int
) -> None:
    log = RecordFile(tmp_path / "log", waits=waits)
    calls: list[int] = []
    monkeypatch.setattr(os, "fdatasync", calls.append)
    log.append([packed({"n": 1})])
    log.clear()
    assert len(calls) == synced
