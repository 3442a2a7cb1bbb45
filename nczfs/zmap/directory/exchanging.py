"""Replacing a whole directory in one step: a new one is filled aside, and exchanged with it.

The new directory lies in a hidden one beside the old one. After the exchange (renameat2(2),
RENAME_EXCHANGE), the old one lies there. Whatever lies there in the end is removed: by its writer,
or, if that was killed, by the next listing of the directory around it, which sees that nobody holds
the lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from nczfs.zmap.aside import Aside, new_aside
from nczfs.zmap.directory.rooted import DIRECTORY, RootedDirectory
from nczfs.zmap.keys import Prefix, join

_RENAME_EXCHANGE: Final = 2
_PLACE: Final = "new"  # below the directory on which the lock is held, because writers lock theirs


def can_exchange() -> bool:
    """Return whether the C library has renameat2(2). File systems without it refuse it later."""
    return _renameat2() is not None


@contextlib.contextmanager
def aside(root: RootedDirectory, prefix: Prefix, path: str, *, durable: bool) -> Iterator[Aside]:
    """Yield a place beside a directory; see `ZMap.aside`. Raises `OSError` of the system calls.

    Parameters
    ----------
    path : below the place, of the new directory.
    durable : whether the exchange returns when it would survive a power failure.
    """
    parent, _, leaf = prefix.rpartition("/")
    with root.directory(parent) as dir_fd:
        status = os.stat(leaf, dir_fd=dir_fd, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is a link, and not exchanged", leaf)
        name, held = _made(dir_fd)
        place = f"{name}/{_PLACE}"
        try:

            def exchange() -> None:
                new = f"{place}/{path}".rstrip("/")
                with root.directory(join(parent, new)) as new_fd:
                    with contextlib.suppress(PermissionError):  # a file system without modes
                        os.fchmod(new_fd, stat.S_IMODE(status.st_mode))
                    if durable:
                        os.fsync(new_fd)
                _exchange(dir_fd, leaf, new)
                if durable:
                    os.fsync(dir_fd)

            yield Aside(Prefix(join(parent, place)), exchange)
        finally:
            with contextlib.suppress(OSError):  # the next listing tries again
                shutil.rmtree(name, dir_fd=dir_fd)
            os.close(held)


def _made(dir_fd: int) -> tuple[str, int]:
    """Make a hidden directory. Returns its name, and the descriptor that holds the lock."""
    while True:
        name = new_aside()
        os.mkdir(name, dir_fd=dir_fd)
        with contextlib.suppress(FileNotFoundError):  # a listing may remove it before it is locked
            held = os.open(name, os.O_RDONLY | DIRECTORY, dir_fd=dir_fd)
            fcntl.flock(held, fcntl.LOCK_EX)
            if os.fstat(held).st_nlink:
                return name, held
            os.close(held)


def _exchange(dir_fd: int, one: str, other: str) -> None:
    call = _renameat2()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    if call(dir_fd, os.fsencode(one), dir_fd, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), one)


@cache
def _renameat2() -> Any | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
