"""Entries in files of their own: what was written comes back, or is refused; nothing in between."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.spool import entries
from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.chunks import SENDING, KeptChunk
from nczfs.engine.spool.contents import read_entry
from nczfs.engine.spool.entries import add_record, copied, heading, read_records, write_records
from nczfs.engine.spool.records import Record, packed, read_log
from nczfs.engine.spool.space import SUFFIX
from nczfs.errors import NoSpace, SpoolError, Unavailable

VALUES = np.arange(5, dtype="<i4").view(np.uint8)
FLAGS = np.array([0b10100000], np.uint8)
DOCUMENT: dict[str, Any] = {
    "is": "chunk",
    **heading("memory://é", "a/\udcff b", "no way"),
    "index": [0],
    "unit": [0],
    "origin": [0],
    "shape": [5],
    "chunk_shape": [5],
    "typestr": "<i4",
    "codecs": "",
}


def written(directory: Path, document: dict[str, Any] = DOCUMENT) -> Path:
    records = [packed(document, FLAGS), packed({"is": "values"}, VALUES)]
    return write_records(directory / "1-v", records)


def bytes_of(path: Path) -> list[bytes]:
    return [record.data.read("bytes").tobytes() for record in read_records(path)]


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path == tmp_path / f"1-v{SUFFIX}"
    assert os.listdir(tmp_path) == [path.name]
    assert bytes_of(path) == [FLAGS.tobytes(), VALUES.tobytes()]
    found = read_entry(path)
    assert (found.url, found.key, found.reason) == ("memory://é", "a/\udcff b", "no way")
    assert found.saved_at == DOCUMENT["saved_at"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_bytes_that_are_mapped_begin_where_they_can_be(tmp_path: Path) -> None:
    first = packed(DOCUMENT, FLAGS)
    size = sum(len(part) for part in first)
    path = write_records(tmp_path / "1", [first, packed({}, VALUES, at=size)])
    assert [record.data.offset % 64 for record in read_records(path)][1] == 0


def test_a_file_that_was_torn_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(SpoolError):
            read_entry(path)


def test_a_bit_that_flipped_anywhere_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    for position in range(len(data)):
        for bit in range(8):
            path.write_bytes(
                data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]
            )
            with pytest.raises(SpoolError):
                bytes_of(path)


def test_what_was_added_later_is_left_out_where_it_is_torn(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.stat().st_size
    attempt = Sent(3, 5, ((0, 3),))
    add_record(path, packed({"is": SENDING, "sent": attempt.document(), "is_whole": True}))
    data = path.read_bytes()
    for size in range(whole, len(data) + 1):
        path.write_bytes(data[:size])
        entry = read_entry(path)
        assert isinstance(entry, KeptChunk)
        assert entry.done_by == ((attempt,) if size == len(data) else ())
    path.write_bytes(data[:whole] + bytes(100))  # as a power failure leaves it
    read_entry(path)


def test_where_a_full_disk_takes_a_part_of_what_is_added_the_entry_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = written(tmp_path), os.write
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        with pytest.raises(NoSpace, match=r"1-v\.unsaved: .* --spool-dir"):
            add_record(path, packed({"is": SENDING}, VALUES))
    assert path.read_bytes() == before
    add_record(path, packed({"is": SENDING}, VALUES))
    assert bytes_of(path)[2] == VALUES.tobytes()


def test_an_entry_is_named_before_its_bytes_are_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    entry = read_entry(path)
    assert isinstance(entry, KeptChunk)
    assert entry.describe() == "[0:3]: 2 of 3 elements"
    with pytest.raises(SpoolError, match="checksum"):
        entry.values(np.dtype("<i4"))


def test_an_entry_that_its_mount_removes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(path: Path, **named: Any) -> list[Record]:
        found = [*read_log(path, **named)]
        path.unlink()
        return found

    monkeypatch.setattr(entries, "read_log", removed)
    with pytest.raises(SpoolError, match="incomplete"):
        read_entry(written(tmp_path))


def test_a_copy_has_the_bytes_of_one_record_alone(tmp_path: Path) -> None:
    path = written(tmp_path)
    flags = read_records(path)[0].data
    assert copied(flags, tmp_path / "copy").read_bytes() == FLAGS.tobytes()


def test_bytes_that_vanish_between_looking_and_reading_are_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = read_records(path)[0].data
    path.write_bytes(b"short")
    with pytest.raises(SpoolError):
        data.read("flags")


@pytest.mark.parametrize(
    "changes",
    [
        {"is": "cake"},
        {"is": None},
        {"is": "log"},
        {"saved_at": "now"},
        {"saved_at": float("inf")},
        {"saved_at": 1e300},
        {"saved_at": -1},
        {"saved_at": 1e11},
        {"index": 3},
        {"versions": 3},
        {"written_ns": "now"},
        {"sent": [[1, 2]]},
    ],
    ids=str,
)
def test_a_description_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(SpoolError, match="cannot be understood"):
        read_entry(written(tmp_path, DOCUMENT | changes))


def test_an_entry_may_be_as_old_as_any_time(tmp_path: Path) -> None:
    """The clock of a machine may begin in 1970."""
    assert read_entry(written(tmp_path, DOCUMENT | {"saved_at": 0})).saved_at == 0


@pytest.mark.parametrize("name", DOCUMENT)
def test_a_description_that_lacks_something_is_refused(tmp_path: Path, name: str) -> None:
    document = {known: value for known, value in DOCUMENT.items() if known != name}
    with pytest.raises(SpoolError, match="cannot be understood"):
        read_entry(written(tmp_path, document))


def test_an_entry_of_other_records_than_its_own_is_refused(tmp_path: Path) -> None:
    first = packed(DOCUMENT, FLAGS)
    for number, rest in enumerate(([], [packed({"is": "cake"})], [first, first], [packed({})])):
        path = write_records(tmp_path / f"{number}", [first, *rest])
        with pytest.raises(SpoolError, match="cannot be understood"):
            read_entry(path)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpoolError):
        read_entry(tmp_path / "absent")
    (tmp_path / "emptied").touch()
    with pytest.raises(SpoolError, match="emptied: incomplete"):
        read_entry(tmp_path / "emptied")


@pytest.mark.parametrize(
    ("call", "skipped"), [("writev", 0), ("fsync", 0), ("fsync", 1), ("rename", 0)]
)
@pytest.mark.parametrize(
    ("number", "expected"), [(errno.ENOSPC, NoSpace), (errno.EIO, Unavailable)]
)
def test_where_the_disk_fails_nothing_is_left_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    skipped: int,
    number: int,
    expected: type[Exception],
) -> None:
    original, calls = getattr(os, call), iter(range(100))

    def fail(*arguments: Any) -> Any:
        if next(calls) == skipped:
            raise OSError(number, os.strerror(number))
        return original(*arguments)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(expected, match=r"1-v: .* --spool-dir"):
        written(tmp_path)
    assert os.listdir(tmp_path) == []
