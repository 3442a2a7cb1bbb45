"""The files in a directory of the store, and below it."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from nczfs.errors import StoreError
from nczfs.zmap.directory.leftovers import Leftovers
from nczfs.zmap.directory.rooted import RefusedLink, RootedDirectory
from nczfs.zmap.keys import MAX_KEY_BYTES, Key, is_name, join
from nczfs.zmap.leaving_out import leave_out
from nczfs.zmap.oserrors import is_absent

WAYS_MAX: Final = 64  # to one directory, through links
LINKS_MAX: Final = 3
"""Links to directories in one key that listings show. With two links in each of forty
directories, a program that goes through all directories (`ls -R`) would never end."""

T = TypeVar("T")

_OF_THE_PROCESS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # not of an entry


class Walker:
    """A finder of the files of a directory tree, which follows links within it.

    Raises `OSError` of the system calls. Remains of dead writers are removed on the way.

    Parameters
    ----------
    name : of the store, for the log.
    """

    def __init__(self, root: RootedDirectory, leftovers: Leftovers, name: str) -> None:
        self._root = root
        self._leftovers = leftovers
        self._name = name

    def children(self, prefix: str) -> Iterator[tuple[Key, os.stat_result, bool]]:
        """Yield the entries of a directory, following links, and whether each is a directory.

        A missing directory yields nothing. Entries that cannot be examined are left out, unless
        there are no others.
        """
        return self._examined(prefix, lambda entry: entry.stat(follow_symlinks=False))

    def _examined(
        self, prefix: str, examine: Callable[[os.DirEntry[str]], T]
    ) -> Iterator[tuple[Key, T | os.stat_result, bool]]:
        """Yield the same with something else than the status of an entry that is no link.

        The kind of such an entry comes with its name; a status takes a system call.
        """
        try:
            dir_fd = self._root.open_directory(prefix)
        except RefusedLink:
            return
        except OSError as error:
            if is_absent(error) and not self._root.is_gone():
                return
            raise
        swept = False
        found = 0
        failed: list[OSError] = []
        try:
            with os.scandir(dir_fd) as entries:
                for entry in entries:
                    if not is_name(entry.name) or not _fits(key := join(prefix, entry.name)):
                        swept |= self._leftovers.sweep(entry.name, dir_fd)
                        continue
                    try:
                        is_link = entry.is_symlink()
                        status = (
                            self._root.linked(entry.name, dir_fd) if is_link else examine(entry)
                        )
                    except OSError as error:
                        # Removed meanwhile, or a link that leads nowhere or outside.
                        if not isinstance(error, RefusedLink) and not is_absent(error):
                            if error.errno in _OF_THE_PROCESS:
                                raise
                            failed.append(error)
                        continue
                    found += 1
                    yield key, status, is_link
            if not prefix and self._root.is_gone():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        finally:
            os.close(dir_fd)
        if failed and not found:
            raise failed[0]
        if failed:
            leave_out(f"{self._name}/{prefix}", len(failed), str(failed[0].strerror))
        if swept:
            self._leftovers.prune(prefix)

    def directories(self, prefix: str) -> Iterator[Key]:
        """Yield the directories in a directory that listings show if there are files in them."""
        for key, found, is_link in self._examined(prefix, _is_directory):
            if isinstance(found, bool):
                is_shown = found
            else:
                is_shown = stat.S_ISDIR(found.st_mode) and self.is_shown(
                    found, key, is_link=is_link
                )
            if is_shown:
                yield key

    def files(self, prefix: str) -> Iterator[tuple[Key, os.stat_result]]:
        """Yield all regular files below a directory.

        Raises
        ------
        StoreError : links lead to one directory over `WAYS_MAX` times. With two links in each of
            forty directories, there would be a million million keys.
        """
        ways: Counter[tuple[int, int]] = Counter()
        waiting = [(prefix, False)]
        while waiting:
            at, is_linked = waiting.pop()
            for key, status, is_link in self.children(at):
                if stat.S_ISREG(status.st_mode):
                    yield key, status
                elif stat.S_ISDIR(status.st_mode) and not (is_link and self._is_above(status, key)):
                    if is_link or is_linked:
                        ways[status.st_dev, status.st_ino] += 1
                        if ways[status.st_dev, status.st_ino] > WAYS_MAX:
                            raise StoreError(
                                f"{self._name}/{key}: symbolic links lead to this directory over "
                                f"{WAYS_MAX} times"
                            )
                    waiting.append((key, is_link or is_linked))

    def has_files(self, prefix: str) -> bool:
        """Return whether there is a regular file below a directory."""
        seen: set[tuple[int, int]] = set()
        waiting = [prefix]
        try:
            while waiting:
                for key, status, _ in self._examined(waiting.pop(), _status_of_others):
                    if status is None or stat.S_ISREG(status.st_mode):
                        return True
                    place = status.st_dev, status.st_ino
                    if stat.S_ISDIR(status.st_mode) and place not in seen:
                        seen.add(place)
                        waiting.append(key)
        except OSError as error:
            if error.errno in _OF_THE_PROCESS:
                raise
            return True  # unreadable: it is shown, and entering it is denied
        return False

    def is_shown(self, status: os.stat_result, key: Key, *, is_link: bool) -> bool:
        """Return whether listings show a directory, which may be one that a link leads to."""
        try:
            return not is_link or not (self._is_above(status, key) or self._has_many_links(key))
        except OSError as error:
            if is_absent(error):
                return False
            raise

    def _has_many_links(self, key: Key) -> bool:
        words = key.split("/")
        links = 0
        for count in range(len(words)):
            with self._root.directory("/".join(words[:count]), os.O_PATH) as dir_fd:
                found = os.stat(words[count], dir_fd=dir_fd, follow_symlinks=False)
            links += stat.S_ISLNK(found.st_mode)
        return links > LINKS_MAX

    def _is_above(self, status: os.stat_result, key: Key) -> bool:
        """Return whether a key leads to a directory above itself, which would be a loop."""
        parent: str = key
        while parent:
            parent = parent.rpartition("/")[0]
            with self._root.directory(parent, os.O_PATH) as dir_fd:
                above = os.fstat(dir_fd)
            if (above.st_dev, above.st_ino) == (status.st_dev, status.st_ino):
                return True
        return False


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _status_of_others(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of what is no regular file."""
    return None if entry.is_file(follow_symlinks=False) else entry.stat(follow_symlinks=False)


def _fits(key: Key) -> bool:
    return len(key) <= MAX_KEY_BYTES // 4 or len(os.fsencode(key)) <= MAX_KEY_BYTES
