"""Entries: what a store did not take, and can be given again. What all kinds have in common."""

from __future__ import annotations

import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict

from nczfs.engine.spool.basis import BLOCK_BYTES
from nczfs.engine.spool.disk import disk, sync_directory
from nczfs.engine.spool.records import FileData, Packed, Record, RecordFile, read_log
from nczfs.engine.spool.space import SUFFIX
from nczfs.errors import SpoolError
from nczfs.plaindata import frozen

KILLED: Final = "the mount was killed before it was stored"
SAVED_AT_MAX: Final = 1e11  # seconds; later ones no calendar has


@frozen(kw_only=True)
class SpoolEntry(ABC):
    """What can be put back.

    Attributes
    ----------
    kind : what it is, in words.
    url : of what was mounted; without secrets.
    key : of the object, or of the array that the chunk is of, below that URL.
    reason : why it was not stored.
    saved_at : when it was put into the spool; seconds since 1970.
    files : are its own, and go with it.
    voiding : what the log says once it is stored; None: it says nothing of it but by its files.
    """

    kind: ClassVar[str]

    url: str
    key: str
    reason: str
    saved_at: float
    files: tuple[Path, ...] = ()
    voiding: Mapping[str, Any] | None = None

    @property
    def written_ns(self) -> int:
        """When the first of it was written, since 1970."""
        return int(self.saved_at * 1e9)

    @abstractmethod
    def describe(self) -> str:
        """Describe what it has of its key. Raises SpoolError."""

    @abstractmethod
    def export(self, path: Path) -> Path:
        """Write what it has to a new file, whose name may get a suffix. Raises SpoolError."""


class Heading(TypedDict):
    """What the document of each entry begins with."""

    url: str
    key: str
    reason: str
    saved_at: float


def heading(url: str, key: str, reason: str) -> Heading:
    """Return the heading of a new entry."""
    return {"url": url, "key": key, "reason": reason, "saved_at": time.time()}


def heading_of(document: Mapping[str, Any]) -> Heading:
    """Parse the heading of an entry. Raises KeyError, TypeError, ValueError."""
    url, key, reason = (str(document[name]) for name in ("url", "key", "reason"))
    return {"url": url, "key": key, "reason": reason, "saved_at": time_of(document["saved_at"])}


def time_of(value: Any) -> float:
    """Parse a time in seconds since 1970. Raises TypeError, ValueError."""
    if not 0 <= float(value) < SAVED_AT_MAX:
        raise ValueError(f"{value} is not a time")
    return float(value)


def write_records(path: Path, records: Sequence[Packed]) -> Path:
    """Write an entry that has a file of its own; when this returns it survives a power failure.

    Parameters
    ----------
    path : of a file that is made, and gets its name, with `SUFFIX`, when it is whole.

    Returns
    -------
    the path that it has.
    """
    whole = path.with_name(path.name + SUFFIX)
    file = RecordFile(path)
    try:
        with disk(path):
            file.append(records)
            file.sync()
            os.rename(path, whole)
            sync_directory(path.parent)
        return whole
    except BaseException:
        for each in (path, whole):
            each.unlink(missing_ok=True)
        raise
    finally:
        file.close()


def add_record(path: Path, record: Packed, *, durable: bool = False) -> None:
    """Add a record to an entry that has a file of its own; it survives the death of this process.

    Parameters
    ----------
    durable : it survives a power failure, too.

    Raises
    ------
    NoSpace, OutOfDescriptors, Unavailable : it is not there.
    """
    data = b"".join(record)
    with disk(path):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if os.write(fd, data) < len(data):
                os.ftruncate(fd, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)


def read_records(path: Path, least: int | None = None) -> list[Record]:
    """Read the records of an entry without their bytes. Raises SpoolError: it is torn.

    Parameters
    ----------
    least : how many it had at first; what was added later may be torn, and is left out then. None:
        nothing was.
    """
    records = list(read_log(path, unchecked=True))
    with suppress(FileNotFoundError):  # its mount lives
        is_whole = records and records[-1].stop == path.stat().st_size
        if is_whole or (least is not None and len(records) >= least):
            return records
    raise SpoolError(f"{path}: incomplete, or not a spool file of this version")


def copied(data: FileData, path: Path) -> Path:
    """Copy bytes of the spool to a new file, block by block."""
    with open(data.path, "rb") as source, open(path, "xb") as file:
        at, stop = data.offset, data.offset + data.size
        while block := os.pread(source.fileno(), min(BLOCK_BYTES, stop - at), at):
            file.write(block)
            at += len(block)
    return path
