"""Files being written, on the local disk: sparse, under a budget."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from io import RawIOBase
from pathlib import Path
from tempfile import TemporaryFile

from nczfs.buffers import Buffer
from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.disk import disk
from nczfs.engine.spool.space import Spool
from nczfs.engine.spool.staged import Staged, StagedLog
from nczfs.errors import NczfsError, ObjectTooLarge, Unavailable
from nczfs.model.ranges import END, Ranges
from nczfs.zmap.base import ByteRange, Part, Piece, Stat, Version, Zeros

OBJECT_BYTES_MAX = 5 << 40  # the limit of S3
MOVED_BYTES = 1 << 20  # copied at a time, while the file cannot be written to


class Base:
    """The initial contents of a staged file: a version of an object, fetched on demand.

    Parameters
    ----------
    fetch : bytes [start, stop) of that version, or an error.
    step : fetching begins and ends at multiples of it.
    """

    def __init__(self, stat: Stat, fetch: Callable[[int, int], Buffer], step: int) -> None:
        self.stat = stat
        self.fetch = fetch
        self.step = step


class Fetched:
    """Bytes of a base, from `start` on."""

    __slots__ = ("base", "data", "start", "stop")

    def __init__(self, base: Base, start: int, stop: int) -> None:
        self.base = base
        self.start = start
        self.stop = stop
        self.data = memoryview(base.fetch(start, stop))


def stage(spool: Spool, key: str, size: int = 0, base: Base | None = None) -> StagedFile:
    """Begin a staged file.

    Parameters
    ----------
    key : of the object that it will become; its file name contains it.
    size : of the file.
    base : what the file is where nothing was written; None: zeros.
    """
    path = spool.new_path(key)
    spool.promise_end()
    try:
        with disk(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            return StagedFile(spool, path, fd, size, base)
        except NczfsError:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
    except NczfsError:
        spool.end_promise()
        raise


class StagedFile:
    """A sparse file, and its valid ranges. Its user makes one call at a time.

    A range that is not valid comes from `base`, below `_base_stop`; beyond that it is a hole, which
    reads as zeros and costs no disk. Nothing ever maps the file: a full disk or one that fails is
    an error of the call that meets it.

    Attributes
    ----------
    changes : how often bytes or the size may have changed, by calls that failed as well.
    """

    def __init__(self, spool: Spool, path: Path, fd: int, size: int, base: Base | None) -> None:
        self.path = path
        self.size = size
        self.changes = 0
        self._spool = spool
        self._fd = fd
        self._base = base
        self._base_stop = min(size, base.stat.size) if base is not None else 0
        self._valid = Ranges()
        self._changed = Ranges()  # since it was what its base is; to `END` where the size was set
        if base is None:
            self._changed.add(0, END)
        self._sent: list[Sent] = []
        self._moving = threading.Lock()  # guards bytes that a snapshot has to go on seeing
        self._snapshots: list[StagedSnapshot] = []
        self._log = StagedLog(spool, path, fd)
        self._resize(size)

    def read(self, offset: int, size: int, fetched: Fetched | None = None) -> bytes | None:
        """Return bytes of the file, cut at its end; None while some must be fetched: `missing`.

        Parameters
        ----------
        fetched : bytes that a call of `missing` named, taken where nothing newer stands.
        """
        stop = min(offset + size, self.size)
        if stop <= offset:
            return b""
        with disk(self.path):
            data = os.pread(self._fd, stop - offset, offset)
        if len(data) < stop - offset:
            raise Unavailable(f"{self.path}: another program has shortened it")
        gaps = list(self._valid.gaps(offset, min(stop, self._base_stop)))
        if not gaps:
            return data
        if fetched is None or fetched.base is not self._base:
            return None
        pieces = bytearray(data)
        for start, end in gaps:
            if start < fetched.start or end > fetched.stop:
                return None
            pieces[start - offset : end - offset] = fetched.data[
                start - fetched.start : end - fetched.start
            ]
        return bytes(pieces)

    def missing(self, offset: int, size: int) -> Callable[[], Fetched] | None:
        """Return what fetches the base's bytes for a read; None: nothing has to be fetched.

        It is called without a lock.
        """
        base, stop = self._base, min(offset + size, self._base_stop)
        gaps = list(self._valid.gaps(offset, stop))
        if base is None or not gaps:
            return None
        start = gaps[0][0] - gaps[0][0] % base.step
        end = min(self._base_stop, gaps[-1][1] + -gaps[-1][1] % base.step)
        return lambda: Fetched(base, start, end)

    def take(self, fetched: Fetched) -> None:
        """Put fetched bytes where there is nothing newer. Raises NoSpace."""
        if fetched.base is not self._base:
            return
        for start, stop in list(
            self._valid.gaps(fetched.start, min(fetched.stop, self._base_stop))
        ):
            data = fetched.data[start - fetched.start : stop - fetched.start]
            self._write(start, data, is_fetched=True)

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes; an error leaves the size as it was. Raises NoSpace, ObjectTooLarge.

        Of bytes that the file had already, some may be overwritten then: `changes` tells.
        """
        self._check_size(offset + len(data))
        before = self.size
        try:
            self._write(offset, data)
        except NczfsError:
            if os.fstat(self._fd).st_size > before:
                self._cut(before)
            raise

    def truncate(self, size: int) -> None:
        """Set the size; what is added is a hole. Raises NoSpace, ObjectTooLarge."""
        self._check_size(size)
        with self._moving:
            if size < self.size:
                self._preserve(size, self.size)
            self._cut(size)
        self.changes += 1
        self._changed.add(size, END)
        self._log.cut(size)

    def snapshot(self) -> StagedSnapshot:
        """Return the file as it is now, unaffected by later writes; to be closed."""
        found = StagedSnapshot(self)
        with self._moving:
            self._snapshots.append(found)
        return found

    def note_unsaved(self, key: str, replaces: Version) -> None:
        """Note that the file is not in the store, so that it survives this process if wanted.

        What is done to it from now on does so too. Raises NoSpace, Unavailable.
        """
        self._log.begin(lambda: self._begun(key, replaces))

    def note_stored(self, key: str, replaces: Version) -> None:
        """Note that an older state of the file is in the store, as a version under a key.

        Never raises: what is kept of it then stands for the version that it replaced before.
        """
        self._sent = []
        self._log.renew(lambda: self._begun(key, replaces))

    def is_noted_elsewhere(self, key: str) -> bool:
        """Return whether what is noted of it, if anything, is that it belongs under another key."""
        return self._log.key not in {None, key}

    @property
    def is_logged(self) -> bool:
        """Whether what is noted of it survives this process."""
        return self._log.is_wanted

    def note_sent(self, attempt: Sent) -> None:
        """Note what was, or is about to be, sent to the store: it may arrive unanswered."""
        self._sent = [*(each for each in self._sent if each != attempt), attempt]
        self._log.sending(attempt)

    def note_saved(self) -> None:
        """Note that the file is in the store, or never will be."""
        self._sent = []
        self._log.clear()

    def rebase(self, base: Base, *, is_all: bool) -> None:
        """Fetch the rest from another version, in which it is the same.

        Parameters
        ----------
        is_all : so is what was written.
        """
        self._base, self._base_stop = base, min(self._base_stop, base.stat.size)
        if is_all:
            self._changed.cut(0)

    def way_back(self) -> Callable[[], None]:
        """Return a function after which what has been written by now counts as written again."""
        changed = self._changed.copy()

        def restore() -> None:
            for start, stop in changed.within(0, END):
                self._changed.add(start, stop)

        return restore

    def own(self) -> bool:
        """Count all of it as written. False: some of it was never fetched."""
        if self._missing:
            return False
        left = list(self._changed.gaps(0, END))
        self._changed.add(0, END)
        with contextlib.suppress(NczfsError):  # it is said with what is done next
            self._log.filled([], left)
        return True

    def keep(self, key: str, replaces: Version, reason: str) -> Path:
        """Leave the file in the spool as an entry, and close it. Returns its place.

        A full disk leaves room enough for that. Where no entry can be made all the same, the file
        stays as one that survives this process, if it is one.

        Parameters
        ----------
        replaces : the version that it shall replace, `ABSENT` where there was none.

        Raises
        ------
        NoSpace, Unavailable : it is no entry; its bytes, if it has any, are left where they are.
        """
        said = self._begun(key, replaces, self._sent)
        try:
            kept = self._spool.pressed(lambda: self._log.keep(said, reason, self.size))
        except NczfsError:
            if not self._log.is_said:
                self._close() if self._valid.total else self.discard()
                raise
            kept = self._log.path  # what was said survives, though not a power failure
        self._spool.keep(kept, self._valid.total)
        self._valid.cut(0)
        self._close()
        return kept

    def discard(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        self._log.clear()
        self._close()

    @property
    def _missing(self) -> list[tuple[int, int]]:
        """Return the ranges of the base that were never fetched."""
        return list(self._valid.gaps(0, self._base_stop))

    def _begun(self, key: str, replaces: Version, attempts: Sequence[Sent] = ()) -> Staged:
        changed = self._changed.within(0, END)
        return Staged.begun(key, replaces, self._missing, changed, attempts)

    def _write(self, offset: int, data: Buffer, *, is_fetched: bool = False) -> None:
        stop = offset + len(data)
        gaps = list(self._valid.gaps(offset, stop))
        claimed, before = sum(b - a for a, b in gaps), self._valid.total
        self._spool.reserve(claimed)
        left = memoryview(data)
        try:
            with self._moving, disk(self.path):
                self._preserve(offset, stop)
                self.changes += 1
                while left:
                    left = left[os.pwrite(self._fd, left, stop - len(left)) :]
        finally:
            stop -= len(left)  # what is in the file counts, even if the rest found no room
            self._valid.add(offset, stop)
            self._spool.reserve(self._valid.total - before - claimed)
            if stop > offset:
                self.size, below = max(self.size, stop), min(stop, self._base_stop)
                missed = [(a, min(b, below)) for a, b in gaps if a < below]
                changed = [] if is_fetched else list(self._changed.gaps(offset, stop))
                for first, last in changed:
                    self._changed.add(first, last)
                self._log.filled(missed, changed)

    def _preserve(self, start: int, stop: int) -> None:
        for snapshot in self._snapshots:
            snapshot.preserve(start, stop)

    def _cut(self, size: int) -> None:
        self._resize(size)
        self._base_stop = min(self._base_stop, size)
        before = self._valid.total
        self._valid.cut(size)
        self._spool.reserve(self._valid.total - before)
        self.size = size

    def _resize(self, size: int) -> None:
        with disk(self.path):
            os.ftruncate(self._fd, size)

    def _check_size(self, size: int) -> None:
        if size > OBJECT_BYTES_MAX:
            raise ObjectTooLarge(f"{self.path.name}: {size} bytes; an object has at most 5TiB")

    def _close(self) -> None:
        self._spool.reserve(-self._valid.total)
        self._valid.cut(0)
        os.close(self._fd)
        self._spool.end_promise()


class StagedSnapshot:
    """A staged file as it was: bytes are moved aside before they are overwritten.

    Made under the lock of the file's user, read and closed without it.
    """

    def __init__(self, staged: StagedFile) -> None:
        self.size = staged.size
        self._staged = staged
        self._base = staged._base
        self._base_stop = staged._base_stop
        self._valid = staged._valid.copy()
        self._aside = Ranges()
        self._file: RawIOBase | None = None

    @property
    def parts(self) -> Sequence[Part]:
        """Return the parts of the object: bytes, holes, and ranges of the base."""
        return list(self._parts()) or [b""]

    def close(self) -> None:
        """Release what was moved aside."""
        with self._staged._moving:
            self._staged._snapshots.remove(self)
            file, self._file = self._file, None
        if file is not None:
            file.close()
            self._staged._spool.reserve(-self._aside.total)

    def preserve(self, start: int, stop: int) -> None:
        """Move bytes aside that are about to be overwritten. Raises NoSpace, Unavailable.

        The caller holds the lock of the staged file.
        """
        for first, last in list(self._aside.gaps(start, min(stop, self.size))):
            for begin, end in self._valid.within(first, last):
                self._move_aside(begin, end)

    def _move_aside(self, start: int, stop: int) -> None:
        staged = self._staged
        staged._spool.reserve(stop - start)
        try:
            with disk(staged.path):
                if self._file is None:
                    self._file = _nameless(staged.path.parent)
                fd = self._file.fileno()
                for at in range(start, stop, MOVED_BYTES):
                    data = memoryview(os.pread(staged._fd, min(MOVED_BYTES, stop - at), at))
                    while data:
                        count = os.pwrite(fd, data, at)
                        data, at = data[count:], at + count
        except NczfsError:
            staged._spool.reserve(start - stop)
            raise
        self._aside.add(start, stop)

    def _parts(self) -> Iterator[Part]:
        at = 0
        for start, stop in [*self._valid.gaps(0, self.size), (self.size, self.size)]:
            if start > at:
                yield Piece(self._read, at, start)
            if start < self._base_stop and stop > start:
                assert self._base is not None
                yield ByteRange(self._base.stat, start, min(stop, self._base_stop))
            if stop > max(start, self._base_stop):
                yield Zeros(stop - max(start, self._base_stop))
            at = stop

    def _read(self, start: int, stop: int) -> Buffer:
        data = bytearray(stop - start)
        staged = self._staged
        for at in range(start, stop, MOVED_BYTES):
            end = min(at + MOVED_BYTES, stop)
            with staged._moving, disk(staged.path):
                self._read_into(data, start, staged._fd, [*self._aside.gaps(at, end)])
                if self._file is not None:
                    self._read_into(
                        data, start, self._file.fileno(), [*self._aside.within(at, end)]
                    )
        return data

    def _read_into(
        self, data: bytearray, start: int, fd: int, ranges: Sequence[tuple[int, int]]
    ) -> None:
        for first, last in ranges:
            with memoryview(data)[first - start : last - start] as room:
                if os.preadv(fd, [room], first) < last - first:
                    raise Unavailable(f"{self._staged.path}: another program has shortened it")


@contextlib.contextmanager
def parts_of(snapshot: StagedSnapshot | None) -> Iterator[list[Part]]:
    """Yield the parts of an object, and release the snapshot; None: an empty object."""
    with contextlib.nullcontext() if snapshot is None else contextlib.closing(snapshot):
        yield [b""] if snapshot is None else list(snapshot.parts)


def _nameless(directory: Path) -> RawIOBase:
    """Make a file that is removed when it is closed."""
    return TemporaryFile(buffering=0, dir=directory)
