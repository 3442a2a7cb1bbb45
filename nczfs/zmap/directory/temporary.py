"""A file that is being filled, before it has the name of an object."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from typing import Final

from nczfs.zmap.directory.leftovers import new_temporary

_MODE: Final = 0o666
_NAMELESS: Final = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
_NAMED: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CANNOT: Final = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}


class Temporary:
    """A new file in a directory.

    If the file system can (``O_TMPFILE``), it has no name until it is complete: nothing remains if
    its writer is killed. Raises `OSError` of the system calls.

    Parameters
    ----------
    dir_fd : of the directory.
    locked : whether to lock the file while it has a temporary name: `Leftovers.sweep` removes files
        that are not locked.
    """

    def __init__(self, dir_fd: int, *, locked: bool) -> None:
        self._dir_fd = dir_fd
        self._locked = locked
        self._name: str | None = None
        try:
            self.fd = os.open(".", _NAMELESS, _MODE, dir_fd=dir_fd)
        except PermissionError as error:  # ext4's answer in a removed directory
            if os.fstat(dir_fd).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
            raise
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._name = new_temporary()
            self.fd = os.open(self._name, _NAMED, _MODE, dir_fd=dir_fd)
            self._lock()

    def make(self, leaf: str) -> None:
        """Become the file `leaf` if there is none. Raises FileExistsError if that can be known."""
        if self._name is None:
            self._link(leaf)
        else:
            self.replace(leaf)

    def replace(self, leaf: str) -> None:
        """Become the file `leaf`, replacing an existing one."""
        if self._name is None:
            name = new_temporary()
            self._lock()
            self._link(name)
            self._name = name
        os.rename(self._name, leaf, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
        self._name = None

    def close(self) -> None:
        """Close the file, which is removed unless it has become another."""
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._dir_fd)
        os.close(self.fd)

    def _link(self, name: str) -> None:
        os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._dir_fd)

    def _lock(self) -> None:
        if self._locked:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
