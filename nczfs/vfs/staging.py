"""Files being written, on the local disk: sparse, under a budget."""

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from nczfs.errors import NczfsError, NoSpace, ObjectTooLarge, Unavailable
from nczfs.vfs.base import Buffer
from nczfs.vfs.ranges import Ranges

UNSAVED = "unsaved-"
OBJECT_BYTES_MAX = 5 << 40  # the limit of S3
_NAME_BYTES_MAX = 200  # leaves room in a file name of 255 bytes
_ERRORS = {errno.ENOSPC: NoSpace, errno.EDQUOT: NoSpace, errno.EFBIG: ObjectTooLarge}


def default_spool_dir() -> Path:
    """Where staged files go that nobody named a place for."""
    state = os.environ.get("XDG_STATE_HOME")
    if not state and (home := os.environ.get("HOME")):
        state = f"{home}/.local/state"
    return Path(state or f"/var/tmp/nczfs-{os.getuid()}", "nczfs/spool")  # systemd sets no HOME


class Spool:
    """A directory of its own for the staged files of one mount, and their budget.

    The directory is made with the first file and goes at the end; what could not be stored stays
    in it. `_lock` guards the sum of bytes.

    Parameters
    ----------
    parent : where the directory is made.
    bytes_max : how much may be staged at a time; None: as much as the disk takes.
    """

    def __init__(self, parent: Path, bytes_max: int | None = None) -> None:
        self.directory = parent / secrets.token_hex(8)
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def open(self, key: str, size: int = 0, base: Base | None = None) -> StagedFile:
        """Begin a staged file.

        Parameters
        ----------
        key : what it will become, to be told from its name.
        size : of the file.
        base : what the file is where nothing was written; None: zeros.
        """
        path = self.directory / f"{next(self._numbers)}-{_name(key)}"
        with _disk(path):
            os.makedirs(self.directory, 0o700, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return StagedFile(self, path, fd, size, base)

    def reserve(self, count: int) -> None:
        """Take bytes of the budget, or with a negative `count` give them back. Raises NoSpace."""
        with self._lock:
            used = self.bytes_used + count
            if count > 0 and self.bytes_max is not None and used > self.bytes_max:
                raise NoSpace(
                    f"{self.directory}: {used} bytes of files being written are more than "
                    f"--max-spool-size {self.bytes_max}"
                )
            self.bytes_used = used

    def close(self) -> None:
        """Remove the directory, unless something unsaved is in it."""
        with contextlib.suppress(OSError):
            os.rmdir(self.directory)


class Base:
    """What a staged file begins with: a version of an object, fetched as far as it is needed.

    Parameters
    ----------
    fetch : bytes [start, stop) of that version, or an error.
    step : fetching begins and ends at multiples of it.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], Buffer], step: int) -> None:
        self.size = size
        self.fetch = fetch
        self.step = step


class StagedFile:
    """A sparse file, and which ranges of it are valid. Its user sees to it that calls are single.

    A range that is not valid comes from `base` where that reaches, and is a hole beyond.
    """

    def __init__(self, spool: Spool, path: Path, fd: int, size: int, base: Base | None) -> None:
        self.path = path
        self.size = size
        self._spool = spool
        self._fd = fd
        self._base = base
        self._base_stop = min(size, base.size) if base is not None else 0
        self._valid = Ranges()
        self._resize(size)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file, cut at its end."""
        stop = min(offset + size, self.size)
        if stop <= offset:
            return b""
        self._load(offset, stop)
        with _disk(self.path):
            data = os.pread(self._fd, stop - offset, offset)
        if len(data) < stop - offset:
            raise Unavailable(f"{self.path}: shortened by somebody else")
        return data

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes, all of them or none. Raises NoSpace, ObjectTooLarge."""
        stop = offset + len(data)
        self._check_size(stop)
        claimed = sum(b - a for a, b in self._valid.gaps(offset, stop))
        self._spool.reserve(claimed)
        left = memoryview(data)
        try:
            with _disk(self.path):
                while left:
                    left = left[os.pwrite(self._fd, left, stop - len(left)) :]
        except NczfsError:
            self._spool.reserve(-claimed)
            raise
        self._valid.add(offset, stop)
        self.size = max(self.size, stop)

    def truncate(self, size: int) -> None:
        """Set the size; what is added is zeros."""
        self._check_size(size)
        self._resize(size)
        self._base_stop = min(self._base_stop, size)
        before = self._valid.total
        self._valid.cut(size)
        self._spool.reserve(self._valid.total - before)
        self.size = size

    def fill(self) -> None:
        """Fetch whatever is missing, so that the file stands for itself."""
        self._load(0, self.size)

    @contextlib.contextmanager
    def content(self) -> Iterator[Buffer]:
        """All bytes, to be stored; valid within the block only."""
        self.fill()
        if not self.size:
            yield b""
            return
        with _disk(self.path):
            os.ftruncate(self._fd, self.size)
            mapped = mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ)
        with mapped, memoryview(mapped) as view:
            yield view

    def keep(self) -> Path:
        """Leave the file on the disk, under a name that says why, and close it."""
        with contextlib.suppress(NczfsError):
            self.fill()
        kept = self.path.with_name(UNSAVED + self.path.name)
        with _disk(kept):
            os.fsync(self._fd)
            os.rename(self.path, kept)
        self._close()
        return kept

    def discard(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        self._close()

    def _load(self, start: int, stop: int) -> None:
        base = self._base
        if base is None:
            return
        stop = min(stop, self._base_stop)
        if not any(self._valid.gaps(start, stop)):
            return
        start -= start % base.step
        stop = min(self._base_stop, stop + -stop % base.step)
        for gap_start, gap_stop in list(self._valid.gaps(start, stop)):
            for at in range(gap_start, gap_stop, base.step):
                self._put(at, base.fetch(at, min(gap_stop, at + base.step)))

    def _put(self, offset: int, data: Buffer) -> None:
        """Write fetched bytes; they are part of the file already."""
        size = self.size
        self.write(offset, data)
        self.size = size

    def _resize(self, size: int) -> None:
        with _disk(self.path):
            os.ftruncate(self._fd, size)

    def _check_size(self, size: int) -> None:
        if size > OBJECT_BYTES_MAX:
            raise ObjectTooLarge(f"{self.path.name}: {size} bytes; an object has at most 5 TiB")

    def _close(self) -> None:
        self._spool.reserve(-self._valid.total)
        self._valid.cut(0)
        os.close(self._fd)


def _name(key: str) -> str:
    return quote(key, safe="", errors="surrogateescape")[-_NAME_BYTES_MAX:]


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0, Unavailable)
        raise kind(f"{path}: {error.strerror}; --spool-dir names another place") from error
