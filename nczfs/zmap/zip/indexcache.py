"""A disk cache of the indexes of large archives, for opening them again.

A SQLite database has a row for each archive: its columns as they are in memory. A row is valid if
its checksum is right, it belongs to the same version of the same archive, and the last bytes of
that archive have not changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from nczfs.zmap.zip.ends import End, ReadAt, find_end, read_tail
from nczfs.zmap.zip.index import MEMBER, Columns, ZipIndex, parse_index

try:  # a fifth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

log = logging.getLogger(__name__)

WORTH_BYTES: Final = 1 << 20  # smaller central directories are read in less than 50 ms
LIMIT_BYTES: Final = 1 << 30
FILE: Final = "indexes.sqlite"

_FORMAT: Final = 1  # of the columns; rows of another format are never found
_LOCKED_S: Final = 2.0
_PASSING: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG}
)
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS indexes (
    name TEXT PRIMARY KEY,
    used REAL NOT NULL,
    bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    top TEXT NOT NULL,
    dropped INTEGER NOT NULL,
    keys BLOB NOT NULL,
    key_ends BLOB NOT NULL,
    members BLOB NOT NULL,
    shadowed BLOB NOT NULL
) STRICT
"""


class IndexCache:
    """A database of indexes with a limit of bytes: the least recently used ones go first.

    Nothing here raises: an index that cannot be read or stored is rebuilt, and so is a damaged
    database. It is safe between processes.

    Parameters
    ----------
    directory : made if it is missing; ignored if all may write there.
    limit_bytes : of all indexes together.
    """

    def __init__(self, directory: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = Path(directory, FILE)
        self._limit_bytes = limit_bytes

    def load(self, identity: str, tail: bytes, end: End, top: str | None) -> ZipIndex | None:
        """Return the index of an archive, if it is stored and valid."""
        name = _name(identity, tail, end, top)
        with self._errors(), self._opened() as database:
            found = database.execute(
                "SELECT top, dropped, checksum, keys, key_ends, members, shadowed FROM indexes"
                " WHERE name = ?",
                (name,),
            ).fetchone()
            if found is None:
                return None
            top_found, dropped, checksum, *parts = found
            if (columns := _columns(parts, checksum, end.count)) is not None:
                database.execute("UPDATE indexes SET used = ? WHERE name = ?", (time.time(), name))
                return ZipIndex(end, columns, top=top_found, dropped=dropped)
            log.debug("%s: a damaged index", self._path)
            database.execute("DELETE FROM indexes WHERE name = ?", (name,))
        return None

    def keep(self, identity: str, tail: bytes, top: str | None, index: ZipIndex) -> None:
        """Store an index, if there is room."""
        parts = _parts(index.columns)
        size = sum(map(len, parts))
        if size > self._limit_bytes:
            return
        row = (_name(identity, tail, index.end, top), time.time(), size, _checksum(parts))
        with self._errors(), self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            self._make_room(database, size)
            database.execute(
                "INSERT OR REPLACE INTO indexes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, index.top, index.dropped, *parts),
            )

    def _make_room(self, database: sqlite3.Connection, size: int) -> None:
        found = database.execute("SELECT bytes, name FROM indexes ORDER BY used").fetchall()
        used = size + sum(nbytes for nbytes, _ in found)
        for nbytes, name in found:
            if used <= self._limit_bytes:
                return
            database.execute("DELETE FROM indexes WHERE name = ?", (name,))
            used -= nbytes

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the database for one transaction."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_own(self._path)
        database = sqlite3.connect(self._path, timeout=_LOCKED_S, isolation_level=None)
        with contextlib.closing(database):
            database.execute("PRAGMA page_size = 65536")  # columns are long
            database.execute("PRAGMA auto_vacuum = FULL")
            database.execute("PRAGMA synchronous = OFF")  # what a crash damages is rebuilt
            database.execute(_TABLE)
            yield database
            if database.in_transaction:
                database.execute("COMMIT")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF in _PASSING:
                log.debug("%s: not used: %s", self._path, error)
                return
            log.debug("%s: rebuilt: %s", self._path, error)
            with contextlib.suppress(OSError):
                self._path.unlink()
        except OSError as error:
            log.debug("%s: not used: %s", self._path, error)


def load_index(
    read_at: ReadAt,
    size: int,
    *,
    top: str | None,
    identity: str,
    cache: IndexCache | None,
) -> ZipIndex:
    """Read an index as `read_index` does, using a cache for large central directories.

    Parameters
    ----------
    identity : of this version of the archive.
    """
    tail_start, tail = read_tail(read_at, size)
    end = find_end(tail, tail_start, read_at)
    if cache is None or end.stop - end.start < WORTH_BYTES:
        return parse_index(read_at, end, tail_start, tail, top=top)
    found = cache.load(identity, tail, end, top)
    if found is None:
        found = parse_index(read_at, end, tail_start, tail, top=top)
        cache.keep(identity, tail, top, found)
    return found


def default_directory() -> str:
    """Return the directory of the cache by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "nczfs", "zip-index")


def _check_own(path: Path) -> None:
    """Make sure that a file is there that only this user can have written."""
    if path.parent.stat().st_mode & stat.S_IWOTH:
        raise PermissionError("others may write in the directory of the cache")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError("not a regular file")
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        path.unlink()
        raise PermissionError("others may have written it")


def _name(identity: str, tail: bytes, end: End, top: str | None) -> str:
    """Return the name of an index, which is another one for any other archive."""
    text = json.dumps([_FORMAT, identity, zlib.crc32(tail), repr(end), top])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _parts(columns: Columns) -> tuple[memoryview, ...]:
    return (
        memoryview(columns.keys),
        columns.key_ends.view(np.uint8).data,
        np.ascontiguousarray(columns.members).view(np.uint8).data,
        columns.shadowed.view(np.uint8).data,
    )


def _checksum(parts: Sequence[memoryview | bytes]) -> int:
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    return checksum


def _columns(parts: list[Any], checksum: int, count_max: int) -> Columns | None:
    """Return the columns of an index; None if they are damaged."""
    keys, key_ends, members, shadowed = parts
    count, rest = divmod(len(members), MEMBER.itemsize)
    if rest or len(key_ends) != 8 * (count + 1) or len(shadowed) % 4 or count > count_max:
        return None
    if _checksum(parts) != checksum:
        return None
    ends = np.frombuffer(key_ends, np.uint64)
    if ends[0] != 0 or ends[-1] != len(keys) or bool((ends[1:] < ends[:-1]).any()):
        return None
    columns = Columns(keys, ends, np.frombuffer(members, MEMBER), np.frombuffer(shadowed, "u4"))
    if count and int(columns.members["row"].max()) >= count_max:
        return None
    return columns
