"""A file with what earlier verifications found sound, so that it is not read again."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from nczfs.errors import NczfsError, UsageError

COMMIT_EVERY_S = 1.0
_FORMAT = "nczfs verify 1"
_MARK_BYTES = 16


def mark_of(*parts: str) -> bytes:
    """Return a digest of what was read: another array, key or version has another digest."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=_MARK_BYTES).digest()


class VerifyState:
    """Marks of what is sound, and digests by mark, in a database file.

    An interruption, even a crash of the process, costs the work of the last second. Only sound
    chunks are marked: broken ones are checked and reported again. For use by one thread.

    Parameters
    ----------
    path : of the file, which is made if it is missing.
    subject : the name of what is verified; a file belongs to one subject.

    Raises
    ------
    UsageError : the file is not a state file, or belongs to another subject.
    """

    def __init__(self, path: str | os.PathLike[str], subject: str) -> None:
        self._path = os.fspath(path)
        directory = os.path.dirname(os.path.abspath(self._path))
        if not os.path.isdir(directory):
            raise UsageError(f"--resume {self._path}: there is no directory {directory}")
        with self._translated():
            self._database = sqlite3.connect(self._path, isolation_level=None)
            try:
                self._prepare(subject)
            except BaseException:
                self._database.close()
                raise
        self._committed_at = time.monotonic()

    def __enter__(self) -> VerifyState:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def is_sound(self, mark: bytes) -> bool:
        """Return whether this run or an earlier one marked it."""
        with self._translated():
            found = self._database.execute("SELECT 1 FROM sound WHERE mark = ?", (mark,))
            return found.fetchone() is not None

    def add_sound(self, mark: bytes) -> None:
        """Mark something as read and found sound."""
        with self._translated():
            self._database.execute("INSERT OR IGNORE INTO sound VALUES (?)", (mark,))
            if time.monotonic() - self._committed_at >= COMMIT_EVERY_S:
                self._commit()

    def digest(self, mark: bytes) -> str | None:
        """Return the digest that was stored under a mark."""
        with self._translated():
            found = self._database.execute("SELECT digest FROM digests WHERE mark = ?", (mark,))
            row = found.fetchone()
        return str(row[0]) if row is not None else None

    def add_digest(self, mark: bytes, digest: str) -> None:
        """Store a digest."""
        with self._translated():
            self._database.execute("INSERT OR REPLACE INTO digests VALUES (?, ?)", (mark, digest))
            self._commit()

    def close(self) -> None:
        """Write pending marks and digests, and close the file."""
        with self._translated():
            if self._database.in_transaction:
                self._database.execute("COMMIT")
            self._database.close()

    def _commit(self) -> None:
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")
        self._committed_at = time.monotonic()

    def _prepare(self, subject: str) -> None:
        run = self._database.execute
        run("PRAGMA synchronous = NORMAL")
        run("BEGIN IMMEDIATE")
        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            run("CREATE TABLE about (format TEXT NOT NULL, subject TEXT NOT NULL)")
            run("CREATE TABLE sound (mark BLOB PRIMARY KEY) WITHOUT ROWID")
            run("CREATE TABLE digests (mark BLOB PRIMARY KEY, digest TEXT) WITHOUT ROWID")
            run("INSERT INTO about VALUES (?, ?)", (_FORMAT, subject))
        elif "about" not in tables:
            raise self._foreign()
        found = run("SELECT format, subject FROM about").fetchone()
        if found is None or found[0] != _FORMAT:
            raise self._foreign()
        if found[1] != subject:
            raise UsageError(
                f"--resume {self._path}: it belongs to a verification of {found[1]}; name another "
                "file"
            )
        run("COMMIT")
        run("BEGIN")

    def _foreign(self) -> UsageError:
        return UsageError(
            f"--resume {self._path}: not a state file of nczfs verify; name another file"
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise NczfsError(f"--resume {self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._foreign() from error
