"""Connections whose large bodies come into one buffer, and which say when they have asked.

To join the pieces of a body takes a quarter of what reading an object of 1 MiB takes of a
processor, and keeps all other threads from running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any

import numpy as np
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from nczfs.zmap.base import Buffer

ONE_BUFFER_MIN = 64 << 10
ONE_BUFFER_MAX = 256 << 20  # a longer one may be no more than claimed


def whole(pieces: list[bytes]) -> Buffer:
    """A body out of what `read1` of an answer gave until its end."""
    if pieces and isinstance(pieces[0], memoryview):
        return memoryview(pieces[0].obj).cast("B")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _Response(HTTPResponse):
    """An answer that is read into a buffer of the size that its header says.

    `read1` gives views of that, one after the other.
    """

    _free: memoryview | None = None

    def read1(self, n: int = -1) -> bytes:
        if self._free is None:
            size = self.length or 0
            if self.chunked or not ONE_BUFFER_MIN <= size <= ONE_BUFFER_MAX:
                return super().read1(n)
            # Not a bytearray, which is filled with zeros first.
            self._free = np.empty(size, np.uint8).data
        if self.fp is None or self.length is None:
            return b""
        wanted = self._free if n < 0 else self._free[:n]
        size = self.fp.readinto1(wanted)
        if not size:
            self.close()
        self.length -= size
        self._free = self._free[size:]
        return wanted[:size]  # type: ignore[return-value]  # urllib3 hands it through


class _Asking(threading.local):
    """What this thread does between its questions and their answers."""

    then: Callable[[], None] | None = None


_asking = _Asking()


@contextmanager
def when_asked(act: Callable[[], None]) -> Iterator[None]:
    """Within it, each request of this thread calls `act` before it waits for its answer."""
    _asking.then = act
    try:
        yield
    finally:
        _asking.then = None


class _Connection(HTTPConnection):
    response_class = _Response

    def getresponse(self) -> Any:
        if _asking.then is not None:
            _asking.then()
        return super().getresponse()


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


ONE_BUFFER_POOLS: Mapping[str, type[HTTPConnectionPool]] = {"http": _Pool, "https": _SecurePool}
"""Classes of such connections, by scheme."""
