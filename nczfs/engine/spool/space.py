"""The directory that one mount has in the spool, and its budget."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import quote

from nczfs.errors import (
    NoSpace,
    ObjectTooLarge,
    OutOfDescriptors,
    StoreError,
    Unavailable,
    UsageError,
)

LOCK: Final = "lock"
NAME_BYTES_MAX: Final = 200  # leaves room in a file name of 255 bytes
_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    errno.ENOSPC: NoSpace,
    errno.EDQUOT: NoSpace,
    errno.EFBIG: ObjectTooLarge,
    errno.EMFILE: OutOfDescriptors,
    errno.ENFILE: OutOfDescriptors,
}


class Survives(Enum):
    """What the bytes survive that writers were told are written, before they are stored."""

    NOTHING = "no"
    KILL = "yes"
    POWER = "fsync"


def default_spool_dir() -> Path:
    """Where the spool is that nobody named a place for."""
    state = os.environ.get("XDG_STATE_HOME")
    if not state and (home := os.environ.get("HOME")):
        state = f"{home}/.local/state"
    return Path(state or f"/var/tmp/nczfs-{os.getuid()}", "nczfs/spool")  # systemd sets no HOME


def check_spool_dir(directory: Path) -> None:
    """See that spools can be made in a directory, which need not exist; nothing is made.

    Raises
    ------
    UsageError : they cannot.
    """
    existing = directory
    while not os.path.lexists(existing):
        existing = existing.parent
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        what = "is" if existing == directory else f"cannot be made: {existing} is"
        raise UsageError(
            f"--spool-dir {directory}: {what} not a writable directory; name another one"
        )


class Spool:
    """A directory of its own for the files of one mount, and their budget.

    The directory is made with the first file and goes at the end, unless something unsaved is in
    it. As long as the mount lives it holds a lock there, which tells others to leave it alone; the
    file of the lock says the URL.
    `_lock` guards the sum of bytes and the making.

    Parameters
    ----------
    parent : where the directory is made.
    url : of what is mounted, as entries name it; without secrets.
    bytes_max : how much there may be at a time; None: as much as the disk takes.
    survives : for what the files keep what an entry can be made of when the process is gone.
    """

    def __init__(
        self,
        parent: Path,
        url: str = "",
        bytes_max: int | None = None,
        survives: Survives = Survives.NOTHING,
    ) -> None:
        self.directory = parent / secrets.token_hex(8)
        self.survives = survives
        self.url = url
        self.bytes_max = bytes_max
        self._bytes_taken = 0
        self._kept: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._lock_fd: int | None = None
        self._directory_fd: int | None = None

    def new_path(self, name: str, before: str = "") -> Path:
        """The path of a new file, named after a key. Raises NoSpace, Unavailable.

        Parameters
        ----------
        before : what its name begins with, so that it is told from those of other kinds.
        """
        self._make()
        return self.directory / f"{before}{next(self._numbers)}-{quoted(name)}"

    def reserve(self, count: int, *, always: bool = False) -> None:
        """Take bytes of the budget, or with a negative `count` give them back. Raises NoSpace.

        Parameters
        ----------
        always : take them though the budget is used up.
        """
        with self._lock:
            limited = count > 0 and not always and self.bytes_max is not None
            used = self._bytes_taken + count + (self._kept_bytes() if limited else 0)
            if limited and self.bytes_max is not None and used > self.bytes_max:
                raise NoSpace(
                    f"{self.directory}: {used} bytes of files being written, and of what could not "
                    f"be stored, are more than --max-spool-size {self.bytes_max}"
                )
            self._bytes_taken += count

    def keep(self, path: Path, taken: int) -> None:
        """Note an entry that is left to `nczfs recover`: it counts until it is gone.

        Parameters
        ----------
        taken : bytes that were reserved for it.
        """
        with self._lock:
            self._bytes_taken -= taken
            self._kept[path] = taken

    def sync(self) -> None:
        """Have the names in the directory survive a power failure; takes no descriptor."""
        if self._directory_fd is not None:
            with disk(self.directory):
                os.fsync(self._directory_fd)

    @property
    def bytes_used(self) -> int:
        """Of the budget."""
        with self._lock:
            return self._bytes_taken + self._kept_bytes()

    @property
    def kept_count(self) -> int:
        """How many entries are left to `nczfs recover`."""
        with self._lock:
            self._kept_bytes()
            return len(self._kept)

    def _kept_bytes(self) -> int:
        """What is kept takes; others may have removed some of it."""
        self._kept = {path: taken for path, taken in self._kept.items() if path.exists()}
        return sum(self._kept.values())

    def close(self) -> None:
        """Remove the directory, unless something unsaved is in it."""
        with self._lock:
            fd, self._lock_fd = self._lock_fd, None
            directory_fd, self._directory_fd = self._directory_fd, None
            if directory_fd is not None:
                os.close(directory_fd)
            if fd is None:
                return
            with contextlib.suppress(OSError):
                if os.listdir(self.directory) == [LOCK]:
                    os.unlink(self.directory / LOCK)
                    os.rmdir(self.directory)
            os.close(fd)

    def _make(self) -> None:
        with self._lock:
            if self._directory_fd is not None:
                return
            with disk(self.directory):
                while self._lock_fd is None:
                    self._lock_fd = self._made()
                if self._directory_fd is None:
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                    self._directory_fd = os.open(self.directory, flags)

    def _made(self) -> int | None:
        """The lock of the directory, or None: somebody took it for a dead mount's meanwhile."""
        make_private(self.directory)
        lock = self.directory / LOCK
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            # Nobody else holds it for longer than it takes to see whether somebody does.
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, self.url.encode())
            if os.path.samestat(os.fstat(fd), os.stat(lock)):
                return fd
        except FileNotFoundError:
            pass
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        return None


def make_private(directory: Path) -> None:
    """Make a directory, and those above it, for their owner alone, whatever the umask.

    They survive a power failure. Directories that exist keep their modes.
    """
    if not directory.exists():
        make_private(directory.parent)
        directory.mkdir(0o700, exist_ok=True)
        with contextlib.suppress(PermissionError):  # one may write there, and not read
            sync_directory(directory.parent)


def sync_directory(path: Path) -> None:
    """Have the names in a directory survive a power failure."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def quoted(name: str) -> str:
    """A key as a file is named after it, cut to what a name can have."""
    return quote(name, safe="", errors="surrogateescape")[-NAME_BYTES_MAX:]


@contextlib.contextmanager
def disk(path: Path) -> Iterator[None]:
    """Errors of the local disk as ours: NoSpace, ObjectTooLarge, Unavailable."""
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0, Unavailable)
        raise kind(f"{path}: {error.strerror}; --spool-dir names another place") from error
