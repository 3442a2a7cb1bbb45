"""The system calls that change an archive or its side file, in one place.

They raise `OSError`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final

from nczfs.buffers import Buffer

_FICLONE: Final = 0x40049409  # linux/fs.h; the manual page is ioctl_ficlone(2)
_COPY_BYTES: Final = 8 << 20
_JOINED_BYTES: Final = 64 << 10
_NO_COPYING: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ETXTBSY, errno.EPERM}
)


def write_at(fd: int, data: Buffer, offset: int) -> None:
    """Write all of some bytes."""
    left = memoryview(data).cast("B")
    while left:
        written = os.pwrite(fd, left, offset)
        left = left[written:]
        offset += written


def write_all_at(fd: int, parts: Sequence[Buffer], offset: int) -> int:
    """Write consecutive parts. Returns the number of bytes."""
    size = sum(map(len, parts))
    if size <= _JOINED_BYTES:  # copying costs less than a system call
        parts = [b"".join(parts)]
    for part in parts:
        write_at(fd, part, offset)
        offset += len(part)
    return size


def copy(source: int, start: int, stop: int, target: int, offset: int) -> None:
    """Copy bytes [start, stop) of a file into another, in the kernel if possible.

    Raises
    ------
    OSError : with EIO also if the source ends before.
    """
    in_kernel = True
    while start < stop:
        count = 0
        if in_kernel:
            try:
                count = os.copy_file_range(source, target, stop - start, start, offset)
            except OSError as error:
                if error.errno not in _NO_COPYING:
                    raise
                in_kernel = False
                continue
        else:
            data = os.pread(source, min(stop - start, _COPY_BYTES), start)
            write_at(target, data, offset)
            count = len(data)
        if count == 0:
            raise OSError(errno.EIO, "a file is shorter than it should be")
        start += count
        offset += count


def clone(source: int, target: int) -> bool:
    """Share all blocks of a file with an empty one, if the file system can."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False


def truncate(fd: int, size: int) -> None:
    """Cut a file to a size."""
    os.ftruncate(fd, size)


def sync(fd: int) -> None:
    """Wait until a file survives a power failure."""
    os.fsync(fd)


def sync_directory(path: str) -> None:
    """Wait until the names in the directory of a file survive a power failure."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def rename(path: str, target: str) -> None:
    """Replace a file by another."""
    os.rename(path, target)


def unlink(path: str) -> None:
    """Remove a file."""
    os.unlink(path)
