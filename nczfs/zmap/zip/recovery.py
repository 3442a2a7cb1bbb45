"""Handling of a side file that was left beside its archive."""

from __future__ import annotations

import os

from nczfs.errors import Conflict
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.tail import SUFFIX, LeftTail, Seal, crc_of, fingerprint


def recover(fd: int, path: str, name: str) -> None:
    """Repeat or cut off an interrupted append; for the holder of the archive's lock.

    Raises
    ------
    Conflict : another program has changed the archive since.
    """
    left = LeftTail.of(path, os.fstat(fd).st_uid)
    if left is None:
        return
    try:
        seal = left.seal
        if seal is not None:
            size = os.fstat(fd).st_size
            is_whole = left.is_whole
            if not _fits(fd, size, seal):
                if is_whole:
                    raise Conflict(foreign_change(name))
            elif size != seal.new_size or crc_of(fd, seal.old_size, size) != seal.tail_crc:
                # Without all its bytes the append has not begun, since they reach the disk first.
                disk.truncate(fd, seal.old_size)
                if is_whole:
                    left.copy_to(fd, seal)
            disk.sync(fd)
    finally:
        left.close()
    disk.unlink(path + SUFFIX)
    disk.sync_directory(path)


def left_seal(path: str) -> Seal | None:
    """Return the seal of an archive's side file; None: there is none, or it is not trusted."""
    try:
        left = LeftTail.of(path, os.stat(path).st_uid)
    except PermissionError:
        return None
    if left is None:
        return None
    try:
        return left.seal
    finally:
        left.close()


def counting_size(fd: int, status: os.stat_result, seal: Seal | None) -> int | None:
    """Return the size of the archive beside its side file; None: the side file is foreign."""
    if seal is None:
        return status.st_size
    if not _fits(fd, status.st_size, seal):
        return None
    is_new = status.st_size == seal.new_size
    if is_new and crc_of(fd, seal.old_size, seal.new_size) == seal.tail_crc:
        return seal.new_size
    return seal.old_size


def _fits(fd: int, size: int, seal: Seal) -> bool:
    """Return whether a side file can belong to a file, also if it was partly appended."""
    is_between = seal.old_size <= size <= seal.new_size
    return is_between and fingerprint(fd, seal.old_size) == seal.old_crc


def foreign_change(name: str) -> str:
    """Return the message about such an archive."""
    return (
        f"{name}: was changed by another program while {name}{SUFFIX} waited to be appended to "
        "it; remove that file to drop its contents"
    )
