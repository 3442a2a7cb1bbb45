"""What was read of an object, to tell whether a newer version only adds to it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import google_crc32c
import numpy as np

from nczfs.buffers import Buffer
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Key

READS_MAX = 1024  # are remembered of one object; who reads more has no log before them
OBJECTS_MAX = 64


class Delivered:
    """The checksums of all bytes of an object that programs, or the kernel, have been given.

    Open files that come to the same version share them: `join`.
    """

    def __init__(self) -> None:
        self._noted = _Noted()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return self._noted.reads == {}

    def begin(self, *, has_pages: bool) -> None:
        """A handle was opened.

        Parameters
        ----------
        has_pages : the kernel has pages of an earlier open, of which nothing may be known here.
        """
        with self._held() as noted:
            if has_pages and not noted.has_begun:
                noted.reads = None
            noted.has_begun = True

    def note(self, offset: int, data: Buffer) -> bool:
        """Note bytes that are handed out. Returns False if they must be read again instead."""
        size = len(data)
        if self._noted.reads is None or not size:
            return True
        crc = _crc_of(data)
        with self._held() as noted:
            if noted.is_compared:
                return False
            noted.add({(offset, offset + size): crc})
        return True

    def replace(self, read: Callable[[int, int], Buffer], replaced: Callable[[], None]) -> bool:
        """Go on with a newer version if it has all of the bytes. False: it has not, or may not.

        Parameters
        ----------
        read : bytes [start, stop) of the newer version.
        replaced : has it be the one that is read from now on.
        """
        with self._held() as noted:
            if noted.reads is None or noted.is_compared or not noted.has_begun:
                return False
            noted.is_compared = True
            reads = dict(noted.reads)
        try:
            if any(_crc_of(read(start, stop)) != crc for (start, stop), crc in reads.items()):
                return False
            if noted.reads != reads:  # others have joined it since
                return False
            replaced()
            return True
        finally:
            with noted.lock:
                noted.is_compared = False

    def join(self, other: Delivered) -> None:
        """Share what was read with another open file, which has the same version.

        One such call is made at a time.
        """
        with self._held() as noted, other._held() as others:
            if noted is not others:
                others.add(noted.reads)
                others.has_begun |= noted.has_begun
                self._noted = others

    @contextmanager
    def _held(self) -> Iterator[_Noted]:
        """Lock what was read, by whichever files share it by then."""
        while True:
            noted = self._noted
            with noted.lock:
                if noted is self._noted:
                    yield noted
                    return


class _Noted:
    """What was read by some open files.

    `lock` guards it, and whether it is being compared with a newer version.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.reads: dict[tuple[int, int], int] | None = {}
        self.is_compared = False
        self.has_begun = False

    def add(self, reads: Mapping[tuple[int, int], int] | None) -> None:
        """Add checksums by the ranges of the bytes; None: of bytes of which nothing is known."""
        if self.reads is None or reads is None:
            self.reads = None
            return
        self.reads.update(reads)
        if len(self.reads) > READS_MAX:
            self.reads = None


class DeliveredObjects:
    """What was read of the objects that were opened last: the kernel may have pages of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, tuple[Version, Delivered]] = OrderedDict()

    def of(self, key: Key, version: Version) -> Delivered:
        """What was read of a version; `ABSENT`: of a new object."""
        with self._lock:
            known, found = self._found.get(key, (None, None))
            if found is None or known != version:
                found = Delivered()
            if version != ABSENT:
                self._keep(key, version, found)
            return found

    def keep(self, key: Key, version: Version, delivered: Delivered) -> None:
        """Remember what was read of a version, by other files as well."""
        with self._lock:
            known, found = self._found.get(key, (None, None))
            if found is not None and known == version:
                delivered.join(found)
            self._keep(key, version, delivered)

    def _keep(self, key: Key, version: Version, delivered: Delivered) -> None:
        self._found[key] = version, delivered
        self._found.move_to_end(key)
        if len(self._found) > OBJECTS_MAX:
            self._found.popitem(last=False)


def _crc_of(data: Buffer) -> int:
    return int(google_crc32c.value(np.frombuffer(data, np.uint8)))
