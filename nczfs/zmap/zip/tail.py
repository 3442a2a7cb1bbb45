"""The side file of an archive that grows: ``NAME.zip.nczfs-tail``.

It contains a seal and the bytes that follow the archive. While the seal is empty they are
uncommitted writes; once it gives their number and checksum, they belong to the archive, and the
append can be repeated after any interruption.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from nczfs.buffers import Buffer
from nczfs.plaindata import frozen
from nczfs.zmap import fileio
from nczfs.zmap.zip import disk

try:  # a fifth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

SUFFIX: Final = ".nczfs-tail"
HEADER_BYTES: Final = 64
FINGERPRINT_BYTES: Final = 64 << 10
_MAGIC: Final = b"nczfsT1\n"
_SEAL: Final = struct.Struct("<8s2Q2L")
_PIECE_BYTES: Final = 8 << 20
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@frozen
class Seal:
    """The description of a side file's bytes.

    Attributes
    ----------
    old_size : of the archive that they are appended to.
    old_crc : of the last 64 KiB of that archive, for recognising it.
    tail_size, tail_crc : of the bytes.
    """

    old_size: int
    old_crc: int
    tail_size: int
    tail_crc: int

    @property
    def new_size(self) -> int:
        """The size of the archive after the append."""
        return self.old_size + self.tail_size

    def packed(self) -> bytes:
        """Return the seal as it is in the file."""
        fields = _SEAL.pack(_MAGIC, self.old_size, self.tail_size, self.old_crc, self.tail_crc)
        return fields + zlib.crc32(fields).to_bytes(4, "little")

    @classmethod
    def unpacked(cls, data: bytes) -> Seal | None:
        """Read the seal in the first bytes of a side file; None: there is none, or a torn one."""
        fields, crc = data[: _SEAL.size], data[_SEAL.size : _SEAL.size + 4]
        if len(crc) < 4 or zlib.crc32(fields) != int.from_bytes(crc, "little"):
            return None
        magic, old_size, tail_size, old_crc, tail_crc = _SEAL.unpack(fields)
        return cls(old_size, old_crc, tail_size, tail_crc) if magic == _MAGIC else None


class Tail:
    """A side file that its only writer fills.

    Attributes
    ----------
    size : of the bytes that are in it.
    """

    def __init__(self, archive_path: str, mode: int) -> None:
        self.path = archive_path + SUFFIX
        self.size = 0
        self._crc = 0
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        try:
            # All readers of the archive have to know which part of it is valid.
            with contextlib.suppress(PermissionError):
                os.fchmod(self._fd, mode)
            self.reset()
            disk.sync_directory(self.path)
        except BaseException:
            os.unlink(self.path)
            os.close(self._fd)
            raise

    def append(self, parts: Sequence[Buffer]) -> None:
        """Append bytes, or none if that fails."""
        written = disk.write_all_at(self._fd, parts, HEADER_BYTES + self.size)
        for part in parts:
            self._crc = crc32(part, self._crc)
        self.size += written

    def mark(self) -> tuple[int, int]:
        """Return a place for `go_back`."""
        return self.size, self._crc

    def go_back(self, mark: tuple[int, int]) -> None:
        """Forget what was appended since a mark, and the seal."""
        self.size, self._crc = mark
        disk.write_at(self._fd, bytes(HEADER_BYTES), 0)

    def read(self, start: int, stop: int) -> bytes:
        """Read its bytes [start, stop)."""
        return fileio.read_at(self._fd, HEADER_BYTES + start, HEADER_BYTES + stop)

    def seal(self, old_size: int, old_crc: int) -> None:
        """Make the bytes belong to the archive, durably."""
        seal = Seal(old_size, old_crc, self.size, self._crc)
        disk.write_at(self._fd, seal.packed(), 0)
        disk.sync(self._fd)

    def copy_to(self, fd: int, offset: int) -> None:
        """Append the bytes to a file."""
        disk.copy(self._fd, HEADER_BYTES, HEADER_BYTES + self.size, fd, offset)

    def reset(self) -> None:
        """Empty the file and remove the seal."""
        disk.write_at(self._fd, bytes(HEADER_BYTES), 0)
        disk.truncate(self._fd, HEADER_BYTES)
        self.size = self._crc = 0

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._fd)


class LeftTail:
    """A side file that exists when an archive is opened, for reading.

    Attributes
    ----------
    seal : None: none, or a torn one.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.seal = Seal.unpacked(os.pread(fd, HEADER_BYTES, 0))

    @classmethod
    def of(cls, archive_path: str, owner: int) -> LeftTail | None:
        """Open the side file of an archive; None: there is none that can be trusted.

        Any user who may write into the directory could have put one there: it must belong to this
        user, or to the owner of the archive.
        """
        try:
            fd = os.open(archive_path + SUFFIX, os.O_RDONLY | _FLAGS)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ELOOP}:
                return None
            raise
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in {owner, os.geteuid()}:
            os.close(fd)
            return None
        return cls(fd)

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of the seal are there."""
        seal = self.seal
        if seal is None or os.fstat(self._fd).st_size < HEADER_BYTES + seal.tail_size:
            return False
        return crc_of(self._fd, HEADER_BYTES, HEADER_BYTES + seal.tail_size) == seal.tail_crc

    def copy_to(self, fd: int, seal: Seal) -> None:
        """Append the bytes to the archive."""
        disk.copy(self._fd, HEADER_BYTES, HEADER_BYTES + seal.tail_size, fd, seal.old_size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def fingerprint(fd: int, size: int) -> int:
    """Return the checksum of the last of a file's first `size` bytes, which are the archive."""
    return crc_of(fd, max(0, size - FINGERPRINT_BYTES), size)


def crc_of(fd: int, start: int, stop: int) -> int:
    """Return the checksum of bytes [start, stop) of a file, as far as it has them."""
    crc = 0
    for at in range(start, stop, _PIECE_BYTES):
        crc = crc32(fileio.read_at(fd, at, min(at + _PIECE_BYTES, stop)), crc)
    return crc
