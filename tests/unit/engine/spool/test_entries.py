"""Entries: what was written comes back, or is refused; nothing in between."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

from nczfs.engine.spool.entries import (
    SUFFIX,
    Entry,
    Kind,
    read_entry,
    read_section,
    seal,
    write_entry,
)
from nczfs.errors import NoSpace, SpoolError, Unavailable

VALUES = np.arange(5, dtype="<i4")
FLAGS = np.array([0b10100000], np.uint8)
ENTRY = Entry(Kind.CHUNK, "memory://é", "a/\udcff b", "no way", {"index": [1]}, saved_at=12.5)


def written(directory: Path) -> Path:
    return write_entry(directory / "1-v", ENTRY, [("values", VALUES), ("flags", FLAGS)])


def sections_of(path: Path) -> dict[str, bytes]:
    return {s.name: read_section(path, s).tobytes() for s in read_entry(path).sections}


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path == tmp_path / f"1-v{SUFFIX}"
    assert os.listdir(tmp_path) == [path.name]
    found = read_entry(path)
    assert (found.kind, found.url, found.key, found.reason, found.details, found.saved_at) == (
        (Kind.CHUNK, "memory://é", "a/\udcff b", "no way", {"index": [1]}, 12.5)
    )
    assert sections_of(path) == {"values": VALUES.tobytes(), "flags": FLAGS.tobytes()}
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_entry_without_bytes_comes_back(tmp_path: Path) -> None:
    path = write_entry(tmp_path / "1", ENTRY, [("values", np.empty(0, "<i4"))])
    assert sections_of(path) == {"values": b""}


def test_a_file_becomes_an_entry_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "1"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"content")
    whole = seal(path, fd, ENTRY)
    os.close(fd)
    assert sections_of(whole) == {"content": b"content"}


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
                sections_of(path)


def test_bytes_behind_the_end_are_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(SpoolError):
        read_entry(path)


def test_bytes_that_vanish_between_looking_and_reading_are_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    section = read_entry(path).sections[0]
    path.write_bytes(b"short")
    with pytest.raises(SpoolError):
        read_section(path, section)


def described(directory: Path, text: bytes) -> Path:
    """An entry whose description somebody else has written, with the right checksum."""
    path = directory / f"1{SUFFIX}"
    end = struct.pack("<QI8s", len(text), google_crc32c.value(text), b"nczspool")
    path.write_bytes(bytes(100) + text + end)
    return path


GOOD: dict[str, Any] = {
    "format": 1,
    "kind": "chunk",
    "url": "u",
    "key": "k",
    "reason": "r",
    "saved_at": 1.0,
    "details": {},
    "sections": [{"name": "values", "offset": 0, "size": 100, "crc32c": 0}],
}
SECTION = GOOD["sections"][0]


@pytest.mark.parametrize(
    "document",
    [
        [],
        None,
        GOOD | {"format": 2},
        GOOD | {"kind": "cake"},
        GOOD | {"details": 3},
        GOOD | {"saved_at": "now"},
        GOOD | {"saved_at": float("inf")},
        GOOD | {"saved_at": 1e300},
        GOOD | {"sections": {}},
        GOOD | {"sections": [3]},
        GOOD | {"sections": [SECTION | {"size": 101}]},
        GOOD | {"sections": [SECTION | {"offset": -1}]},
        GOOD | {"sections": [SECTION | {"size": -1}]},
        GOOD | {"sections": [SECTION | {"size": 1.5}]},
        GOOD | {"sections": [SECTION | {"crc32c": "x"}]},
        GOOD | {"sections": [SECTION | {"more": 1}]},
        {name: value for name, value in GOOD.items() if name != "key"},
    ],
)
def test_a_description_that_makes_no_sense_is_refused(tmp_path: Path, document: object) -> None:
    path = described(tmp_path, json.dumps(GOOD).encode())
    assert read_entry(path).key == "k"
    path = described(tmp_path, json.dumps(document).encode())
    if document == []:
        described(tmp_path, b"[" * 100_000)
    with pytest.raises(SpoolError):
        read_entry(path)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpoolError):
        read_entry(tmp_path / "absent")
    (tmp_path / "emptied").touch()
    with pytest.raises(SpoolError, match="emptied: torn: its end is missing"):
        read_entry(tmp_path / "emptied")


@pytest.mark.parametrize(
    ("call", "skipped"), [("pwrite", 0), ("pwrite", 2), ("fsync", 0), ("fsync", 1), ("rename", 0)]
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
    with pytest.raises(expected, match="--spool-dir"):
        written(tmp_path)
    assert os.listdir(tmp_path) == []
