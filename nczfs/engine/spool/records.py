"""Records: the one format of the spool. Files have one after the other; a torn end is not read.

A record is a head (magic, the sizes of what follows, the CRC-32C of the bytes, and one of all this
and the document), a JSON document, and bytes.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import google_crc32c
import numpy as np

from nczfs.engine.spool.disk import disk
from nczfs.errors import NczfsError, SpoolError, Unavailable
from nczfs.plaindata import frozen

DOCUMENT_BYTES_MAX: Final = 16 << 20
_MAGIC: Final = b"ncz2"
_SIZES: Final = struct.Struct("<IQI")  # of the document, of the bytes; the CRC of the bytes
_CRC: Final = struct.Struct("<I")
_HEAD_BYTES: Final = len(_MAGIC) + _SIZES.size + _CRC.size
_ALIGNED: Final = 64  # where bytes begin that are mapped
_BLOCK: Final = 16 << 20
_BEGINS_MAX: Final = 1000  # of records, to be looked at behind damage
_PARTS_MAX: Final = os.sysconf("SC_IOV_MAX")  # that the kernel takes in one call

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Packed = Sequence[bytes | memoryview]


@frozen
class FileData:
    """Bytes in a file of the spool.

    Attributes
    ----------
    crc32c : of the bytes; None: not known.
    """

    path: Path
    offset: int
    size: int
    crc32c: int | None

    def check(self, what: str) -> None:
        """Raise SpoolError if they are not what was written; `what` names them in the message."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self.offset + self.size:
                    raise SpoolError(f"{self.path}: damaged: another program has shortened it")
                found = None if self.crc32c is None else crc_of(file.fileno(), self)
        except OSError as error:
            raise SpoolError(f"{self.path}: cannot be read: {error}") from error
        if found != self.crc32c:
            raise SpoolError(f"{self.path}: damaged: the checksum of its {what} is wrong")

    def read(self, what: str) -> Bytes:
        """Read the bytes. Raises SpoolError: they are not what was written."""
        self.check(what)
        try:
            if self.size > _BLOCK:
                return np.memmap(self.path, np.uint8, "r", self.offset, (self.size,))
            return np.fromfile(self.path, np.uint8, self.size, offset=self.offset)
        except OSError as error:
            raise SpoolError(f"{self.path}: cannot be read: {error}") from error


@frozen
class Record:
    """A record that was read; `stop` is where it ends in its file."""

    document: dict[str, Any]
    data: FileData
    stop: int


def packed(
    document: Mapping[str, Any], data: Bytes | None = None, at: int | None = None
) -> list[bytes | memoryview]:
    """Return a record as it is in a file.

    Parameters
    ----------
    at : where the record will begin, for those who map its bytes: they are aligned.
    """
    text = json.dumps(document, separators=(",", ":")).encode("ascii")
    if at is not None:
        text += b" " * (-(at + _HEAD_BYTES + len(text)) % _ALIGNED)
    count, crc = (
        (data.size, google_crc32c.value(data)) if data is not None and data.size else (0, 0)
    )
    sizes = _SIZES.pack(len(text), count, crc)
    head = _MAGIC + sizes + _CRC.pack(google_crc32c.value(sizes + text)) + text
    return [head, data.data] if data is not None and data.size else [head]


def size_of(record: Packed) -> int:
    """Return the bytes that a record takes."""
    return sum(memoryview(part).nbytes for part in record)


def read_log(path: Path, *, unchecked: bool = False) -> Iterator[Record]:
    """Read the records of a file, up to the first incomplete one.

    Parameters
    ----------
    unchecked : the bytes of records may be damaged, and are not read.

    Raises
    ------
    SpoolError : the file cannot be read.
    """
    stop = 0
    try:
        with open(path, "rb") as file:
            while (record := _record_at(file.fileno(), path, stop)) is not None:
                if not (unchecked or crc_of(file.fileno(), record.data) == record.data.crc32c):
                    return
                yield record
                stop = record.stop
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error}") from error


def is_followed(path: Path, stop: int) -> bool:
    """Return whether a whole record begins somewhere behind a place of a file. Raises OSError.

    Nothing follows what was torn when a process was killed: another program, or the disk, has
    damaged what stands there. So it has where very many records seem to begin.
    """
    at, overlap, tried = stop + 1, len(_MAGIC) - 1, 0
    with open(path, "rb") as file:
        while len(block := os.pread(file.fileno(), _BLOCK, at)) > overlap:
            found = -1
            while (found := block.find(_MAGIC, found + 1)) >= 0:
                tried += 1
                is_record = _record_at(file.fileno(), path, at + found) is not None
                if is_record or tried == _BEGINS_MAX:
                    return True
            at += len(block) - overlap
    return False


def _record_at(fd: int, path: Path, start: int) -> Record | None:
    head = os.pread(fd, _HEAD_BYTES, start)
    if len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
        return None
    sizes = head[len(_MAGIC) : -_CRC.size]
    text_size, data_size, data_crc = _SIZES.unpack(sizes)
    begin = start + _HEAD_BYTES
    stop = begin + text_size + data_size
    if text_size > DOCUMENT_BYTES_MAX or stop > os.fstat(fd).st_size:
        return None
    text = os.pread(fd, text_size, begin)
    if _CRC.pack(google_crc32c.value(sizes + text)) != head[-_CRC.size :]:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    return Record(document, FileData(path, begin + text_size, data_size, data_crc), stop)


def crc_of(fd: int, data: FileData) -> int | None:
    """Return the CRC-32C of bytes of an open file; None: it is too short."""
    crc, offset, size = 0, data.offset, data.size
    while size > 0:
        block = os.pread(fd, min(size, _BLOCK), offset)
        if not block:
            return None
        crc = google_crc32c.extend(crc, block)
        offset, size = offset + len(block), size - len(block)
    return crc


def free(count: int, *, always: bool = False) -> None:
    """Take bytes of no budget."""


class RecordFile:
    """A file to which records are appended. Its user sees to it that calls are single.

    What `append` has taken survives the death of this process.

    Parameters
    ----------
    path : of a file that is made.
    reserve : takes bytes of a budget, and gives them back.
    waits : what `append` has taken survives a power failure, too.
    """

    def __init__(
        self, path: Path, reserve: Callable[..., None] = free, *, waits: bool = False
    ) -> None:
        self.path = path
        self.size = 0
        self._reserve = reserve
        self._waits = waits
        self._reserved = 0
        self._is_broken = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        with disk(path):
            self._fd = os.open(path, flags, 0o600)

    def append(self, records: Sequence[Packed], *, always: bool = False) -> None:
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
        self._reserve(count, always=always)
        try:
            self._write(parts)
        except NczfsError:
            self._reserve(-count)
            raise
        self._reserved += count
        self.size += count

    def sync(self) -> None:
        """Make its contents survive a power failure."""
        with disk(self.path):
            os.fsync(self._fd)

    def clear(self) -> None:
        """Take all records out. Raises Unavailable: they may be there after a power failure."""
        with disk(self.path):
            os.ftruncate(self._fd, 0)
            self.size, self._is_broken = 0, False
            self._free()
            if self._waits:
                os.fdatasync(self._fd)

    def remove(self) -> None:
        """Remove the file. Raises Unavailable: it is as before."""
        with disk(self.path):
            os.unlink(self.path)
        self.close()

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
                    parts = _after(parts, os.writev(self._fd, parts[:_PARTS_MAX]))
                if self._waits:
                    os.fdatasync(self._fd)
            except OSError:
                # What came after half a record would never be read.
                self._is_broken = True
                os.ftruncate(self._fd, self.size)
                self._is_broken = False
                raise

    def _free(self) -> None:
        self._reserve(-self._reserved)
        self._reserved = 0


def _after(parts: list[memoryview], count: int) -> list[memoryview]:
    """Return the rest of some buffers after their first bytes."""
    for i, part in enumerate(parts):
        if count < part.nbytes:
            return [part[count:], *parts[i + 1 :]]
        count -= part.nbytes
    return []
