"""Entries: files that hold bytes a store did not take, and say where those belong.

The bytes come first, so that they can be mapped, or read by anybody. Then comes what they are, as
JSON, and last an end of fixed size: a file that was torn lacks it, or its checksums are wrong.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import google_crc32c
import numpy as np

from nczfs.engine.spool.space import disk, sync_directory
from nczfs.errors import SpoolError

FORMAT: Final = 1
SUFFIX: Final = ".unsaved"
JSON_BYTES_MAX: Final = 16 << 20
SAVED_AT_MAX: Final = 1e11  # seconds; later ones no calendar has
_MAGIC: Final = b"nczspool"
_END: Final = struct.Struct("<QI8s")  # bytes of JSON, their CRC-32C, magic
_BLOCK: Final = 16 << 20


class Kind(Enum):
    """What the bytes of an entry are."""

    CHUNK = "chunk"
    OBJECT = "object"
    RENAME = "rename"  # has no bytes: what was under way


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the file, with its CRC-32C."""

    name: str
    offset: int
    size: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What an entry says of itself.

    Attributes
    ----------
    url : of what was mounted; without secrets.
    key : of the object, or of the array that the chunk is of, below that URL.
    reason : why it was not stored.
    details : what its kind has besides.
    """

    kind: Kind
    url: str
    key: str
    reason: str
    details: Mapping[str, Any]
    sections: tuple[Section, ...] = ()
    saved_at: float = field(default_factory=time.time)

    def section(self, name: str) -> Section | None:
        """A section by its name."""
        return next((section for section in self.sections if section.name == name), None)


def write_entry(
    path: Path, entry: Entry, sections: Sequence[tuple[str, np.ndarray[Any, Any]]]
) -> Path:
    """Write an entry; when this returns it survives a power failure.

    Parameters
    ----------
    path : of a file that is made, and gets its name, with `SUFFIX`, when it is whole.
    sections : names, and arrays in C order, of fixed-size elements.

    Returns
    -------
    the path that it has.
    """
    with disk(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        whole = _whole(path)
        try:
            found, offset = [], 0
            for name, array in sections:
                data = array.reshape(-1).view(np.uint8)
                _write_all(fd, data.data, offset)
                found.append(Section(name, offset, data.size, google_crc32c.value(data)))
                offset += data.size
            _end(path, fd, offset, entry, tuple(found))
            sync_directory(path.parent)
            return whole
        except BaseException:
            for each in (path, whole):
                each.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)


def seal(path: Path, fd: int, entry: Entry, sync: Callable[[], None] | None = None) -> Path:
    """Make an entry of a file whose bytes are all there, as the section "content".

    Parameters
    ----------
    sync : has the names in its directory survive a power failure; None: that takes a descriptor.
    """
    with disk(path):
        size = os.fstat(fd).st_size
        section = Section("content", 0, size, _crc_of(fd, 0, size))
        _end(path, fd, size, entry, (section,))
        if sync is None:
            sync_directory(path.parent)
        else:
            sync()
        return _whole(path)


def read_entry(path: Path) -> Entry:
    """What an entry says of itself. Raises SpoolError: it is torn, or none."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _END.size))
            end = file.read(_END.size)
            if len(end) < _END.size:
                raise SpoolError(f"{path}: torn: its end is missing")
            count, crc, magic = _END.unpack(end)
            if magic != _MAGIC or count > min(JSON_BYTES_MAX, size - _END.size):
                raise SpoolError(f"{path}: torn, or not a file of the spool")
            file.seek(size - _END.size - count)
            text = file.read(count)
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error}") from error
    if google_crc32c.value(text) != crc:
        raise SpoolError(f"{path}: torn: the checksum of its description is wrong")
    try:
        return _parsed(json.loads(text), size - _END.size - count)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SpoolError(f"{path}: its description cannot be understood: {error!r}") from error


def check_section(path: Path, section: Section) -> None:
    """Raises SpoolError: the bytes of a section are not what was written."""
    try:
        with open(path, "rb") as file:
            crc = _crc_of(file.fileno(), section.offset, section.size)
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error}") from error
    if crc != section.crc32c:
        raise SpoolError(f"{path}: damaged: the checksum of its {section.name} is wrong")


def read_section(path: Path, section: Section) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of a section. Raises SpoolError: they are not what was written."""
    check_section(path, section)
    try:
        if not section.size:
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r", section.offset, (section.size,))
    except OSError as error:
        raise SpoolError(f"{path}: cannot be read: {error}") from error


def _parsed(document: Any, bytes_before: int) -> Entry:
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r} instead of {FORMAT}")
    if not isinstance(document["sections"], list):
        raise TypeError("its sections are not a list")
    sections = tuple(Section(**section) for section in document["sections"])
    for section in sections:
        if not all(type(n) is int for n in (section.offset, section.size, section.crc32c)):
            raise TypeError(f"section {section.name!r} has no numbers")
        if not 0 <= section.offset <= section.offset + section.size <= bytes_before:
            raise ValueError(f"section {section.name!r} lies outside the file")
    saved_at = float(document["saved_at"])
    if not 0 <= saved_at < SAVED_AT_MAX:
        raise ValueError(f"{saved_at} is not a time")
    return Entry(
        Kind(document["kind"]),
        str(document["url"]),
        str(document["key"]),
        str(document["reason"]),
        dict(document["details"]),
        sections,
        saved_at,
    )


def _end(path: Path, fd: int, offset: int, entry: Entry, sections: tuple[Section, ...]) -> None:
    document = {
        "format": FORMAT,
        "kind": entry.kind.value,
        "url": entry.url,
        "key": entry.key,
        "reason": entry.reason,
        "saved_at": entry.saved_at,
        "details": entry.details,
        "sections": [asdict(section) for section in sections],
    }
    text = json.dumps(document).encode("ascii")
    _write_all(
        fd, memoryview(text + _END.pack(len(text), google_crc32c.value(text), _MAGIC)), offset
    )
    os.fsync(fd)
    os.rename(path, _whole(path))


def _whole(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.pwrite(fd, data, offset)
        data, offset = data[count:], offset + count


def _crc_of(fd: int, offset: int, size: int) -> int:
    crc = 0
    while size > 0:
        block = os.pread(fd, min(size, _BLOCK), offset)
        if not block:
            raise SpoolError("a file of the spool is shorter than its header says")
        crc = google_crc32c.extend(crc, block)
        offset, size = offset + len(block), size - len(block)
    return crc
