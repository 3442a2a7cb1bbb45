"""Logs: files to which records are appended, and of which a torn end is not read.

A record is a head (magic, the sizes of what follows, a CRC-32C over both sizes and all of it), a
JSON document, and bytes.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import google_crc32c
import numpy as np

from nczfs.engine.spool.space import Spool, Survives, disk
from nczfs.errors import NczfsError, SpoolError, Unavailable

_MAGIC: Final = b"nczj"
_SIZES: Final = struct.Struct("<IQ")  # of the document, of the bytes
_CRC: Final = struct.Struct("<I")
_HEAD_BYTES: Final = len(_MAGIC) + _SIZES.size + _CRC.size

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read; `stop` is where it ends in its log."""

    document: dict[str, Any]
    data: Bytes
    stop: int


def packed(document: Mapping[str, Any], data: Bytes | None = None) -> list[bytes | memoryview]:
    """A record as it stands in a log."""
    text = json.dumps(document, separators=(",", ":")).encode("ascii")
    sizes = _SIZES.pack(len(text), 0 if data is None else data.size)
    crc = google_crc32c.value(sizes + text)
    if data is None or not data.size:
        return [_MAGIC + sizes + _CRC.pack(crc) + text]
    crc = google_crc32c.extend(crc, data)
    return [_MAGIC + sizes + _CRC.pack(crc) + text, data.data]


def read_log(path: Path) -> Iterator[Record]:
    """The records of a log, up to the first that is not whole. Raises SpoolError."""
    try:
        size = path.stat().st_size
        content = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error}") from error
    stop = 0
    while (record := _record_at(content, stop)) is not None:
        yield record
        stop = record.stop


def _record_at(content: Bytes, start: int) -> Record | None:
    begin = start + _HEAD_BYTES
    head = content[start:begin].tobytes()
    if len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
        return None
    sizes, crc = head[len(_MAGIC) : -_CRC.size], head[-_CRC.size :]
    text_size, data_size = _SIZES.unpack(sizes)
    middle, stop = begin + text_size, begin + text_size + data_size
    if stop > content.size:
        return None
    found = google_crc32c.extend(google_crc32c.value(sizes), content[begin:stop])
    if _CRC.pack(found) != crc:
        return None
    try:
        document = json.loads(content[begin:middle].tobytes())
    except (ValueError, RecursionError):
        return None
    return Record(document, content[middle:stop], stop) if isinstance(document, dict) else None


class Log:
    """A log that is being written. Its user sees to it that calls are single.

    Its bytes count in the budget of the spool. What `append` has taken survives the death of this
    process, and a power failure where the spool is to survive that.

    Parameters
    ----------
    path : of a file that is made.
    """

    def __init__(self, spool: Spool, path: Path) -> None:
        self.path = path
        self.size = 0
        self._spool = spool
        self._waits = spool.survives is Survives.POWER
        self._reserved = 0
        self._is_broken = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        with disk(path):
            self._fd = os.open(path, flags, 0o600)
        if self._waits:
            spool.sync()

    def append(self, records: Sequence[list[bytes | memoryview]], *, always: bool = False) -> None:
        """Append records, all or none.

        Parameters
        ----------
        always : whether there is room in the budget or not.

        Raises
        ------
        NoSpace, Unavailable : they are not there.
        """
        parts = [memoryview(part) for record in records for part in record]
        count = sum(part.nbytes for part in parts)
        self._spool.reserve(count, always=always)
        try:
            self._write(parts)
        except NczfsError:
            self._spool.reserve(-count)
            raise
        self._reserved += count
        self.size += count

    def clear(self) -> None:
        """Take all records out."""
        with disk(self.path):
            os.ftruncate(self._fd, 0)
            if self._waits:
                os.fdatasync(self._fd)
        self.size, self._is_broken = 0, False
        self._free()

    def remove(self) -> None:
        """Remove the file."""
        self.close()
        with disk(self.path):
            os.unlink(self.path)
        if self._waits:
            self._spool.sync()

    def close(self) -> None:
        """Leave the file as it is."""
        os.close(self._fd)
        self._free()

    def _write(self, parts: list[memoryview]) -> None:
        if self._is_broken:
            raise Unavailable(f"{self.path}: nothing can be added, because the disk refused a part")
        with disk(self.path):
            try:
                while parts:
                    parts = _after(parts, os.writev(self._fd, parts))
                if self._waits:
                    os.fdatasync(self._fd)
            except OSError:
                # What came after half a record would never be read.
                self._is_broken = True
                os.ftruncate(self._fd, self.size)
                self._is_broken = False
                raise

    def _free(self) -> None:
        self._spool.reserve(-self._reserved)
        self._reserved = 0


def _after(parts: list[memoryview], count: int) -> list[memoryview]:
    """What is left of some buffers behind their first bytes."""
    for i, part in enumerate(parts):
        if count < part.nbytes:
            return [part[count:], *parts[i + 1 :]]
        count -= part.nbytes
    return []
