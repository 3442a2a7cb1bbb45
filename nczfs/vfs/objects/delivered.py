"""What was read of an object, to tell whether a newer version only adds to it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import google_crc32c
import numpy as np

from nczfs.buffers import Buffer
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key

READS_MAX = 1024  # are remembered of one object; who reads more has no log before them
OBJECTS_MAX = 64


class Delivered:
    """The checksums of all bytes of an object that programs, or the kernel, have been given.

    `_lock` guards them, and whether they are being compared with a newer version.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reads: dict[tuple[int, int], int] | None = {}
        self._is_compared = False
        self._has_begun = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return self._reads == {}

    def begin(self, *, has_pages: bool) -> None:
        """A handle was opened.

        Parameters
        ----------
        has_pages : the kernel has pages of an earlier open, of which nothing may be known here.
        """
        with self._lock:
            if has_pages and not self._has_begun:
                self._reads = None
            self._has_begun = True

    def note(self, offset: int, data: Buffer) -> bool:
        """Note bytes that are handed out. Returns False if they must be read again instead."""
        size = len(data)
        if self._reads is None or not size:
            return True
        crc = _crc_of(data)
        with self._lock:
            if self._is_compared:
                return False
            if self._reads is not None:
                self._reads[offset, offset + size] = crc
                if len(self._reads) > READS_MAX:
                    self._reads = None
        return True

    def replace(self, read: Callable[[int, int], Buffer], replaced: Callable[[], None]) -> bool:
        """Go on with a newer version if it has all of the bytes. False: it has not, or may not.

        Parameters
        ----------
        read : bytes [start, stop) of the newer version.
        replaced : has it be the one that is read from now on.
        """
        with self._lock:
            if self._reads is None or self._is_compared or not self._has_begun:
                return False
            self._is_compared = True
            reads = dict(self._reads)
        try:
            if any(_crc_of(read(start, stop)) != crc for (start, stop), crc in reads.items()):
                return False
            replaced()
            return True
        finally:
            with self._lock:
                self._is_compared = False


class DeliveredObjects:
    """What was read of the objects that were open last: the kernel may have pages of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, tuple[Version, Delivered]] = OrderedDict()

    def of(self, key: Key, version: Version) -> Delivered:
        """What was read of a version."""
        with self._lock:
            known, found = self._found.get(key, (None, None))
            return found if found is not None and known == version else Delivered()

    def keep(self, key: Key, version: Version, delivered: Delivered) -> None:
        """Remember what was read of a version."""
        with self._lock:
            self._found[key] = version, delivered
            self._found.move_to_end(key)
            if len(self._found) > OBJECTS_MAX:
                self._found.popitem(last=False)


def _crc_of(data: Buffer) -> int:
    return int(google_crc32c.value(np.frombuffer(data, np.uint8)))
