"""A bounded number of bytes in files without a name: new bytes push out the oldest.

Bytes are appended to the newest of a few segments, each in its own file. At the limit the oldest
segment is emptied as a whole. So nothing is allocated within a file, nothing fragments with any
sizes, and disks see long runs. What is not needed any more becomes a hole in its file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from nczfs.engine.options import GIB
from nczfs.plaindata import frozen

try:  # a twelfth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

BLOCK_BYTES = 16 << 10  # each block has a checksum; it is the least that is read
DEFAULT_LIMIT_BYTES = 10 * GIB
FREE_SHARE = 10  # by default at most one in so many free bytes of the file system is used
SEGMENTS = 16
SEGMENTS_MAX = 4 * SEGMENTS  # with holes, so that descriptors do not run out
RELEASED_MAX = 1024  # places that are remembered before they become holes
_PUNCH_HOLE = 0x2 | 0x1  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
GROWTH_BYTES = 16 << 20  # allocated at a time: ext4 writes 15 times as fast then
ALIGN_BYTES = 4096


class SpillSegment:
    """A file, its size, its holes, how far it is filled, and how much of that is still in use."""

    __slots__ = ("file", "filled", "holes", "is_gone", "live", "size")

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.size = 0
        self.holes = 0
        self.filled = 0
        self.live = 0
        self.is_gone = False

    @property
    def used_bytes(self) -> int:
        """Bytes that it takes on the disk."""
        return self.size - self.holes


@frozen
class SpillPlace:
    """The place of bytes, and the checksums of their blocks."""

    segment: SpillSegment
    offset: int
    nbytes: int
    checksums: tuple[int, ...]


class SpillFile:
    """Bytes on disk for this process only. Nothing remains of them after any end of the process.

    Any thread may call anything. `_changing` lets one at a time change the segments. `_lock` guards
    the users of the files, so that the last one closes them: a descriptor that is closed under a
    writer may soon belong to another file.

    Parameters
    ----------
    directory : of the files.
    limit_bytes : at most so many bytes, and no more than are free at first; None: 10 GiB, and no
        more than a tenth of the free space.
    """

    def __init__(self, directory: str, limit_bytes: int | None) -> None:
        self.directory = directory
        free = shutil.disk_usage(self.directory).free
        if limit_bytes is None:
            limit_bytes = min(DEFAULT_LIMIT_BYTES, free // FREE_SHARE)
        self.limit_bytes = min(limit_bytes, free)
        self._segments: deque[SpillSegment] = deque()
        self._spare: list[IO[bytes]] = []
        self._files: list[IO[bytes]] = []
        # For users of the library who do not close what they opened.
        self._close_files = weakref.finalize(self, _close_all, self._files)
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._released: list[SpillPlace] = []
        self._users = 0
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """The number of bytes that are in use on the disk."""
        return sum(segment.used_bytes for segment in list(self._segments))

    def make_room(self, nbytes: int) -> bool:
        """Empty the oldest segments until so many bytes fit. Returns whether any was emptied.

        Raises
        ------
        OSError.
        """
        with self._changing:
            growth = self._growth(nbytes)
            is_full = self.used_bytes + growth > self.limit_bytes
            if is_full or len(self._released) > RELEASED_MAX:
                self._punch_holes()
            gone = [segment for segment in self._segments if not segment.live]
            left = self.used_bytes - sum(segment.used_bytes for segment in gone)
            count = len(self._segments) - len(gone)
            for segment in self._segments:
                if left + growth <= self.limit_bytes and count < SEGMENTS_MAX:
                    break
                if segment not in gone:
                    gone.append(segment)
                    left -= segment.used_bytes
                    count -= 1
            self._empty(gone)
            return bool(gone)

    def append(self, data: memoryview) -> SpillPlace:
        """Append bytes, for which there is room. Raises OSError: nothing has changed."""
        found = checksums(data)
        with self._changing:
            segment = self._segments[-1] if self._segments else None
            if segment is None or segment.filled + data.nbytes > self.limit_bytes // SEGMENTS:
                segment = SpillSegment(self._spare.pop() if self._spare else self._new_file())
                self._segments.append(segment)
            end = segment.filled + taken(data.nbytes)
            if end > segment.size:
                self._grow_to(segment, end, self._growth(data.nbytes))
            place = SpillPlace(segment, segment.filled, data.nbytes, found)
            with self._using():
                at = 0
                while at < data.nbytes:
                    at += os.pwrite(segment.file.fileno(), data[at:], place.offset + at)
            segment.filled = end
            with self._lock:
                segment.live += data.nbytes
        return place

    def give_back(self) -> None:
        """Return the room of what was released to the file system. Raises OSError."""
        with self._changing:
            self._empty([segment for segment in self._segments if not segment.live])
            self._punch_holes()

    def limit_to_present(self) -> None:
        """Take the bytes that are in use as the limit from now on."""
        with self._changing:
            self._empty([segment for segment in self._segments if not segment.live])
            self.limit_bytes = min(self.limit_bytes, self.used_bytes)

    def read(self, place: SpillPlace, out: memoryview, start: int, stop: int) -> bool:
        """Read the blocks that contain bytes [start, stop) of a place to their position in `out`.

        Returns False if they are not what was written. This also happens if the segment was emptied
        meanwhile; only `SpillSegment.is_gone` afterwards tells that apart from a broken disk.

        Raises
        ------
        OSError.
        """
        first, last = start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)
        position, end = first * BLOCK_BYTES, min(last * BLOCK_BYTES, place.nbytes)
        blocks = out[position:end]
        with self._using():
            while position < end:
                got = os.preadv(
                    place.segment.file.fileno(), [out[position:end]], place.offset + position
                )
                if not got:
                    return False
                position += got
        return checksums(blocks) == place.checksums[first:last]

    def release(self, place: SpillPlace) -> None:
        """Note that these bytes are not needed any more."""
        with self._lock:
            place.segment.live -= place.nbytes
            self._released.append(place)

    def close(self) -> None:
        """Release everything as soon as no thread reads or writes. Later calls raise OSError."""
        with self._lock:
            self._closed = True
            if not self._users:
                self._close_files()

    def abandon(self) -> None:
        """Release the files in a forked process."""
        self._close_files()

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise OSError("closed")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._closed and not self._users:
                    self._close_files()

    def _empty(self, gone: list[SpillSegment]) -> None:
        for segment in gone:
            segment.is_gone = True
            self._segments.remove(segment)
            with self._using():
                os.ftruncate(segment.file.fileno(), 0)
            self._spare.append(segment.file)

    def _punch_holes(self) -> None:
        """Make holes of what was released, where the file system can."""
        with self._lock:
            released, self._released = self._released, []
        for place in released:
            if not place.segment.is_gone:
                nbytes = taken(place.nbytes)
                with self._using():
                    if _punch(place.segment.file.fileno(), place.offset, nbytes):
                        place.segment.holes += nbytes

    def _growth(self, nbytes: int) -> int:
        return max(taken(nbytes), min(GROWTH_BYTES, self.limit_bytes // SEGMENTS))

    def _grow_to(self, segment: SpillSegment, end: int, growth: int) -> None:
        """Make a segment longer, at best by `growth`. Raises OSError: the disk is full."""
        try:
            self._grow(segment, growth)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._grow(segment, end - segment.size)

    def _grow(self, segment: SpillSegment, nbytes: int) -> None:
        with self._using():
            try:
                os.posix_fallocate(segment.file.fileno(), segment.size, nbytes)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    os.ftruncate(segment.file.fileno(), segment.size)  # it may have begun
                    raise
        segment.size += nbytes

    def _new_file(self) -> IO[bytes]:
        with self._using():  # or nobody would close it
            file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with all the others
                dir=self.directory, prefix="nczfs-", buffering=0
            )
            self._files.append(file)
        return file


def _punch(descriptor: int, offset: int, nbytes: int) -> bool:
    """Make a hole in a file. Returns False if the file system has none."""
    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
    failed: int = fallocate(descriptor, _PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(nbytes))
    return not failed


def _close_all(files: list[IO[bytes]]) -> None:
    for file in files:
        file.close()


def taken(nbytes: int) -> int:
    """Return how much of the limit a number of bytes takes."""
    return -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES


def checksums(data: memoryview) -> tuple[int, ...]:
    """Return a checksum for each block."""
    return tuple(
        crc32(data[start : start + BLOCK_BYTES]) for start in range(0, data.nbytes, BLOCK_BYTES)
    )


def default_directory() -> str:
    """Return ``$TMPDIR`` or /var/tmp, since /tmp may be memory."""
    for directory in (os.environ.get("TMPDIR"), "/var/tmp"):
        if directory and os.access(directory, os.W_OK | os.X_OK):
            return directory
    return tempfile.gettempdir()
