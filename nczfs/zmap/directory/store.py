"""A store that is a directory tree: the key ``a/b`` is the file ``root/a/b``."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from nczfs.buffers import Buffer
from nczfs.errors import (
    Conflict,
    CorruptStore,
    NoContent,
    NoSuchObject,
    ObjectExists,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)
from nczfs.zmap.aside import Aside, Exchanges
from nczfs.zmap.base import Blob, Entry, Features, Part, Stat, Version, WriteOptions, ZMap
from nczfs.zmap.capacity import Capacity
from nczfs.zmap.directory.casing import check_spelling, seen_case_sensitive, tried_case_sensitive
from nczfs.zmap.directory.exchanging import aside, can_exchange
from nczfs.zmap.directory.leftovers import Leftovers
from nczfs.zmap.directory.locking import can_lock
from nczfs.zmap.directory.replacing import Replacer
from nczfs.zmap.directory.rooted import READ, RootedDirectory
from nczfs.zmap.directory.versions import stat_of, version_of
from nczfs.zmap.directory.walking import Walker
from nczfs.zmap.fileio import read_at
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.oserrors import tree_error
from nczfs.zmap.ranges import clipped, read_joined
from nczfs.zmap.securing import Securing


class DirectoryZMap(ZMap, Securing):
    """Objects as files below a directory.

    A write makes a temporary file beside the object and renames it, so that readers and crashes
    see the old or the new object. Conditional writes hold between processes: every replacement
    and deletion happens under ``flock`` on the directory of the object. Symbolic links work as
    long as they stay inside the root. Files that are not regular are neither shown nor touched; a
    directory is removed with its last key. A directory without keys is not shown, so `search` looks
    into each directory until it finds a key.

    Parameters
    ----------
    root : an existing directory.
    read_only : refuse writes, as on a file system that is mounted read-only.
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
        self._durable = durable
        self._name = path.as_uri()
        try:
            self._root = RootedDirectory(str(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            beside = isinstance(error, NotADirectoryError)
            reason = " (a file is in its place, or above it)" if beside else ""
            raise NoContent(f"{self._name}: no such directory{reason}") from error
        except OSError as error:
            raise tree_error(error, self._name) from error
        try:
            with self._root.directory("") as fd:
                writable = not read_only and not os.fstatvfs(fd).f_flag & os.ST_RDONLY
                locks = writable and can_lock(fd)
                case_sensitive = seen_case_sensitive(fd)
                name_bytes_max = os.fpathconf(fd, "PC_NAME_MAX")
            self._is_case_known = case_sensitive is not None
            self._features = Features(
                writable=writable,
                conditional_writes=locks,
                case_sensitive=case_sensitive is not False,
                name_bytes_max=name_bytes_max,
                time_resolution_ns=1,  # of what nczfs stores; others get the kernel's tick, some ms
                exchanges=Exchanges.PREFIXES if locks and can_exchange() else Exchanges.NOTHING,
            )
        except OSError as error:
            self._root.close()
            raise tree_error(error, self._name) from error
        leftovers = Leftovers(self._root, locks=locks)
        self._walker = Walker(self._root, leftovers, self._name)
        self._replacer = Replacer(
            self._root,
            leftovers,
            self._name,
            locks=locks,
            durable=durable,
            lock_timeout_s=lock_timeout_s,
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return self._features

    def prepare_writing(self) -> Features:
        """Find out whether names are case-sensitive, if no name shows it yet."""
        if self._features.writable and not self._is_case_known:
            with contextlib.suppress(OSError), self._root.directory("") as fd:  # else by writes
                tells = tried_case_sensitive(fd)
                self._features = replace(self._features, case_sensitive=tells)
                self._is_case_known = True
        return self._features

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        try:
            fd = self._open(key)
            try:
                status = self._status(fd, key, version)
                size = status.st_size
                first, last = clipped(start, stop, size)
                data = read_at(fd, first, last) if first < last else b""
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failure(error, key) from error
        if len(data) < last - first:
            raise self._shortened(key)
        return Blob(data, version_of(status), size, status.st_mtime_ns)

    def read_ranges(
        self, key: Key, ranges: Sequence[tuple[int, int]], *, version: Version
    ) -> Sequence[Buffer]:
        try:
            fd = self._open(key)
            try:
                status = self._status(fd, key, version)
                size = status.st_size

                def read(start: int, stop: int) -> Buffer:
                    if stop > size:
                        raise CorruptStore(
                            f"{self._name}/{key}: has {size} bytes, and {stop} are wanted"
                        )
                    data = read_at(fd, start, stop)
                    if len(data) < stop - start:
                        raise self._shortened(key)
                    return data

                found = read_joined(read, ranges, near=True)
                self._check_same(fd, key, status)
                return found
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failure(error, key) from error

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        return self.write_parts(key, [data], **options)

    def write_parts(
        self,
        key: Key,
        parts: Sequence[Part],
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        self._check_writable(key)
        try:
            if not self._features.case_sensitive:
                with contextlib.suppress(FileNotFoundError):
                    check_spelling(self._root, key, f"{self._name}/{key}")
            return self._replacer.write(key, parts, replaces, self._open)
        except NotADirectoryError as error:
            raise ObjectExists(
                f"{self._name}/{key}: an object has the name of its directory"
            ) from error
        except OSError as error:
            raise self._failure(error, key) from error

    def secure(self, key: Key) -> None:
        try:
            fd = self._open(key)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            parent: str = key
            while parent:
                parent = parent.rpartition("/")[0]
                with self._root.directory(parent) as dir_fd:
                    os.fsync(dir_fd)
        except OSError as error:
            raise self._failure(error, key) from error

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        self._check_writable(key)
        try:
            self._replacer.delete(key, version)
        except OSError as error:
            raise self._failure(error, key) from error

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
        return stat_of(key, status)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        with self._asking(prefix):
            for key, status, is_link in self._walker.children(prefix):
                if stat.S_ISREG(status.st_mode):
                    yield Entry(key.rpartition("/")[2], stat_of(key, status), is_prefix=False)
                elif (
                    stat.S_ISDIR(status.st_mode)
                    and self._walker.is_shown(status, key, is_link=is_link)
                    and self._walker.has_files(key)
                ):
                    yield Entry(key.rpartition("/")[2], None, is_prefix=True)

    def prefixes(self, prefix: Prefix) -> Iterator[str]:
        with self._asking(prefix):
            for key in self._walker.directories(prefix):
                yield key.rpartition("/")[2]

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        with self._asking(prefix):
            for key, status in self._walker.files(prefix):
                yield stat_of(key, status)

    @contextlib.contextmanager
    def aside(self, prefix: Prefix, path: str = "") -> Iterator[Aside]:
        if not self._features.exchanges.covers(prefix):
            raise ReadOnlyStore(f"{self._name}/{prefix}: cannot be replaced in one step")
        with contextlib.ExitStack() as opened:
            with self._asking(prefix):
                made = aside(self._root, prefix, path, durable=self._durable)
                found = opened.enter_context(made)

            def exchange() -> None:
                with self._asking(prefix):
                    found.exchange()

            yield Aside(found.prefix, exchange)

    def capacity(self) -> Capacity:
        """Return the capacity of the root's file system."""
        try:
            found = os.fstatvfs(self._root.fd)
        except OSError as error:
            raise tree_error(error, self._name) from error
        return Capacity(
            total_bytes=found.f_blocks * found.f_frsize,
            free_bytes=found.f_bfree * found.f_frsize,
            available_bytes=found.f_bavail * found.f_frsize,
            files=found.f_files,
            free_files=found.f_ffree,
        )

    def close(self) -> None:
        """Close the descriptor of the root."""
        self._root.close()

    def _open(self, key: Key) -> int:
        parent, _, leaf = key.rpartition("/")
        dir_fd = self._root.open_directory(parent, os.O_PATH) if parent else self._root.fd
        try:
            return os.open(leaf, READ, dir_fd=dir_fd)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return self._root.open_link(leaf, dir_fd, READ)
        finally:
            if parent:
                os.close(dir_fd)

    def _status(self, fd: int, key: Key, version: Version | None) -> os.stat_result:
        """Return the status of an open file. Raises Conflict: it is another version."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NoSuchObject(f"{self._name}/{key}: not a regular file")
        if version is not None and version != version_of(status):
            raise Conflict(f"{self._name}/{key}: replaced since it was opened")
        return status

    def _check_same(self, fd: int, key: Key, before: os.stat_result) -> None:
        """Raise Conflict if a program has written into an open file. It may have lost its name."""
        after = os.fstat(fd)
        is_named = after.st_nlink == before.st_nlink
        if (
            (is_named and version_of(after) != version_of(before))
            or after.st_size != before.st_size
            or after.st_mtime_ns != before.st_mtime_ns
        ):
            raise Conflict(f"{self._name}/{key}: changed while it was read")

    def _shortened(self, key: Key) -> Unavailable:
        return Unavailable(f"{self._name}/{key}: shortened while it was read")

    def _check_writable(self, key: Key) -> None:
        if not self._features.writable:
            raise ReadOnlyStore(f"{self._name}/{key}: the store is read-only")

    @contextlib.contextmanager
    def _asking(self, prefix: Prefix) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(error, prefix) from error

    def _failure(self, error: OSError, key: str) -> StoreError:
        failure = tree_error(error, f"{self._name}/{key}")
        if not isinstance(failure, NoSuchObject):
            return failure
        try:
            if self._root.is_gone():
                return Unavailable(
                    f"{self._name}: the directory of the store was removed; a new one in its"
                    " place is another store: mount or open it again"
                )
        except OSError as unknown:
            return tree_error(unknown, self._name)
        return failure
