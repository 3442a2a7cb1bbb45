"""Files being written, on the local disk: sparse, under a budget."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nczfs.engine.spool.entries import Entry, Kind, seal
from nczfs.engine.spool.space import Spool, Survives, disk
from nczfs.engine.spool.staged import StagedLog
from nczfs.errors import NczfsError, ObjectTooLarge, Unavailable
from nczfs.model.ranges import Ranges
from nczfs.vfs.base import Buffer
from nczfs.zmap.base import Part, Range, Stat, Version

OBJECT_BYTES_MAX = 5 << 40  # the limit of S3


class Base:
    """What a staged file begins with: a version of an object, fetched as far as it is needed.

    Parameters
    ----------
    fetch : bytes [start, stop) of that version, or an error.
    step : fetching begins and ends at multiples of it.
    """

    def __init__(self, stat: Stat, fetch: Callable[[int, int], Buffer], step: int) -> None:
        self.stat = stat
        self.fetch = fetch
        self.step = step


def stage(spool: Spool, key: str, size: int = 0, base: Base | None = None) -> StagedFile:
    """Begin a staged file.

    Parameters
    ----------
    key : what it will become, to be told from its name.
    size : of the file.
    base : what the file is where nothing was written; None: zeros.
    """
    path = spool.new_path(key)
    with disk(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return StagedFile(spool, path, fd, size, base)


class StagedFile:
    """A sparse file, and which ranges of it are valid. Its user sees to it that calls are single.

    A range that is not valid comes from `base`; beyond that the disk has room for every byte, zeros
    included: who looks at mapped bytes that find no room is killed.
    """

    def __init__(self, spool: Spool, path: Path, fd: int, size: int, base: Base | None) -> None:
        self.path = path
        self.size = size
        self._spool = spool
        self._fd = fd
        self._base = base
        self._base_stop = min(size, base.stat.size) if base is not None else 0
        self._valid = Ranges()
        is_kept = spool.survives is not Survives.NOTHING
        self._log = StagedLog(spool, path, fd) if is_kept else None
        self._resize(size)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file, cut at its end."""
        stop = min(offset + size, self.size)
        if stop <= offset:
            return b""
        self._load(offset, stop)
        with disk(self.path):
            data = os.pread(self._fd, stop - offset, offset)
        if len(data) < stop - offset:
            raise Unavailable(f"{self.path}: another program has shortened it")
        return data

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes, all of them or none. Raises NoSpace, ObjectTooLarge."""
        stop = offset + len(data)
        self._check_size(stop)
        if (before := self.size) < offset:
            self.truncate(offset)
        try:
            self._write(offset, data)
        except NczfsError:
            if before < offset:
                self.truncate(before)
            raise

    def _write(self, offset: int, data: Buffer) -> None:
        stop = offset + len(data)
        gaps = list(self._valid.gaps(offset, stop))
        claimed = sum(b - a for a, b in gaps)
        self._spool.reserve(claimed)
        left = memoryview(data)
        try:
            with disk(self.path):
                while left:
                    left = left[os.pwrite(self._fd, left, stop - len(left)) :]
        except NczfsError:
            self._spool.reserve(-claimed)
            raise
        self._valid.add(offset, stop)
        self.size = max(self.size, stop)
        if self._log is not None:
            self._log.wrote((a, min(b, self._base_stop)) for a, b in gaps if a < self._base_stop)

    def truncate(self, size: int) -> None:
        """Set the size; what is added is zeros. Raises NoSpace, ObjectTooLarge."""
        self._check_size(size)
        if size > self.size:
            self._add_zeros(size)
        else:
            self._resize(size)
            self._base_stop = min(self._base_stop, size)
            before = self._valid.total
            self._valid.cut(size)
            self._spool.reserve(self._valid.total - before)
        self.size = size
        if self._log is not None:
            self._log.cut(size)

    def fill(self) -> None:
        """Fetch whatever is missing, so that the file stands for itself."""
        self._load(0, self.size)

    @contextlib.contextmanager
    def parts(self, *, copies: bool) -> Iterator[Sequence[Part]]:
        """What the object shall be put together of; valid within the block only.

        Parameters
        ----------
        copies : what was never fetched stays where it is, and is named as a range of the base.
        """
        if not copies:
            self.fill()
        if not self.size:
            yield [b""]
            return
        with disk(self.path):
            os.ftruncate(self._fd, self.size)
            mapped = mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ)
        with _closing(mapped), memoryview(mapped) as view, contextlib.ExitStack() as slices:
            parts: list[Part] = []
            at = 0
            for start, stop in [*self._valid.gaps(0, self._base_stop), (self.size, self.size)]:
                if start > at:
                    parts.append(slices.enter_context(view[at:start]))
                if stop > start:
                    assert self._base is not None
                    parts.append(Range(self._base.stat, start, stop))
                at = stop
            yield parts

    def note_unsaved(self, key: str, replaces: Version) -> None:
        """The file is not in the store: have it survive this process, where that is wanted.

        What is done to it from now on does so too. Raises NoSpace, Unavailable.
        """
        if self._log is not None:
            self._log.begin(key, replaces, list(self._valid.gaps(0, self._base_stop)))

    def note_saved(self) -> None:
        """The file is in the store, or will never be."""
        if self._log is not None:
            self._log.clear()

    def rebase(self, base: Base) -> None:
        """What was never fetched is the same in another version, and comes from there."""
        self._base, self._base_stop = base, min(self.size, base.stat.size)

    def keep(self, key: str, replaces: Version, reason: str) -> Path:
        """Leave the file in the spool as an entry, and close it: where it is then.

        Parameters
        ----------
        replaces : the version that it shall replace, `ABSENT` where there was none.

        Raises
        ------
        NoSpace, Unavailable : it is no entry; its bytes are left where they are.
        """
        with contextlib.suppress(NczfsError):
            self.fill()
        missing = list(self._valid.gaps(0, self._base_stop))
        details = {"replaces": replaces, "missing": missing}
        entry = Entry(Kind.OBJECT, self._spool.url, key, reason, details)
        try:
            with disk(self.path):
                os.ftruncate(self._fd, self.size)
            kept = seal(self.path, self._fd, entry)
        except NczfsError:
            self._close()
            raise
        self._spool.keep(kept, self._valid.total)
        self._valid.cut(0)
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

    def _add_zeros(self, size: int) -> None:
        start, count = self.size, size - self.size
        self._spool.reserve(count)
        try:
            with disk(self.path):
                os.posix_fallocate(self._fd, start, count)
        except NczfsError:
            self._spool.reserve(-count)
            self._resize(start)
            raise
        self._valid.add(start, size)

    def _resize(self, size: int) -> None:
        with disk(self.path):
            os.ftruncate(self._fd, size)

    def _check_size(self, size: int) -> None:
        if size > OBJECT_BYTES_MAX:
            raise ObjectTooLarge(f"{self.path.name}: {size} bytes; an object has at most 5 TiB")

    def _close(self) -> None:
        self._spool.reserve(-self._valid.total)
        self._valid.cut(0)
        os.close(self._fd)
        if self._log is not None:
            self._log.remove()


@contextlib.contextmanager
def _closing(mapped: mmap.mmap) -> Iterator[None]:
    """Close a map, unless the traceback of an error still has views of it: then it goes with them.

    The error of the store is the one to be told.
    """
    try:
        yield
    finally:
        with contextlib.suppress(BufferError):
            mapped.close()
