"""An object of a store, read from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from nczfs.buffers import Buffer
from nczfs.errors import Unsupported
from nczfs.zmap.base import ZMap, read_whole
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions, around, open_store
from nczfs.zmap.url import StoreUrl

RANGE_BYTES: Final = 8 << 20
_AHEAD: Final = 2


class ObjectReader:
    """The bytes of one version of an object, requested in ranges ahead of what is read.

    When a connection breaks, the store asks for the range again, and no more than that.

    Attributes
    ----------
    name : of the object, for messages. size : in bytes.
    """

    def __init__(self, source: ZMap, key: Key, range_bytes: int = RANGE_BYTES) -> None:
        stat = source.stat(key)
        self.name = f"{source.name}/{key}"
        self.size = stat.size
        self._source = source
        self._key = key
        self._version = stat.version
        self._range_bytes = range_bytes
        self._threads = ThreadPoolExecutor(_AHEAD, "nczfs-object")
        self._coming: list[Future[Buffer]] = []
        self._asked = 0
        self._data = memoryview(b"")  # the range that is being read
        self._start = 0  # of that range
        self._at = 0

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes, none only at the end.

        Raises
        ------
        Conflict : the object was replaced. Unsupported : the server has no ranges. StoreError.
        """
        if self._at == self._start + len(self._data):
            self._start, self._data = self._at, self._next()
        offset = self._at - self._start
        found = bytes(self._data[offset : offset + size])
        self._at += len(found)
        return found

    def seek(self, position: int, /) -> int:
        """Go to a position."""
        if not self._start <= position <= self._start + len(self._data):
            self._coming.clear()
            self._asked = self._start = position
            self._data = memoryview(b"")
        self._at = position
        return position

    def close(self) -> None:
        """Drop what was requested ahead."""
        self._threads.shutdown(cancel_futures=True)

    def _next(self) -> memoryview:
        self._ask()
        if not self._coming:
            return memoryview(b"")
        found = memoryview(self._coming.pop(0).result()).cast("B")
        if not self._source.features.ranges and self.size > self._range_bytes:
            raise Unsupported(
                f"{self.name}: the server does not answer ranges, so that nothing could go on "
                "after a broken connection; `curl URL | nczfs import - TARGET` reads it in one go"
            )
        self._ask()
        return found

    def _ask(self) -> None:
        """Request ranges; only the first one until it is known whether the server has ranges."""
        most = _AHEAD if self._asked else 1
        while len(self._coming) < most and self._asked < self.size:
            start, stop = self._asked, min(self._asked + self._range_bytes, self.size)
            self._asked = stop
            self._coming.append(self._threads.submit(self._range, start, stop))

    def _range(self, start: int, stop: int) -> Buffer:
        return read_whole(self._source, self._key, start, stop, self._version)


@contextmanager
def opened_object(url: StoreUrl, options: StoreOptions) -> Iterator[ObjectReader]:
    """Open the object that a URL names.

    Raises
    ------
    BadUrl : it names none. StoreError : there is none, or the store cannot be reached.
    """
    outer, key = around(url)
    source = open_store(outer, options)
    try:
        file = ObjectReader(source, key)
        try:
            yield file
        finally:
            file.close()
    finally:
        source.close()
