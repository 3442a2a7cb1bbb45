"""Directory descriptors that cannot leave the root they were opened below.

Paths are not first checked and then opened, because they could change in between: a directory is
opened without effect (``O_PATH``), the kernel is asked for the real path of that descriptor, and
everything else happens relative to the descriptor. Symbolic links within the root work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Iterator
from typing import Final

DIRECTORY: Final = os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a FIFO that looks like an object must not hold the reader.
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class RefusedLink(PermissionError):
    """A symbolic link leads out of the root, or nowhere."""


class RootedDirectory:
    """A directory held open, and what lies below it.

    Raises `OSError` of the system calls, including `RefusedLink`. All methods are thread-safe.
    Paths are relative, joined by "/", and contain no ``..``; "" is the root. It is closed when
    nobody has it any more, as a file of Python is.
    """

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_PATH | DIRECTORY)
        self._closing = weakref.finalize(self, os.close, self.fd)
        self._closing.atexit = False  # threads may use it up to the very end
        self._where = _where(self.fd)

    def open_directory(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a descriptor of a directory below the root; `flags` may be ``O_PATH``."""
        if "/" not in path and path != "..":
            try:  # a name right below the root that is no link leads nowhere else
                return os.open(path or ".", flags | DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
        fd = os.open(path, flags | DIRECTORY, dir_fd=self.fd)
        return self._inside(fd, path)

    @contextlib.contextmanager
    def directory(self, path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        """Open a directory during the block."""
        fd = self.open_directory(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def make_directory(self, path: str, *, durable: bool) -> int:
        """Open a readable descriptor of a directory, made with missing parents."""
        try:
            return self.open_directory(path)
        except FileNotFoundError:
            pass
        fd = self.open_directory("")
        for name in path.split("/"):
            try:
                below = self._make_child(fd, name, durable=durable)
            finally:
                os.close(fd)
            fd = below
        return fd

    def open_link(self, name: str, dir_fd: int, flags: int) -> int:
        """Open what a symbolic link in the directory `dir_fd` points to.

        A link that leads nowhere is no missing object: tools such as git-annex leave one for a file
        whose content is elsewhere.
        """
        try:
            fd = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=dir_fd)
        except FileNotFoundError as error:
            os.stat(name, dir_fd=dir_fd, follow_symlinks=False)  # it may have been removed
            raise RefusedLink(errno.EACCES, "a symbolic link leads nowhere", name) from error
        found = self._inside(fd, name)
        if flags & os.O_PATH:
            return found
        try:
            return os.open(f"/proc/self/fd/{found}", flags & ~os.O_NOFOLLOW)
        finally:
            os.close(found)

    def status(self, name: str, dir_fd: int) -> os.stat_result:
        """Return the status of a name in the directory `dir_fd`, or of what it links to."""
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        return self.linked(name, dir_fd) if stat.S_ISLNK(status.st_mode) else status

    def linked(self, name: str, dir_fd: int) -> os.stat_result:
        """Return the status of what a symbolic link in the directory `dir_fd` points to."""
        fd = self.open_link(name, dir_fd, os.O_PATH)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def is_gone(self) -> bool:
        """Return whether the root itself was removed, so that no name below it can be used."""
        return os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        """Close the descriptor of the root; may be called twice."""
        self.fd = -1
        self._closing()

    def _make_child(self, fd: int, name: str, *, durable: bool) -> int:
        try:
            os.mkdir(name, dir_fd=fd)
            if durable:
                os.fsync(fd)
        except FileExistsError:
            pass
        return self._inside(os.open(name, os.O_RDONLY | DIRECTORY, dir_fd=fd), name)

    def _inside(self, fd: int, name: str) -> int:
        """Return the descriptor if it is below the root."""
        try:
            is_inside = self._holds(_where(fd))
        except OSError:
            os.close(fd)
            raise
        if not is_inside:
            os.close(fd)
            raise RefusedLink(errno.EACCES, "a symbolic link leads out of the store", name)
        return fd

    def _holds(self, path: str) -> bool:
        if _is_below(path, self._where):
            return True
        self._where = _where(self.fd)  # the root may have been renamed since
        return _is_below(path, self._where)


def _where(fd: int) -> str:
    """Return the kernel's path of a descriptor, with every link resolved."""
    return os.readlink(f"/proc/self/fd/{fd}")


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
