"""What an earlier verification found sound, in a file, so that it is not read again."""

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
    """A digest of what was read: another array, key or version gives another one."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=_MARK_BYTES).digest()


class VerifyState:
    """Marks of what is sound, and digests by mark, in a database of one file.

    An interruption, a crash of the process too, costs the work of the last second. Only sound
    chunks are marked: what was wrong is looked at, and told, again. For use by one thread.

    Parameters
    ----------
    path : of the file; made when it is not there.
    subject : name of what is verified; a file knows one.

    Raises
    ------
    UsageError : the file is not one of ours, or of something else that was verified.
    """

    def __init__(self, path: str | os.PathLike[str], subject: str) -> None:
        self._path = os.fspath(path)
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
        """Whether an earlier run, or this one, marked it."""
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
        """The digest that was kept under a mark."""
        with self._translated():
            found = self._database.execute("SELECT digest FROM digests WHERE mark = ?", (mark,))
            row = found.fetchone()
        return str(row[0]) if row is not None else None

    def add_digest(self, mark: bytes, digest: str) -> None:
        """Keep a digest."""
        with self._translated():
            self._database.execute("INSERT OR REPLACE INTO digests VALUES (?, ?)", (mark, digest))
            self._commit()

    def close(self) -> None:
        """Write down what is not written yet."""
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
