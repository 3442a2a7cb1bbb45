"""What a side file that was left means for its archive."""

from __future__ import annotations

import os

from nczfs.errors import Conflict
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.tail import SUFFIX, LeftTail, Seal, crc_of, fingerprint


def recover(fd: int, path: str, name: str) -> None:
    """Repeat or cut off an append that was interrupted; for whoever holds the lock of the archive.

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
                # Without its bytes the append cannot have begun: they were on the disk before.
                disk.truncate(fd, seal.old_size)
                if is_whole:
                    left.copy_to(fd, seal)
            disk.sync(fd)
    finally:
        left.close()
    disk.unlink(path + SUFFIX)
    disk.sync_directory(path)


def left_seal(path: str) -> Seal | None:
    """The seal of the side file of an archive; None where there is none, or none to be trusted."""
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
    """How much of a file is an archive beside a side file; None: all, and that is not of it."""
    if seal is None:
        return status.st_size
    if not _fits(fd, status.st_size, seal):
        return None
    is_new = status.st_size == seal.new_size
    if is_new and crc_of(fd, seal.old_size, seal.new_size) == seal.tail_crc:
        return seal.new_size
    return seal.old_size


def _fits(fd: int, size: int, seal: Seal) -> bool:
    """Whether a file can be what a side file is to be appended to, or has been in part."""
    is_between = seal.old_size <= size <= seal.new_size
    return is_between and fingerprint(fd, seal.old_size) == seal.old_crc


def foreign_change(name: str) -> str:
    """What to tell whoever has such an archive."""
    return (
        f"{name}: was changed by another program while {name}{SUFFIX} waited to be appended to "
        "it; remove that file to give up what is in it"
    )
