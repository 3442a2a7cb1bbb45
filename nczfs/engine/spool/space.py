"""The directory that one mount has in the spool, and its budget."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import secrets
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from tempfile import mkstemp
from typing import Final, TypeVar
from urllib.parse import quote

from nczfs.engine.spool.disk import disk, make_private
from nczfs.engine.spool.log import FORMAT, Log
from nczfs.engine.spool.moves import Moves
from nczfs.engine.spool.records import free
from nczfs.errors import NczfsError, NoSpace, OutOfDescriptors, UsageError
from nczfs.zmap.url import StoreUrl

T = TypeVar("T")

LOCK: Final = "lock"
SUFFIX: Final = ".unsaved"  # ends the name of a file of records
KEPT: Final = ".kept"  # ends the name of a file that was staged, and is left to `nczfs recover`
END_BYTES: Final = 4096  # room for what the log says of a file that is kept
RESERVE_STEP: Final = 64 * 1024
NAME_BYTES_MAX: Final = 200  # leaves room in a file name of 255 bytes


class Survives(Enum):
    """What acknowledged writes survive before they are stored."""

    NOTHING = "no"
    KILL = "yes"
    POWER = "fsync"


def default_spool_dir() -> Path:
    """Return the default directory of the spool."""
    state = os.environ.get("XDG_STATE_HOME")
    if not state and (home := os.environ.get("HOME")):
        state = f"{home}/.local/state"
    return Path(state or f"/var/tmp/nczfs-{os.getuid()}", "nczfs/spool")  # systemd sets no HOME


def check_spool_dir(directory: Path) -> None:
    """Check that spools can be made in a directory, which need not exist, without making any.

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
    """The directory for the files of one mount, and their budget.

    The directory is made with the first file and goes at the end, unless something unsaved is in
    it. As long as the mount lives it holds a lock there, which tells others to leave it alone; the
    file of the lock says the URL, and whether there is a journal.
    `_lock` guards the sum of bytes and the making. `_pressing` guards the reserve: a file without a
    name, whose room and descriptor are there for what must not fail (`pressed`).

    Parameters
    ----------
    parent : where the directory is made.
    url : of what is mounted, as entries name it; without secrets.
    bytes_max : how much there may be at a time; None: as much as the disk takes.
    survives : what all that is written survives, besides what is left to `nczfs recover`.

    Attributes
    ----------
    log : says what is in the files, as far as they do not.
    moves : what it says of the moves of nodes.
    lost : what was to be kept and is not, each with the reason, in words.
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
        self.lost: list[str] = []
        self._bytes_taken = 0
        self._kept: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._lock_fd: int | None = None
        self._directory_fd: int | None = None
        self._pressing = threading.RLock()
        self._reserve_fd: int | None = None
        self._is_pressed = False
        self._ends = 0
        self._held_bytes = 0
        has_journal = survives is not Survives.NOTHING
        self._said = {"format": FORMAT, "url": url, "journal": has_journal}
        self.log = Log(
            self.directory,
            self._said,
            self._make,
            self.reserve if has_journal else free,
            self.sync if survives is Survives.POWER else None,
        )
        self.moves = Moves(self.log, self._numbers, has_values=has_journal)

    def new_path(self, name: str) -> Path:
        """Return the path of a new file, named after a key. Raises NoSpace, Unavailable."""
        self.log.open()
        return self.directory / f"{next(self._numbers)}-{quoted(name)}"

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

    def promise_end(self) -> None:
        """Hold room for the end of one more entry, until `end_promise`. Raises NoSpace."""
        with self._pressing:
            self._ends += 1
            try:
                self._hold_reserve()
            except NczfsError:
                self._ends -= 1
                raise

    def end_promise(self) -> None:
        """Release the promised room: the file has become an entry, or will never be one."""
        with self._pressing:
            self._ends -= 1

    def pressed(self, call: Callable[[], T]) -> T:
        """Return the result of a call that must not fail for lack of room or of a descriptor.

        Where it does, it is called once more with what is held in reserve. Raises as `call`.
        """
        try:
            return call()
        except (NoSpace, OutOfDescriptors):
            with self._pressing:
                self._let_reserve_go()
                self._is_pressed = True
                try:
                    return call()
                finally:
                    self._is_pressed = False
                    with contextlib.suppress(NczfsError):
                        self._hold_reserve()

    def sync(self) -> None:
        """Make the names in the directory survive a power failure; takes no descriptor."""
        if self._directory_fd is not None:
            with disk(self.directory):
                os.fsync(self._directory_fd)

    @property
    def bytes_used(self) -> int:
        """The used bytes of the budget."""
        with self._lock:
            return self._bytes_taken + self._kept_bytes()

    @property
    def kept_count(self) -> int:
        """How many entries are left to `nczfs recover`."""
        with self._lock:
            self._kept_bytes()
            return len(self._kept)

    def _kept_bytes(self) -> int:
        """Return the bytes of what is kept, some of which others may have removed."""
        self._kept = {path: taken for path, taken in self._kept.items() if path.exists()}
        return sum(self._kept.values())

    def close(self) -> None:
        """Remove the directory, unless something unsaved is in it."""
        self.log.close()
        with self._pressing:
            self._let_reserve_go()
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

    def _hold_reserve(self) -> None:
        """Hold what was promised, and a little more if there is room. Raises NoSpace."""
        if self._is_pressed:
            return
        if self._reserve_fd is None and self._directory_fd is not None:
            with contextlib.suppress(OSError):  # without a descriptor there is no reserve
                self._reserve_fd, path = mkstemp(dir=self.directory)
                os.unlink(path)
        least = END_BYTES * self._ends
        if self._reserve_fd is None or self._held_bytes >= least:
            return
        for size in (least + RESERVE_STEP, least):
            try:
                with disk(self.directory):
                    os.posix_fallocate(self._reserve_fd, 0, size)
            except NoSpace:
                if size == least:
                    raise
            except NczfsError:
                return  # the disk cannot hold room
            else:
                self._held_bytes = size
                return

    def _let_reserve_go(self) -> None:
        fd, self._reserve_fd, self._held_bytes = self._reserve_fd, None, 0
        if fd is not None:
            os.close(fd)

    def _made(self) -> int | None:
        """Return the lock of the directory; None: another process took it for a dead mount's."""
        make_private(self.directory)
        lock = self.directory / LOCK
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            # Nobody else holds it for longer than it takes to see whether somebody does.
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, json.dumps(self._said).encode())
            if self.survives is Survives.POWER:
                os.fdatasync(fd)
            if os.path.samestat(os.fstat(fd), os.stat(lock)):
                return fd
        except FileNotFoundError:
            pass
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        return None


def spool_url(place: StoreUrl) -> str:
    """Return the URL of a store with its fragment, without user names, passwords and queries."""
    profile = "no" if place.anonymous else place.profile
    words = {
        "mode": ",".join(sorted(place.modes)),
        "aws.profile": profile,
        "aws.region": place.region,
    }
    fragment = "&".join(f"{name}={quote(value, ',')}" for name, value in words.items() if value)
    return f"{place.text}#{fragment}" if fragment else place.text


def quoted(name: str) -> str:
    """Return a file name for a key, cut to the longest name, without a suffix of the spool."""
    text = quote(name, safe="", errors="surrogateescape")
    for suffix in (SUFFIX, KEPT):
        if text.endswith(suffix):
            text = text.removesuffix(suffix) + suffix.replace(".", "%2E")
    return text[-NAME_BYTES_MAX:]
