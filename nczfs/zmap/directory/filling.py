"""Filling a new file with the parts of an object, keeping holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, NoSuchObject
from nczfs.zmap.base import ByteRange, Part, Zeros, part_bytes
from nczfs.zmap.directory.versions import version_of
from nczfs.zmap.fileio import read_at
from nczfs.zmap.keys import Key

_STEP_BYTES: Final = 16 << 20
_CANNOT_COPY: Final = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


def fill(fd: int, parts: Sequence[Part], opened: Callable[[Key], int]) -> None:
    """Write consecutive parts into an empty file.

    Parameters
    ----------
    opened : returns a descriptor of an object, to be closed.

    Raises
    ------
    NoSuchObject, Conflict : the source of a range is gone, or has another version. OSError.
    """
    for part in parts:
        match part:
            case ByteRange():
                _copy(fd, part, opened)
            case Zeros(size):
                os.lseek(fd, size, os.SEEK_CUR)
            case _:
                for data in part_bytes(part, _no_range):
                    write_all(fd, data)
    os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))


def write_all(fd: int, data: Buffer) -> None:
    """Write bytes at the position of the file."""
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(fd, left) :]


def _copy(fd: int, part: ByteRange, opened: Callable[[Key], int]) -> None:
    try:
        source = opened(part.stat.key)
    except FileNotFoundError as error:
        raise NoSuchObject(f"{part.stat.key}: no such object") from error
    try:
        _check(source, part)
        for start, stop, is_data in _extents(source, part.start, part.stop):
            if is_data:
                _copy_bytes(fd, source, start, stop)
            else:
                os.lseek(fd, stop - start, os.SEEK_CUR)
        _check(source, part)  # another program may have written into it meanwhile
    finally:
        os.close(source)


def _check(source: int, part: ByteRange) -> None:
    if version_of(os.fstat(source)) != part.stat.version:
        raise Conflict(f"{part.stat.key}: replaced since it was opened")


def _extents(source: int, start: int, stop: int) -> Iterator[tuple[int, int, bool]]:
    """Yield data and holes of a range, in order."""
    at = start
    while at < stop:
        try:
            data = os.lseek(source, at, os.SEEK_DATA)
            hole = os.lseek(source, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole up to the end
                data = hole = stop
            elif error.errno == errno.EINVAL:  # a file system without SEEK_DATA
                data, hole = at, stop
            else:
                raise
        if data > at:
            yield at, min(data, stop), False
        if data < stop:
            yield data, min(hole, stop), True
        at = min(hole, stop)


def _copy_bytes(fd: int, source: int, start: int, stop: int) -> None:
    while start < stop:
        try:
            count = os.copy_file_range(source, fd, min(stop - start, 1 << 30), start)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
            count = 0
        if not count:
            data = read_at(source, start, min(stop, start + _STEP_BYTES))
            if not data:
                return  # the file was shortened, as its version shows
            write_all(fd, data)
            count = len(data)
        start += count


def _no_range(part: ByteRange) -> Buffer:
    raise AssertionError(part)
