"""A bounded amount of bytes in files without a name: the last to come in push out the first.

What is appended goes to the end of the newest of a few segments, each a file of its own. Where the
limit is reached the oldest segment is emptied as a whole. So there is nothing to allocate inside of
a file and nothing that fragments, whatever sizes come, and disks see long runs.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from nczfs.engine.options import GIB

try:  # a twelfth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

BLOCK_BYTES = 16 << 10  # with a checksum of its own: the least that is read
DEFAULT_LIMIT_BYTES = 10 * GIB
FREE_SHARE = 10  # by default at most one in so many free bytes of the file system is taken
SEGMENTS = 16
GROWTH_BYTES = 16 << 20  # taken from the file system at a time: ext4 writes 15 times as fast then
ALIGN_BYTES = 4096


class Segment:
    """A file, its size, how far it is filled, and how much of that is still wanted."""

    __slots__ = ("file", "filled", "is_gone", "live", "size")

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.size = 0
        self.filled = 0
        self.live = 0
        self.is_gone = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where bytes lie, and the checksums of their blocks."""

    segment: Segment
    offset: int
    nbytes: int
    checksums: tuple[int, ...]


class SpillFile:
    """Bytes on disk for this process alone; nothing remains of them when it ends, however it ends.

    One thread at a time appends; any may read. `_lock` guards who uses the files, so that they are
    closed by the last one: a descriptor that is closed under a writer may be somebody else's next.

    Parameters
    ----------
    directory : where.
    limit_bytes : how much at most; None: 10 GiB, and no more than a tenth of what is free there.
    """

    def __init__(self, directory: str, limit_bytes: int | None) -> None:
        self.directory = directory
        if limit_bytes is None:
            free = shutil.disk_usage(self.directory).free
            limit_bytes = min(DEFAULT_LIMIT_BYTES, free // FREE_SHARE)
        self.limit_bytes = limit_bytes
        self._segments: deque[Segment] = deque()
        self._spare: list[IO[bytes]] = []
        self._files: list[IO[bytes]] = []
        # For the users of the library who do not close what they opened.
        self._close_files = weakref.finalize(self, _close_all, self._files)
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes that are taken on the disk."""
        return sum(segment.size for segment in list(self._segments))

    def make_room(self, nbytes: int) -> bool:
        """Empty the oldest segments until so many bytes can be appended; True if any was emptied.

        Raises
        ------
        OSError.
        """
        gone = [segment for segment in self._segments if not segment.live]
        left = self.used_bytes - sum(segment.size for segment in gone)
        for segment in self._segments:
            if left + self._growth(nbytes) <= self.limit_bytes:
                break
            if segment not in gone:
                gone.append(segment)
                left -= segment.size
        for segment in gone:
            segment.is_gone = True
            self._segments.remove(segment)
            with self._using():
                os.ftruncate(segment.file.fileno(), 0)
            self._spare.append(segment.file)
        return bool(gone)

    def append(self, data: memoryview) -> Place:
        """Write bytes, for which there is room, behind the others. Raises OSError."""
        found = checksums(data)
        segment = self._segments[-1] if self._segments else None
        if segment is None or segment.filled + data.nbytes > self.limit_bytes // SEGMENTS:
            segment = Segment(self._spare.pop() if self._spare else self._new_file())
            self._segments.append(segment)
        place = Place(segment, segment.filled, data.nbytes, found)
        segment.filled += taken(data.nbytes)
        with self._lock:
            segment.live += data.nbytes
        if segment.filled > segment.size:
            self._grow(segment, self._growth(data.nbytes))
        with self._using():
            written = 0
            while written < data.nbytes:
                written += os.pwrite(segment.file.fileno(), data[written:], place.offset + written)
        return place

    def read(self, place: Place, out: memoryview, start: int, stop: int) -> bool:
        """Read the blocks that hold the bytes [start, stop) of a place to where they lie in `out`.

        False when they are not what was written: also when the segment was emptied meanwhile,
        which only a look at `Segment.is_gone` afterwards tells from a broken disk.

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

    def release(self, place: Place) -> None:
        """These bytes are not wanted any more."""
        with self._lock:
            place.segment.live -= place.nbytes

    def close(self) -> None:
        """Give everything back, as soon as nobody reads or writes. OSError for those who come."""
        with self._lock:
            self._closed = True
            if not self._users:
                self._close_files()

    def abandon(self) -> None:
        """Let go of the files in a process that was forked off."""
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

    def _growth(self, nbytes: int) -> int:
        return max(taken(nbytes), min(GROWTH_BYTES, self.limit_bytes // SEGMENTS))

    def _grow(self, segment: Segment, nbytes: int) -> None:
        with self._using():
            try:
                os.posix_fallocate(segment.file.fileno(), segment.size, nbytes)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
        segment.size += nbytes

    def _new_file(self) -> IO[bytes]:
        file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with all the others
            dir=self.directory, prefix="nczfs-", buffering=0
        )
        self._files.append(file)
        return file


def _close_all(files: list[IO[bytes]]) -> None:
    for file in files:
        file.close()


def taken(nbytes: int) -> int:
    """What bytes take of the limit."""
    return -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES


def checksums(data: memoryview) -> tuple[int, ...]:
    """One for each block."""
    return tuple(
        crc32(data[start : start + BLOCK_BYTES]) for start in range(0, data.nbytes, BLOCK_BYTES)
    )


def default_directory() -> str:
    """``$TMPDIR`` or /var/tmp, since /tmp may be memory."""
    for directory in (os.environ.get("TMPDIR"), "/var/tmp"):
        if directory and os.access(directory, os.W_OK | os.X_OK):
            return directory
    return tempfile.gettempdir()
