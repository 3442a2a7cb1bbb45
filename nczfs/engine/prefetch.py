"""Reading ahead of sequential readers: when, how far, and into which windows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from nczfs import metrics
from nczfs.engine.cache import ChunkCache
from nczfs.errors import NczfsError

Buffer: TypeAlias = "bytes | bytearray | memoryview"

KIB, MIB = 1 << 10, 1 << 20

BACKWARD_SLACK_BYTES = 1 * MIB  # two read-ahead requests of the kernel can overtake each other
FORWARD_SLACK_BYTES = 16 * MIB  # a reader that skips no more than this still counts as sequential
FIRST_AHEAD_BYTES = 1 * MIB + 128 * KIB  # the kernel's first two read-aheads
FAR_FIRST_AHEAD_BYTES = 16 * MIB  # doubling from a smaller size costs a round trip each time
BEGINNING_BYTES_MIN = 128 * KIB


class SequenceDetector:
    """A decision how far to read ahead, from the offsets of reads. Pure; races are harmless.

    Parameters
    ----------
    first_bytes, ahead_bytes_max : bounds of the distance, which doubles during sequential reading.
    """

    def __init__(self, first_bytes: int, ahead_bytes_max: int) -> None:
        self._ahead_max = ahead_bytes_max
        self._first = min(first_bytes, ahead_bytes_max)
        self._expected = -1
        self._in_order = 0
        self._ahead = self._first

    def note(self, offset: int, size: int) -> int:
        """Note a read. Returns up to which offset data should be ready (0: none)."""
        gap = offset - self._expected
        if self._expected >= 0 and -BACKWARD_SLACK_BYTES <= gap <= FORWARD_SLACK_BYTES:
            self._in_order += 1
            self._expected = max(self._expected, offset + size)
            if self._in_order > 1:
                self._ahead = min(2 * self._ahead, self._ahead_max)
        else:
            # Reading a whole file begins with a large read at its start.
            begins = self._expected < 0 and offset == 0 and size >= BEGINNING_BYTES_MIN
            self._in_order = 1 if begins else 0
            self._ahead = self._first
            self._expected = offset + size
        return self._expected + self._ahead if self._in_order else 0


@dataclass(frozen=True, slots=True)
class AheadOptions:
    """The sizes of reading ahead in one file.

    Attributes
    ----------
    window_bytes : what a thread assembles at a time, aligned to multiples of itself; 0: only `hint`
        is called, and the reader finds the data in the chunk cache.
    ahead_bytes : how far the windows extend beyond the reader.
    hint_bytes : how far `hint` extends beyond the reader.
    first_bytes : the initial distance.
    """

    window_bytes: int
    ahead_bytes: int
    hint_bytes: int
    first_bytes: int = FIRST_AHEAD_BYTES

    def widest(self, other: AheadOptions) -> AheadOptions:
        """Return what reads ahead as far as either of the two."""
        return AheadOptions(
            max(self.window_bytes, other.window_bytes),
            max(self.ahead_bytes, other.ahead_bytes),
            max(self.hint_bytes, other.hint_bytes),
            max(self.first_bytes, other.first_bytes),
        )


NOT_AHEAD = AheadOptions(0, 0, 0)


class _Window:
    __slots__ = ("data", "done")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.data: Buffer | None = None  # stays None if assembling it failed


class ReadAhead:
    """Reading ahead in one open file.

    `_lock` guards the dict of windows and the marks; nothing is read or waited for under it.

    Parameters
    ----------
    read : reads any range of the file; called in threads of `pool`.
    hint : called with the range that will be needed, ahead of the windows.
    size : of the file, in bytes.
    budget : for the memory of the windows; without room, nothing is read ahead.
    """

    def __init__(
        self,
        read: Callable[[int, int], Buffer],
        hint: Callable[[int, int], None] | None,
        size: int,
        pool: Callable[[], ThreadPoolExecutor],
        budget: ChunkCache,
        options: AheadOptions,
    ) -> None:
        self._read = read
        self._hint = hint
        self._size = size
        self._pool = pool
        self._budget = budget
        self._options = options
        self._detector = SequenceDetector(
            options.first_bytes, max(options.ahead_bytes, options.hint_bytes)
        )
        self._lock = threading.Lock()
        self._windows: dict[int, _Window] = {}
        self._hinted = 0
        self._advancing = False
        self._closed = False

    def note(self, offset: int, size: int) -> None:
        """Note a read, and start to read ahead if that is worth it. Never blocks."""
        target = min(self._detector.note(offset, size), self._size)
        if not target:
            if self._windows or self._hinted:
                self._reset()
            return
        if self._advancing or self._closed or not self._wants(offset, target):
            return
        self._advancing = True
        try:
            self._pool().submit(self._advance, offset, target)
        except RuntimeError:  # the engine is closing
            self._advancing = False

    def if_ready(self, offset: int, size: int) -> Buffer | None:
        """Return the range from windows that are ready, or None. Takes no lock, never blocks."""
        window_bytes = self._options.window_bytes
        if not self._windows or not window_bytes:
            return None
        stop = min(offset + size, self._size)
        if offset >= stop:
            return b""
        first, last = offset // window_bytes, (stop - 1) // window_bytes
        pieces: list[Buffer] = []
        for number in range(first, last + 1):
            window = self._windows.get(number)
            if window is None or window.data is None:
                return None
            base = number * window_bytes
            pieces.append(memoryview(window.data)[max(offset - base, 0) : stop - base])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def wait(self, offset: int, size: int) -> Buffer | None:
        """Return the range, waiting for windows under way; None if one is missing or failed."""
        window_bytes = self._options.window_bytes
        if not self._windows or not window_bytes:
            return None
        for number in range(offset // window_bytes, (offset + size - 1) // window_bytes + 1):
            window = self._windows.get(number)
            if window is None:
                return None
            window.done.wait()
        return self.if_ready(offset, size)

    def close(self) -> None:
        """Drop the windows; those under way are dropped when they are done."""
        self._closed = True
        self._reset()

    def _wants(self, offset: int, target: int) -> bool:
        """Return whether enough data are missing ahead of the reader to be worth a task."""
        options = self._options
        if self._hint is not None and self._hinted < min(offset + options.hint_bytes, target):
            return True
        if not options.window_bytes:
            return False
        stop = min(offset + options.ahead_bytes, target)
        return any(
            number not in self._windows
            for number in range(offset // options.window_bytes, -(-stop // options.window_bytes))
        )

    def _advance(self, offset: int, target: int) -> None:
        try:
            options = self._options
            if self._hint is not None:
                start = max(self._hinted, offset)
                stop = min(offset + options.hint_bytes, target)
                if stop > start:
                    # A whole step at a time, so that the next reads need no further task.
                    stop = min(max(stop, start + options.hint_bytes // 8), self._size)
                    self._hinted = stop
                    self._hint(start, stop)
            if options.window_bytes:
                self._drop_behind(offset)
                self._start_windows(offset, min(offset + options.ahead_bytes, target))
        finally:
            self._advancing = False

    def _start_windows(self, offset: int, stop: int) -> None:
        window_bytes = self._options.window_bytes
        for number in range(offset // window_bytes, -(-stop // window_bytes)):
            with self._lock:
                if self._closed or number in self._windows:
                    continue
                if not self._budget.try_reserve(window_bytes):
                    return
                window = self._windows[number] = _Window()
            try:
                self._pool().submit(self._fill, number, window)
            except RuntimeError:  # the engine is closing
                window.done.set()
                return

    def _fill(self, number: int, window: _Window) -> None:
        try:
            start = number * self._options.window_bytes
            if self._windows.get(number) is window:
                data = self._read(start, min(self._options.window_bytes, self._size - start))
                window.data = data
                metrics.PREFETCHED.inc()
        except NczfsError:
            # A reader that needs these bytes reads them itself, and gets the error.
            with self._lock:
                if self._windows.get(number) is window:
                    self._remove(number)
        finally:
            window.done.set()

    def _drop_behind(self, offset: int) -> None:
        """Drop windows that lie more than a window behind the reader."""
        oldest = offset // self._options.window_bytes - 1
        with self._lock:
            for number in [n for n in self._windows if n < oldest]:
                self._remove(number)

    def _reset(self) -> None:
        with self._lock:
            self._hinted = 0
            for number in list(self._windows):
                self._remove(number)

    def _remove(self, number: int) -> None:
        del self._windows[number]
        self._budget.unreserve(self._options.window_bytes)
