"""Replacing or deleting one object, so that readers, other processes and crashes see it whole."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from typing import Final

from nczfs.errors import AccessDenied, Conflict, NoSuchObject, ObjectExists, Unavailable
from nczfs.zmap.base import ABSENT, Part, Version
from nczfs.zmap.directory.filling import fill
from nczfs.zmap.directory.leftovers import Leftovers
from nczfs.zmap.directory.locking import hold_lock
from nczfs.zmap.directory.rooted import RootedDirectory
from nczfs.zmap.directory.temporary import Temporary
from nczfs.zmap.directory.versions import version_of, version_put
from nczfs.zmap.keys import Key

_ATTEMPTS: Final = 100  # each attempt fails only if a deletion empties the directory just then


class Replacer:
    """A replacer and deleter of objects.

    A write fills a temporary file and renames it to the object. Every replacement and deletion
    happens under ``flock`` on the directory of the object. Raises `OSError` of the system calls.

    Parameters
    ----------
    name : of the store, for messages.
    locks : whether the file system has flock; without it, conditions do not hold against races.
    durable, lock_timeout_s : as for the store.
    """

    def __init__(
        self,
        root: RootedDirectory,
        leftovers: Leftovers,
        name: str,
        *,
        locks: bool,
        durable: bool,
        lock_timeout_s: float,
    ) -> None:
        self._root = root
        self._leftovers = leftovers
        self._name = name
        self._locks = locks
        self._durable = durable
        self._lock_timeout_s = lock_timeout_s

    def write(
        self,
        key: Key,
        parts: Sequence[Part],
        replaces: Version | None,
        opened: Callable[[Key], int],
    ) -> Version:
        """Replace an object whole; with `replaces`, only that version.

        Parameters
        ----------
        opened : returns a descriptor of an object that a range refers to.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._replace(key, parts, replaces, opened)
            except FileNotFoundError:
                if self._root.is_gone():
                    raise  # and no directory can be made in it again
        raise Unavailable(f"{self._name}/{key}: its directory disappears whenever it is written to")

    def delete(self, key: Key, version: Version | None) -> None:
        """Delete an object, and the directories that contained nothing else.

        With `version`, only that version.
        """
        parent, _, leaf = key.rpartition("/")
        with self._root.directory(parent) as dir_fd:
            with self._locked(dir_fd):
                status = self._root.status(leaf, dir_fd)
                if not stat.S_ISREG(status.st_mode):
                    raise NoSuchObject(f"{self._name}/{key}: not a regular file")
                if version is not None and version != version_of(status):
                    raise self._replaced(key)
                os.unlink(leaf, dir_fd=dir_fd)
            if self._durable:
                os.fsync(dir_fd)
        self._leftovers.prune(parent)

    def _replace(
        self,
        key: Key,
        parts: Sequence[Part],
        replaces: Version | None,
        opened: Callable[[Key], int],
    ) -> Version:
        """Try once to write. Raises FileNotFoundError if the directory disappeared meanwhile."""
        parent, _, leaf = key.rpartition("/")
        dir_fd = self._root.make_directory(parent, durable=self._durable)
        is_written = False
        try:
            with closing(Temporary(dir_fd, locked=self._locks)) as temporary:
                fill(temporary.fd, parts, opened)
                if self._durable:
                    os.fsync(temporary.fd)
                with self._locked(dir_fd):
                    version = self._put_in_place(temporary, leaf, dir_fd, key, replaces)
            is_written = True
            if self._durable:
                os.fsync(dir_fd)
            return version
        finally:
            os.close(dir_fd)
            if not is_written:
                self._leftovers.prune(parent)

    def _put_in_place(
        self,
        temporary: Temporary,
        leaf: str,
        dir_fd: int,
        key: Key,
        replaces: Version | None,
    ) -> Version:
        """Compare and replace, under the lock of the directory."""
        fd = temporary.fd
        old = self._replaceable(leaf, dir_fd, key)
        if replaces is not None:
            current = ABSENT if old is None else version_of(old)
            if replaces == ABSENT != current:
                raise ObjectExists(f"{self._name}/{key}: exists already")
            if replaces != current:
                raise self._replaced(key)
        # Clocks tick in milliseconds and inode numbers are reused: without a distinct time a quick
        # second write of the same size could look like the first.
        mtime_ns = time.time_ns()
        if old is not None:
            mtime_ns = max(mtime_ns, old.st_mtime_ns + 1)
            with contextlib.suppress(PermissionError):  # a file system without modes
                os.fchmod(fd, stat.S_IMODE(old.st_mode))
        os.utime(fd, ns=(mtime_ns, mtime_ns))
        filled = os.fstat(fd)
        if old is not None:
            temporary.replace(leaf)
        else:
            try:
                temporary.make(leaf)
            except FileExistsError as error:  # by a program that ignores locks
                if replaces == ABSENT:
                    raise ObjectExists(f"{self._name}/{key}: exists already") from error
                temporary.replace(leaf)
        return version_put(filled, os.fstat(fd))

    def _replaceable(self, leaf: str, dir_fd: int, key: Key) -> os.stat_result | None:
        """Return the status of the object to replace; None if there is none."""
        try:
            status = self._root.status(leaf, dir_fd)
        except FileNotFoundError:
            return None
        if stat.S_ISREG(status.st_mode):
            return status
        if stat.S_ISDIR(status.st_mode):
            try:
                os.rmdir(leaf, dir_fd=dir_fd)
            except OSError as error:
                raise ObjectExists(f"{self._name}/{key}: a directory with keys below it") from error
            return None
        raise AccessDenied(f"{self._name}/{key}: not a regular file, and left alone")

    def _replaced(self, key: Key) -> Conflict:
        return Conflict(f"{self._name}/{key}: replaced by another client")

    def _locked(self, dir_fd: int) -> AbstractContextManager[None]:
        if not self._locks:
            return contextlib.nullcontext()
        return hold_lock(dir_fd, timeout_s=self._lock_timeout_s)
