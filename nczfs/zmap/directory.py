"""A store that is a directory tree: the key ``a/b`` is the file ``root/a/b``."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final

from nczfs.errors import (
    AccessDenied,
    BadKey,
    Conflict,
    DeadlinePassed,
    KeyTooLong,
    NoContent,
    NoSuchObject,
    ObjectExists,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)
from nczfs.zmap.base import ABSENT, Blob, Buffer, Entry, Features, Stat, Version, ZMap
from nczfs.zmap.casing import other_spelling, seen_case_sensitive, tried_case_sensitive
from nczfs.zmap.dirlock import can_lock, hold_lock
from nczfs.zmap.keys import MAX_KEY_BYTES, OWN_FILES, Key, Prefix, is_name, join
from nczfs.zmap.oserrors import ERRORS, kind_of
from nczfs.zmap.rooted import OutsideRoot, RootedDirectory

TEMPORARY: Final = f"{OWN_FILES}tmp-"

# O_NONBLOCK: a FIFO that looks like an object must not hold the reader.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS: Final = 100  # each is lost only to a delete that empties the directory just then

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    **ERRORS,
    errno.ELOOP: NoSuchObject,  # links that lead nowhere
    errno.EAGAIN: DeadlinePassed,  # others kept the lock
    errno.EILSEQ: BadKey,  # a file system that takes UTF-8 names only
}


class DirectoryZMap(ZMap):
    """Objects as files below a directory.

    A write makes a temporary file beside the object and renames it, so that readers and crashes
    see the old or the new object. Conditional writes hold between processes: every replacement
    and deletion happens under ``flock`` on the directory of the object. Symbolic links work as
    long as they stay inside the root. Other people's files that are not regular are not seen and
    not touched; a directory goes with its last key. A directory without keys is not shown, so
    `search` looks into each directory until it finds a key.

    Parameters
    ----------
    root : an existing directory.
    read_only : refuse writes.
    durable : a write returns when the object would survive a power failure (fsync).
    lock_timeout_s : how long a write waits for another one in the same directory.

    Raises
    ------
    NoContent : the root does not exist or is not a directory.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read_only: bool = False,
        durable: bool = False,
        lock_timeout_s: float = 10.0,
    ) -> None:
        path = Path(os.path.abspath(root))
        self._name = path.as_uri()
        self._durable = durable
        self._lock_timeout_s = lock_timeout_s
        try:
            self._root = RootedDirectory(str(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoContent(f"{self._name}: no such directory") from error
        except OSError as error:
            raise _translated(error, self._name) from error
        try:
            with self._directory("") as fd:
                self._locks = not read_only and can_lock(fd)
                case_sensitive = seen_case_sensitive(fd)
            self._is_case_known = case_sensitive is not None
            self._features = Features(
                writable=not read_only,
                conditional_writes=self._locks,
                case_sensitive=case_sensitive is not False,
            )
        except OSError as error:
            self._root.close()
            raise _translated(error, self._name) from error

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return self._features

    def prepare_writing(self) -> Features:
        """Find out whether names that differ in case are told apart, if no name tells yet."""
        if self._features.writable and not self._is_case_known:
            with contextlib.suppress(OSError), self._directory("") as fd:  # else writes will tell
                tells = tried_case_sensitive(fd, f"{TEMPORARY}{secrets.token_hex(8)}")
                self._features = replace(self._features, case_sensitive=tells)
                self._is_case_known = True
        return self._features

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        try:
            fd = self._open(key)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise NoSuchObject(f"{self._name}/{key}: not a regular file")
                found = _version(status)
                if version is not None and version != found:
                    raise Conflict(f"{self._name}/{key}: replaced since it was opened")
                size = status.st_size
                last = size if stop is None or stop > size else stop
                data = _pread(fd, start, last - start) if start < last else b""
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failure(error, key) from error
        if len(data) < last - start:
            raise Unavailable(f"{self._name}/{key}: shortened while it was read")
        return Blob(data, found, size, status.st_mtime_ns)

    def write(self, key: Key, data: Buffer, *, replaces: Version | None = None) -> Version:
        self._check_writable(key)
        try:
            if not self._features.case_sensitive:
                with contextlib.suppress(FileNotFoundError):
                    self._check_spelling(key)
            for _ in range(_ATTEMPTS):
                with contextlib.suppress(FileNotFoundError):
                    return self._replace(key, data, replaces)
        except NotADirectoryError as error:
            raise ObjectExists(
                f"{self._name}/{key}: an object has the name of its directory"
            ) from (error)
        except OSError as error:
            raise self._failure(error, key) from error
        raise Unavailable(f"{self._name}/{key}: its directory disappears whenever it is written to")

    def delete(self, key: Key) -> None:
        self._check_writable(key)
        parent, _, leaf = key.rpartition("/")
        try:
            with self._directory(parent) as dir_fd:
                with self._locked(dir_fd):
                    if not stat.S_ISREG(self._root.status(leaf, dir_fd).st_mode):
                        raise NoSuchObject(f"{self._name}/{key}: not a regular file")
                    os.unlink(leaf, dir_fd=dir_fd)
                if self._durable:
                    os.fsync(dir_fd)
        except OSError as error:
            raise self._failure(error, key) from error
        self._prune(parent)

    def stat(self, key: Key) -> Stat:
        parent, _, leaf = key.rpartition("/")
        try:
            dir_fd = self._root.open_directory(parent, os.O_PATH)
            try:
                status = self._root.status(leaf, dir_fd)
            finally:
                os.close(dir_fd)
        except OSError as error:
            raise self._failure(error, key) from error
        if not stat.S_ISREG(status.st_mode):
            raise NoSuchObject(f"{self._name}/{key}: not a regular file")
        return _stat(key, status)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        with self._asking(prefix):
            for key, status, _ in self._children(prefix):
                if stat.S_ISREG(status.st_mode):
                    yield Entry(key.rpartition("/")[2], _stat(key, status), is_prefix=False)
                elif stat.S_ISDIR(status.st_mode) and self._has_keys(key):
                    yield Entry(key.rpartition("/")[2], None, is_prefix=True)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        with self._asking(prefix):
            for key, status in self._walk(prefix):
                yield _stat(key, status)

    def close(self) -> None:
        """Close the descriptor of the root."""
        self._root.close()

    def _open(self, key: Key) -> int:
        parent, _, leaf = key.rpartition("/")
        dir_fd = self._root.open_directory(parent, os.O_PATH) if parent else self._root.fd
        try:
            return os.open(leaf, _READ, dir_fd=dir_fd)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return self._root.open_link(leaf, dir_fd, _READ)
        finally:
            if parent:
                os.close(dir_fd)

    @contextlib.contextmanager
    def _directory(self, path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        fd = self._root.open_directory(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def _replace(self, key: Key, data: Buffer, replaces: Version | None) -> Version:
        """One attempt to write; FileNotFoundError when the directory went away meanwhile."""
        parent, _, leaf = key.rpartition("/")
        dir_fd = self._root.make_directory(parent, durable=self._durable)
        temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            fd = os.open(temporary, _CREATE, 0o666, dir_fd=dir_fd)
            try:
                if self._locks:
                    # Held as long as we live: `_sweep` removes what nobody holds.
                    fcntl.flock(fd, fcntl.LOCK_EX)
                _write_all(fd, data)
                if self._durable:
                    os.fsync(fd)
                with self._locked(dir_fd):
                    version = self._put_in_place(fd, temporary, leaf, dir_fd, key, replaces)
                if self._durable:
                    os.fsync(dir_fd)
                return version
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=dir_fd)
                self._prune(parent)
                raise
            finally:
                os.close(fd)
        finally:
            os.close(dir_fd)

    def _put_in_place(
        self,
        fd: int,
        temporary: str,
        leaf: str,
        dir_fd: int,
        key: Key,
        replaces: Version | None,
    ) -> Version:
        """Compare and rename, under the lock of the directory."""
        old = self._replaceable(leaf, dir_fd, key)
        if replaces is not None:
            current = ABSENT if old is None else _version(old)
            if replaces == ABSENT != current:
                raise ObjectExists(f"{self._name}/{key}: exists already")
            if replaces != current:
                raise Conflict(f"{self._name}/{key}: replaced by somebody else")
        # Clocks tick in milliseconds and inode numbers are used again: without a time of its own
        # a quick second write of the same size could look like the first.
        mtime_ns = time.time_ns()
        if old is not None:
            mtime_ns = max(mtime_ns, old.st_mtime_ns + 1)
            with contextlib.suppress(PermissionError):  # a file system without modes
                os.fchmod(fd, stat.S_IMODE(old.st_mode))
        os.utime(fd, ns=(mtime_ns, mtime_ns))
        version = _version(os.fstat(fd))
        os.rename(temporary, leaf, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        return version

    def _check_spelling(self, key: Key) -> None:
        """Refuse a key that the file system would take for another one."""
        parent = ""
        for leaf in key.split("/"):
            with self._directory(parent) as dir_fd:
                if other := other_spelling(leaf, dir_fd):
                    raise ObjectExists(
                        f"{self._name}/{key}: {other} is there, and this file system does not tell "
                        f"it from {leaf}"
                    )
            parent = join(parent, leaf)

    def _replaceable(self, leaf: str, dir_fd: int, key: Key) -> os.stat_result | None:
        """The status of the object to replace, None where there is none."""
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

    def _locked(self, dir_fd: int) -> AbstractContextManager[None]:
        if not self._locks:
            return contextlib.nullcontext()
        return hold_lock(dir_fd, timeout_s=self._lock_timeout_s)

    def _prune(self, path: str) -> None:
        """Remove a directory and those above it, as far as they are empty; never the root."""
        while path:
            parent, _, leaf = path.rpartition("/")
            try:
                with self._directory(parent, os.O_PATH) as dir_fd:
                    os.rmdir(leaf, dir_fd=dir_fd)
            except OSError:
                return  # not empty, somebody else's, or gone already
            path = parent

    def _children(self, prefix: str) -> Iterator[tuple[Key, os.stat_result, bool]]:
        """What stands in a directory, links followed, and whether it is one.

        Nothing where there is no directory.
        """
        try:
            dir_fd = self._root.open_directory(prefix)
        except OutsideRoot:
            return
        except OSError as error:
            if _is_absent(error) and not self._root.is_gone():
                return
            raise
        swept = False
        try:
            with os.scandir(dir_fd) as entries:
                for entry in entries:
                    if not is_name(entry.name) or not _fits(key := join(prefix, entry.name)):
                        swept |= self._sweep(entry.name, dir_fd)
                        continue
                    try:
                        if entry.is_symlink():
                            yield key, self._root.linked(entry.name, dir_fd), True
                        else:
                            yield key, entry.stat(follow_symlinks=False), False
                    except OSError as error:
                        # Removed meanwhile, or a link that leads nowhere or outside.
                        if not isinstance(error, OutsideRoot) and not _is_absent(error):
                            raise
            if not prefix and self._root.is_gone():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        finally:
            os.close(dir_fd)
        if swept:
            self._prune(prefix)

    def _walk(self, prefix: str) -> Iterator[tuple[Key, os.stat_result]]:
        """All regular files below a directory."""
        waiting = [prefix]
        while waiting:
            for key, status, is_link in self._children(waiting.pop()):
                if stat.S_ISREG(status.st_mode):
                    yield key, status
                elif stat.S_ISDIR(status.st_mode) and not (is_link and self._is_above(status, key)):
                    waiting.append(key)

    def _is_above(self, status: os.stat_result, key: Key) -> bool:
        """Whether a key leads to a directory that is above it: a way without end."""
        parent: str = key
        while parent:
            parent = parent.rpartition("/")[0]
            with self._directory(parent, os.O_PATH) as dir_fd:
                above = os.fstat(dir_fd)
            if (above.st_dev, above.st_ino) == (status.st_dev, status.st_ino):
                return True
        return False

    def _has_keys(self, prefix: str) -> bool:
        try:
            return any(True for _ in self._walk(prefix))
        except PermissionError:
            return True  # could not be asked: shown, and denied to who enters it

    def _sweep(self, name: str, dir_fd: int) -> bool:
        """Remove a temporary file whose writer is dead; True when that was done."""
        if not self._locks or not name.startswith(TEMPORARY):
            return False
        with contextlib.suppress(OSError):
            fd = os.open(name, _READ, dir_fd=dir_fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=dir_fd)
                return True
            finally:
                os.close(fd)
        return False

    def _check_writable(self, key: Key) -> None:
        if not self._features.writable:
            raise ReadOnlyStore(f"{self._name}/{key}: the store was opened read-only")

    @contextlib.contextmanager
    def _asking(self, prefix: Prefix) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(error, prefix) from error

    def _failure(self, error: OSError, key: str) -> StoreError:
        failure = _translated(error, f"{self._name}/{key}")
        if not isinstance(failure, NoSuchObject):
            return failure
        try:
            if self._root.is_gone():
                return Unavailable(f"{self._name}: the directory of the store was removed")
        except OSError as unknown:
            return _translated(unknown, self._name)
        return failure


def _translated(error: OSError, what: str) -> StoreError:
    return kind_of(error, _ERRORS)(f"{what}: {error.strerror}")


def _is_absent(error: OSError) -> bool:
    return kind_of(error, _ERRORS) in {NoSuchObject, KeyTooLong}


def _version(status: os.stat_result) -> Version:
    return Version(f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}")


def _stat(key: Key, status: os.stat_result) -> Stat:
    return Stat(key, status.st_size, _version(status), status.st_mtime_ns)


def _fits(key: Key) -> bool:
    return len(key) <= MAX_KEY_BYTES // 4 or len(os.fsencode(key)) <= MAX_KEY_BYTES


def _pread(fd: int, start: int, count: int) -> bytes:
    """Bytes of a file, fewer only at its end. One read gives at most 2 GiB less a page."""
    data = os.pread(fd, count, start)
    if len(data) == count:
        return data
    parts = [data]
    while data and (count := count - len(data)):
        start += len(data)
        data = os.pread(fd, count, start)
        parts.append(data)
    return b"".join(parts)


def _write_all(fd: int, data: Buffer) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(fd, left) :]
