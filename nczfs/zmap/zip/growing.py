"""An archive in a file that grows so that a crash at any byte leaves the old or the new one.

New members gather in a side file (`tail`), and read as if they already followed the archive. A
commit adds a new central directory, seals the side file, waits for the disk, appends everything to
the archive, waits for the disk and empties the side file. Nothing of the old archive is
overwritten. An opener that finds a sealed side file repeats the append, or, without permission to
write, reads the old archive, which is still the beginning of the file.

Other programs may see a torn archive between a crash and the next opening by nczfs. The commit
`COPY` makes a new file and renames it instead of appending: all programs see the old or the new
archive.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, NoSuchObject, StoreBusy, Unavailable
from nczfs.plaindata import frozen
from nczfs.zmap import fileio
from nczfs.zmap.directory import TEMPORARY
from nczfs.zmap.oserrors import archive_error, archive_errors
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.locking import lock_archive
from nczfs.zmap.zip.recovery import counting_size, foreign_change, left_seal, recover
from nczfs.zmap.zip.source import ArchiveBytes
from nczfs.zmap.zip.tail import Tail, fingerprint

log = logging.getLogger(__name__)

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_ATTEMPTS: Final = 100  # each attempt fails only if a commit begins or ends just then


class Commit(Enum):
    """The way writes get into the archive."""

    APPEND = "append"
    COPY = "copy"


@frozen
class _State:
    """The state that readers use, replaced as a whole.

    Attributes
    ----------
    size : of the archive; later bytes are in the side file.
    files : inode, size and time of the files that are known to begin with these bytes; the first is
        the one that was opened, the last the present one.
    """

    size: int
    mtime_ns: int
    files: tuple[tuple[int, int, int], ...]


class GrowingArchive(ArchiveBytes):
    """The bytes of an archive in a file, and of writes after it.

    Reading is thread-safe and takes no lock; writing is for one thread at a time.

    Parameters
    ----------
    path : absolute.
    may_repair : whether to complete an interrupted commit, with permission to write.

    Raises
    ------
    NoSuchObject : there is no file. AccessDenied, Unavailable.
    """

    near = True

    def __init__(self, path: str, name: str, *, may_repair: bool) -> None:
        self.path = path
        self.name = name
        self._tail: Tail | None = None
        self._owner = 0
        self._is_broken = False
        with archive_errors(name):
            if may_repair:
                self._repair()
            self._fd, self._state = self._opened()
        self._old_crc = fingerprint(self._fd, self._state.size)

    @property
    def size(self) -> int:
        return self._state.size + (self._tail.size if self._tail else 0)

    @property
    def mtime_ns(self) -> int:
        return self._state.mtime_ns

    @property
    def identity(self) -> str:
        inode, size, mtime_ns = self._state.files[0]
        return f"{self.name} {inode} {size} {self._state.size} {mtime_ns}"

    @property
    def committed_size(self) -> int:
        """The number of bytes that are durably in the file."""
        return self._state.size

    @property
    def is_writing(self) -> bool:
        """Whether this process holds the lock of the archive for this object."""
        return self._tail is not None

    @property
    def fd(self) -> int:
        """The descriptor, for holders of the lock."""
        return self._fd

    @property
    def is_current(self) -> bool:
        """Whether the path still leads to this archive in this state."""
        with contextlib.suppress(OSError):
            return self.is_writing or _identity(os.stat(self.path)) == self._state.files[0]
        return False

    def read(self, start: int, stop: int) -> bytes:
        try:
            while True:
                state, tail = self._state, self._tail
                if start < state.size or tail is None:
                    data = fileio.read_at(self._fd, start, max(start, min(stop, state.size)))
                    self._check_unchanged(state)
                    return data
                data = tail.read(start - state.size, stop - state.size)
                # Otherwise they were committed meanwhile, and are in the archive now.
                if self._state is state:
                    return data
        except OSError as error:
            raise archive_error(error, self.name) from error

    def begin(self) -> bool:
        """Take the lock, and complete an interrupted commit.

        Returns
        -------
        bool : whether another process has appended to the archive since it was opened, so that its
            index has changed.

        Raises
        ------
        StoreBusy : another process is writing. Conflict : the archive was replaced or changed.
        """
        self._check_usable()
        if self._tail is not None:
            return False
        with archive_errors(self.name):
            locked = lock_archive(self.path, self.name)
            try:
                recover(locked, self.path, self.name)
                status = os.fstat(locked)
                if status.st_ino != self._file[0] or not self._is_continued(locked, status):
                    raise Conflict(f"{self.name}: replaced or changed since it was opened")
                self._sweep()
                self._tail = Tail(self.path, stat.S_IMODE(status.st_mode))
                self._owner = os.getpid()
                os.dup2(locked, self._fd, inheritable=False)
            finally:
                os.close(locked)
            has_grown = status.st_size != self._state.size
            self._settle(status)
        return has_grown

    def end(self) -> None:
        """Release the lock, and drop what was appended since the last commit."""
        tail, self._tail = self._tail, None
        if tail is None:
            return
        tail.close()
        if self._owner == os.getpid():  # a fork shares the lock, which stays with its parent
            with contextlib.suppress(OSError):
                if not self._is_broken:
                    disk.unlink(tail.path)
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def append(self, parts: Sequence[Buffer]) -> int:
        """Append bytes to the archive, or none if that fails. Returns where they begin."""
        self._check_usable()
        start = self.size
        with archive_errors(self.name):
            self._writing.append(parts)
        return start

    def drop(self) -> None:
        """Drop what was appended since the last commit; no member may use it."""
        self._check_usable()
        with archive_errors(self.name):
            self._writing.reset()

    def commit(self, closing: Iterable[Buffer], how: Commit) -> None:
        """Commit what was appended, followed by these bytes, a central directory.

        If it fails, the archive is the old one, and the appended bytes are kept.
        """
        self._check_usable()
        tail = self._writing
        mark = tail.mark()
        with archive_errors(self.name):
            if not _identity(os.fstat(self._fd)) == _identity(os.stat(self.path)) == self._file:
                raise Conflict(f"{self.name}: changed by a program that ignores locks")
            try:
                for part in closing:
                    tail.append([part])
                (self._append if how is Commit.APPEND else self._copy)(tail)
            except BaseException:
                self._undo(tail, mark)
                raise
            try:
                tail.reset()
            except OSError:
                self._is_broken = True
                raise

    def close(self) -> None:
        """Release the lock and the file; once only."""
        self.end()
        fd, self._fd = self._fd, -1
        os.close(fd)

    @property
    def _file(self) -> tuple[int, int, int]:
        return self._state.files[-1]

    @property
    def _writing(self) -> Tail:
        assert self._tail is not None, "begin() comes first"
        return self._tail

    def _check_usable(self) -> None:
        if self._is_broken:
            raise Unavailable(f"{self.name}: an append was interrupted by an error; open it again")
        if self._tail is not None and self._owner != os.getpid():
            raise StoreBusy(
                f"{self.name}: process {self._owner}, of which this one is a fork, is writing to it"
            )

    def _opened(self) -> tuple[int, _State]:
        """Return the file and its valid size, at a moment when no commit begins or ends."""
        for _ in range(_ATTEMPTS):
            seal = left_seal(self.path)
            fd = os.open(self.path, _OPEN)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise NoSuchObject(f"{self.name}: not a regular file")
                size = counting_size(fd, status, seal)
                now = os.stat(self.path)
                if left_seal(self.path) == seal and _identity(now) == _identity(status):
                    if seal is not None and size is None:
                        log.warning("%s", foreign_change(self.name))
                    size = status.st_size if size is None else size
                    return fd, _State(size, status.st_mtime_ns, (_identity(status),))
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise Unavailable(f"{self.name}: changes whenever it is opened")

    def _repair(self) -> None:
        """Complete an interrupted commit, if no process is writing and this one may write."""
        if left_seal(self.path) is None:
            return
        try:
            fd = lock_archive(self.path, self.name)
        except (StoreBusy, Unavailable, OSError):
            return
        try:
            recover(fd, self.path, self.name)
        except (Conflict, OSError) as error:
            log.debug("%s: not repaired: %s", self.name, error)
        finally:
            os.close(fd)

    def _append(self, tail: Tail) -> None:
        old = self._state
        tail.seal(old.size, self._old_crc)
        tail.copy_to(self._fd, old.size)
        disk.sync(self._fd)
        self._settle(os.fstat(self._fd))

    def _copy(self, tail: Tail) -> None:
        old = self._state
        status = os.fstat(self._fd)
        path = self._temporary(secrets.token_hex(8))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # of the archive that it will be
            if not disk.clone(self._fd, fd):
                disk.copy(self._fd, 0, old.size, fd, 0)
            tail.copy_to(fd, old.size)
            keep_ownership(fd, status)
            disk.sync(fd)
            new = os.fstat(fd)
            # Readers may use the path after the rename.
            self._state = _State(old.size, old.mtime_ns, (*old.files, _identity(new)))
            disk.rename(path, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(fd)
            raise
        # Concurrent readers of the descriptor get the same bytes from either file.
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)
        self._settle(new)
        disk.sync_directory(self.path)

    def _undo(self, tail: Tail, mark: tuple[int, int]) -> None:
        """Restore the old archive and the appended bytes after a failed commit."""
        try:
            if os.fstat(self._fd).st_size != self._state.size:
                disk.truncate(self._fd, self._state.size)
                disk.sync(self._fd)
            self._settle(os.fstat(self._fd))
            tail.go_back(mark)
        except BaseException:
            # The side file is left to the next opener of the archive.
            self._is_broken = True
            raise

    def _settle(self, status: os.stat_result) -> None:
        """Use an archive that is a whole file."""
        self._old_crc = fingerprint(self._fd, status.st_size)
        self._state = _State(status.st_size, status.st_mtime_ns, (_identity(status),))

    def _check_unchanged(self, state: _State) -> None:
        status = os.fstat(self._fd)
        if status.st_nlink and _identity(status) == state.files[-1]:
            return  # it has its name, or another one, and was not written to
        try:
            status = os.stat(self.path)
        except FileNotFoundError as error:
            raise Conflict(f"{self.name}: the archive was removed since it was opened") from error
        if _identity(status) in state.files:
            return
        if status.st_ino not in {inode for inode, *_ in state.files}:
            # This process's commit may have come in between.
            if self._state is not state:
                return
            raise Conflict(f"{self.name}: the archive was replaced since it was opened")
        if self.is_writing:
            return  # no other process appends while this one holds the lock
        if not self._is_continued(self._fd, status):
            raise Conflict(f"{self.name}: the archive was changed since it was opened")
        self._state = _State(state.size, state.mtime_ns, (*state.files[:1], _identity(status)))

    def _is_continued(self, fd: int, status: os.stat_result) -> bool:
        """Return whether a file still begins with the archive, to which nczfs only appends."""
        size = self._state.size
        return status.st_size >= size and fingerprint(fd, size) == self._old_crc

    def _temporary(self, word: str) -> str:
        directory, base = os.path.split(self.path)
        return os.path.join(directory, f"{TEMPORARY}{base[:100]}-{word}")

    def _sweep(self) -> None:
        """Remove copies of dead writers."""
        directory, before = os.path.split(self._temporary(""))
        for entry in os.scandir(directory):
            if entry.name.startswith(before) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    fd = os.open(entry.path, _OPEN | os.O_NOFOLLOW)
                    try:
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(entry.path)
                    finally:
                        os.close(fd)


def keep_ownership(fd: int, status: os.stat_result) -> None:
    """Give a new file the owner and mode of the one it replaces, as far as permitted."""
    with contextlib.suppress(PermissionError):
        os.fchown(fd, status.st_uid, status.st_gid)
    with contextlib.suppress(PermissionError):
        os.fchmod(fd, stat.S_IMODE(status.st_mode))


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
