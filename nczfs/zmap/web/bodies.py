"""Reading of answers within limits of time and size.

Large bodies are read into one buffer: joining pieces takes a quarter of the processor time of
reading an object of 1 MiB, and keeps all other threads from running.
"""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any, Final, Protocol

import numpy as np
import urllib3

from nczfs.buffers import Buffer
from nczfs.errors import StoreError
from nczfs.messages import size_text
from nczfs.plaindata import frozen

PIECE_BYTES: Final = 262_144  # bytes between two looks at the clock; 1 MiB was slower
ONE_BUFFER_MIN: Final = 64 << 10
ONE_BUFFER_MAX: Final = 256 << 20  # a longer body may only be claimed
ERROR_BYTES_MAX: Final = 64 << 10  # limit for an error page; S3's have a few hundred bytes
SKIPPED_BYTES_MAX: Final = 4 << 30  # skipped bytes before a range, of a server without ranges
SKIPPED_UNKNOWN_MAX: Final = 256 << 20  # first buffer for a body of unknown length


class RequestClock(Protocol):
    """The remaining time of a request."""

    def patience_s(self) -> float:
        """Return how long to wait for the next byte. Raises if the time is over."""

    def moved(self, size: int) -> None:
        """Count bytes of a body. Raises if they came too slowly."""


@frozen
class WantedBytes:
    """The requested bytes of a body.

    Attributes
    ----------
    limit : the longest accepted body.
    start, stop : the requested part, if the answer has the whole object instead. A negative start
        counts from the end.
    """

    limit: int
    start: int = 0
    stop: int | None = None


@frozen
class Body:
    """The received part of a body.

    Attributes
    ----------
    size : of everything that was sent; None if it was not read to its end.
    """

    data: Buffer
    size: int | None


class _Current(threading.local):
    """This thread's request: its time, its limit, and what to do before waiting."""

    clock: RequestClock | None = None
    limit: int = 0
    asked: Callable[[], None] | None = None


_current = _Current()


@contextmanager
def when_asked(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` before each request of this thread in the block waits for its answer."""
    _current.asked = act
    try:
        yield
    finally:
        _current.asked = None


@contextmanager
def bounded(clock: RequestClock, limit: int) -> Iterator[None]:
    """Limit the time of answers that this thread begins to read in the block.

    Parameters
    ----------
    limit : a body that claims to be longer gets no buffer of its size.
    """
    _current.clock, _current.limit = clock, limit
    try:
        yield
    finally:
        _current.clock = None


def call_before_answer() -> None:
    """Call the function of `when_asked`."""
    if _current.asked is not None:
        _current.asked()


class _Timed(io.RawIOBase):
    """A reader of a socket whose bytes must come before the time of the request is over.

    The timeout of a socket counts from one byte to the next: with it alone, a server that sends a
    byte now and then would be waited for without end, also within a status line or a header.
    """

    def __init__(self, raw: socket.SocketIO, sock: socket.socket, clock: RequestClock) -> None:
        self._raw = raw
        self._sock = sock
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        patience_s = self._clock.patience_s()
        if patience_s != self._sock.gettimeout():  # setting it is a system call each time
            self._sock.settimeout(patience_s)
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            self._clock.patience_s()  # raises if it was the time of the whole request
            raise

    def fileno(self) -> int:
        return self._raw.fileno()

    def close(self) -> None:
        self._raw.close()
        super().close()


class Response(HTTPResponse):
    """An answer that is read in time, a large body into a buffer of the announced size.

    `read1` returns consecutive views of that buffer.
    """

    _free: memoryview | None = None

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._buffer_max = min(_current.limit, ONE_BUFFER_MAX)
        if _current.clock is not None:
            # as `makefile` of a socket does
            raw: Any = self.fp.detach()
            self.fp = io.BufferedReader(_Timed(raw, sock, _current.clock))

    def read1(self, n: int = -1) -> bytes:
        if self._free is None:
            size = self.length or 0
            if self.chunked or not ONE_BUFFER_MIN <= size <= self._buffer_max:
                return super().read1(n)
            # Not a bytearray, which would be filled with zeros first.
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


def read_body(
    response: urllib3.HTTPResponse,
    size: int | None,
    wanted: WantedBytes,
    clock: RequestClock,
    where: str,
) -> Body:
    """Read the requested part of a body.

    Parameters
    ----------
    size : from the header, if it gives one.
    where : its origin, for messages.

    Raises
    ------
    StoreError : the body is too long.
    """
    if response.status >= 300:
        return _error_page(response, clock)
    if response.status == 200 and (wanted.start or wanted.stop is not None):
        return _part(response, size, wanted, clock, where)
    if size is not None and size > wanted.limit:
        raise _too_long(where, wanted.limit)
    taken = _Taken()
    while piece := response.read1(PIECE_BYTES):
        taken.add(piece)
        if taken.size > wanted.limit:
            raise _too_long(where, wanted.limit)
        clock.moved(len(piece))
    return Body(taken.data(), taken.size)


def _error_page(response: urllib3.HTTPResponse, clock: RequestClock) -> Body:
    """Read the beginning of an error page, which is enough."""
    taken = _Taken()
    while piece := response.read1(PIECE_BYTES):
        taken.add(piece)
        if taken.size > ERROR_BYTES_MAX:
            return Body(taken.data()[:ERROR_BYTES_MAX], None)
        clock.moved(len(piece))
    return Body(taken.data(), taken.size)


def _part(
    response: urllib3.HTTPResponse,
    size: int | None,
    wanted: WantedBytes,
    clock: RequestClock,
    where: str,
) -> Body:
    """Read a part of a whole object, and no further if the header gives its length."""
    start, stop = wanted.start, wanted.stop
    skipped_max = SKIPPED_UNKNOWN_MAX if size is None else SKIPPED_BYTES_MAX
    if start < 0:
        if size is None:
            everything = WantedBytes(wanted.limit + skipped_max)
            found = read_body(response, size, everything, clock, where)
            return Body(memoryview(found.data)[start:], found.size)
        start = max(0, size + start)
    taken = _Taken(start)
    seen = 0
    while piece := response.read1(PIECE_BYTES):
        taken.add(piece[max(start - seen, 0) : None if stop is None else max(stop - seen, 0)])
        seen += len(piece)
        if taken.size > wanted.limit:
            raise _too_long(where, wanted.limit)
        if stop is not None and seen >= stop and size is not None:
            return Body(taken.data(), size if seen == size else None)
        if seen - taken.size > skipped_max:
            raise StoreError(
                f"{where}: the server has no ranges, and sends over {size_text(skipped_max)} "
                "besides the requested one"
            )
        clock.moved(len(piece))
    return Body(taken.data(), seen)


def _too_long(where: str, limit: int) -> StoreError:
    return StoreError(f"{where}: the server sends more than the {limit} bytes that were requested")


class _Taken:
    """The part of a body that was read so far.

    Parameters
    ----------
    start : its position in the body.
    """

    def __init__(self, start: int = 0) -> None:
        self.size = 0
        self._start = start
        self._first: bytes | memoryview = b""
        # Not a list of pieces, which may have one byte each, and then take forty times as much.
        self._all: bytearray | None = None

    def add(self, piece: bytes | memoryview) -> None:
        """Add the next bytes."""
        if not piece:
            return
        self.size += len(piece)
        if self._all is not None:
            self._all += piece
        elif not self._first:
            self._first = piece
        elif isinstance(self._first, bytes):
            self._all = bytearray(self._first)
            self._all += piece

    def data(self) -> Buffer:
        """Return all bytes."""
        if self._all is not None:
            return self._all
        if isinstance(self._first, bytes):
            return self._first
        # All pieces are views of the same buffer.
        return memoryview(self._first.obj).cast("B")[self._start : self._start + self.size]
