"""Reading ahead of sequential readers: when, how far, and into which windows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from weakref import WeakSet

from nczfs import metrics
from nczfs.buffers import Buffer
from nczfs.engine.background import Background
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.readahead.backwards import PUT_AHEAD_BYTES, BackwardPages
from nczfs.engine.readahead.sequence import (
    KIB,
    MIB,
    Backwards,
    Forecast,
    Forwards,
    SequenceDetector,
    Strided,
)
from nczfs.errors import NczfsError
from nczfs.plaindata import frozen

FIRST_AHEAD_BYTES = 1 * MIB + 128 * KIB  # the kernel's first two read-aheads
FAR_FIRST_AHEAD_BYTES = 16 * MIB  # doubling from a smaller size costs a round trip each time
IDLE_S = 5.0  # a program that pauses for longer has its windows read again
WAIT_S = 4.0  # for a window under way: an attempt to read from a store gets no more without a byte


@frozen
class AheadOptions:
    """The sizes of reading ahead in one file.

    Attributes
    ----------
    window_bytes : what a thread assembles at a time, aligned to multiples of itself; 0: only `hint`
        is called, and the reader finds the data in the chunk cache.
    ahead_bytes : how far the windows extend beyond the reader.
    hint_bytes : how far `hint` extends beyond the reader.
    first_bytes : the initial distance.
    place_bytes : what has to be decoded for a read anywhere.
    step_bytes : how much of a window is read at a time, while the window is wanted; 0: all.
    """

    window_bytes: int
    ahead_bytes: int
    hint_bytes: int
    first_bytes: int = FIRST_AHEAD_BYTES
    place_bytes: int = 1
    step_bytes: int = 0

    def widest(self, other: AheadOptions) -> AheadOptions:
        """Return options that read ahead as far as either of the two."""
        return AheadOptions(
            max(self.window_bytes, other.window_bytes),
            max(self.ahead_bytes, other.ahead_bytes),
            max(self.hint_bytes, other.hint_bytes),
            max(self.first_bytes, other.first_bytes),
            max(self.place_bytes, other.place_bytes),
            max(self.step_bytes, other.step_bytes),
        )


NOT_AHEAD = AheadOptions(0, 0, 0)


class _Window:
    """Bytes that a thread assembles; `data` stays None if that fails."""

    __slots__ = ("data", "done")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.data: Buffer | None = None


def _set(event: threading.Event, _: Future[None]) -> None:
    event.set()


class Windows:
    """The windows of all open files: their memory, and its release.

    Parameters
    ----------
    budget : for the memory; without room, nothing is read ahead.
    idle_s : after so long without a read, the windows of a file are dropped.
    wait_s : after so long, a reader reads itself what a window under way was to have.
    """

    def __init__(self, budget: ChunkCache, idle_s: float = IDLE_S, wait_s: float = WAIT_S) -> None:
        self.budget = budget
        self.wait_s = wait_s
        self._readers: WeakSet[ReadAhead] = WeakSet()
        self._lock = threading.Lock()  # guards the readers
        self._background = Background(self._drop_idle, idle_s)

    def note(self, reader: ReadAhead) -> None:
        """Note that a file has windows."""
        with self._lock:
            self._readers.add(reader)
        self._background.expect()

    def close(self) -> None:
        """Stop looking for windows to drop."""
        self._background.close()

    def _drop_idle(self, before: float) -> bool:
        """Drop windows of files that were not read since then. Returns whether any are left."""
        with self._lock:
            readers = list(self._readers)
            idle = [reader for reader in readers if reader.last_read < before]
            self._readers.difference_update(idle)
        for reader in idle:
            reader.drop()
        return len(idle) < len(readers)


class ReadAhead:
    """The reading ahead of one open file.

    `_lock` guards the dict of windows and the marks; nothing is read or waited for under it.

    Parameters
    ----------
    read : reads any range of the file; called in threads of `pool`.
    hint : called with a range that will be needed, ahead of the windows.
    size : of the file, in bytes.
    windows : those of all files.
    backwards : puts pages into the kernel's cache; None: windows serve all readers.

    Attributes
    ----------
    last_read : the time of the last read, by the monotonic clock.
    is_closed : whether nothing more is read ahead.
    """

    def __init__(
        self,
        read: Callable[[int, int], Buffer],
        hint: Callable[[int, int], None] | None,
        size: int,
        pool: Callable[[], ThreadPoolExecutor],
        windows: Windows,
        options: AheadOptions,
        backwards: BackwardPages | None = None,
    ) -> None:
        self._backwards = backwards
        self._read = read
        self._hint = hint
        self._size = size
        self._pool = pool
        self._all = windows
        self._options = options
        self._detector = SequenceDetector(
            options.first_bytes, max(options.ahead_bytes, options.hint_bytes)
        )
        self._lock = threading.Lock()
        self._windows: dict[int, _Window] = {}
        self._hinted: tuple[int, int] | None = None
        self._order: type | None = None
        self._last: Forecast = None
        self._advancing = False
        self.is_closed = False
        self.last_read = 0.0

    def note(self, offset: int, size: int) -> None:
        """Note a read, and start to read ahead if that is worth it. Never blocks."""
        self.last_read = time.monotonic()
        forecast = self._forecast(offset, size)
        if type(forecast) is not self._order:
            self._order = type(forecast)
            if self._windows or self._hinted:
                self.drop()
        if forecast is None or self._advancing or self.is_closed:
            return
        if not self._wants(offset, forecast):
            return
        self._advancing = True
        try:
            self._pool().submit(self._advance, offset, forecast)
        except RuntimeError:  # the engine is closing
            self._advancing = False

    def _forecast(self, offset: int, size: int) -> Forecast:
        backwards = self._backwards
        if backwards is None:
            return self._detector.note(offset, size)
        covered = backwards.note(offset, size)
        if covered is None:
            return self._last
        if backwards.begins_run:
            self.drop()
            self._last = self._detector.begin_backwards(offset, covered)
        else:
            self._last = self._detector.note(offset, covered)
        if isinstance(self._last, Backwards):
            self._last = Backwards(max(self._last.start, backwards.floor))
        return self._last

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
        """Return what `if_ready` does, after a wait for windows under way.

        None if there are no such windows, or one failed or takes too long.
        """
        window_bytes = self._options.window_bytes
        if not self._windows or not window_bytes:
            return None
        for number in range(offset // window_bytes, (offset + size - 1) // window_bytes + 1):
            window = self._windows.get(number)
            if window is None:
                return None
            if not window.done.wait(self._all.wait_s):
                return None
        return self.if_ready(offset, size)

    def drop(self) -> None:
        """Forget the windows and what was hinted; the next read in order begins anew."""
        with self._lock:
            self._hinted = None
            for number in list(self._windows):
                self._remove(number)

    def close(self) -> None:
        """Drop the windows; those under way are dropped when they are done."""
        self.is_closed = True
        self.drop()

    def _lead(self, offset: int, forecast: Forwards | Backwards, limit: int) -> tuple[int, int]:
        """Return the range that will be read next, up to `limit` bytes of it."""
        if isinstance(forecast, Forwards):
            return offset, min(offset + limit, forecast.stop, self._size)
        return max(offset - limit, forecast.start), offset

    def _reach(self, offset: int, forecast: Forwards | Backwards) -> int:
        """Return how far before a reader pages should be in the kernel's cache."""
        start, stop = self._lead(offset, forecast, PUT_AHEAD_BYTES)
        return stop - start

    def _numbers(self, start: int, stop: int) -> range:
        """Return the windows of a range of bytes."""
        window_bytes = self._options.window_bytes
        return range(start // window_bytes, -(-stop // window_bytes))

    def _wants(self, offset: int, forecast: Forwards | Backwards | Strided) -> bool:
        """Return whether enough data are missing ahead of the reader to be worth a task."""
        options = self._options
        if isinstance(forecast, Strided):
            return self._hint is not None
        if self._hint is not None and self._unhinted(offset, forecast):
            return True
        backwards = self._puts_pages(forecast)
        if backwards is not None:
            return backwards.wants(self._reach(offset, forecast))
        if not options.window_bytes:
            return False
        numbers = self._numbers(*self._lead(offset, forecast, options.ahead_bytes))
        return any(number not in self._windows for number in numbers)

    def _advance(self, offset: int, forecast: Forwards | Backwards | Strided) -> None:
        try:
            if isinstance(forecast, Strided):
                self._hint_places(offset, forecast)
                return
            self._hint_range(offset, forecast)
            backwards = self._puts_pages(forecast)
            if backwards is not None:
                self._put_pages(backwards, self._reach(offset, forecast))
            elif self._options.window_bytes:
                start, stop = self._lead(offset, forecast, self._options.ahead_bytes)
                self._drop_behind(offset, forecast)
                numbers = self._numbers(start, stop)
                is_forwards = isinstance(forecast, Forwards)
                self._start_windows(numbers if is_forwards else numbers[::-1])
        finally:
            self._advancing = False

    def _puts_pages(self, forecast: Forwards | Backwards) -> BackwardPages | None:
        """Return what puts pages into the kernel's cache for a reader, if windows do not serve it.

        They do where the kernel takes no pages at present.
        """
        backwards = self._backwards
        if backwards is None or isinstance(forecast, Forwards):
            return None
        return backwards if backwards.is_plain and backwards.takes_pages else None

    def _put_pages(self, backwards: BackwardPages, reach: int) -> None:
        following = backwards.following()
        if following is not None and self._hint is not None:
            start, stop = following
            self._hint(start, min(stop, start + self._options.hint_bytes, self._size))
        backwards.put(reach)

    def _unhinted(self, offset: int, forecast: Forwards | Backwards) -> tuple[int, int] | None:
        """Return the range ahead of the reader that was not hinted yet."""
        start, stop = self._lead(offset, forecast, self._options.hint_bytes)
        if self._hinted is not None:
            if isinstance(forecast, Forwards):
                start = max(start, self._hinted[1])
            else:
                stop = min(stop, self._hinted[0])
        return (start, stop) if start < stop else None

    def _hint_range(self, offset: int, forecast: Forwards | Backwards) -> None:
        unhinted = self._unhinted(offset, forecast)
        if self._hint is None or unhinted is None:
            return
        start, stop = unhinted
        # A whole step at a time, so that the next reads need no task of their own.
        step = self._options.hint_bytes // 8
        if isinstance(forecast, Forwards):
            stop = min(max(stop, start + step), self._size)
        else:
            start = max(0, min(start, stop - step))
        self._hinted = (start, stop)
        self._hint(start, stop)

    def _hint_places(self, offset: int, forecast: Strided) -> None:
        """Hint the next places of a reader that skips what is between them."""
        assert self._hint is not None
        room = max(1, self._options.hint_bytes // self._options.place_bytes)
        for number in range(1, min(forecast.places, room) + 1):
            start = offset + number * forecast.step
            if 0 <= start < self._size:
                self._hint(start, min(start + forecast.size, self._size))

    def _start_windows(self, numbers: range) -> None:
        window_bytes = self._options.window_bytes
        for number in numbers:
            with self._lock:
                if self.is_closed or number in self._windows:
                    continue
                if not self._all.budget.try_reserve(window_bytes):
                    return
                window = self._windows[number] = _Window()
            self._all.note(self)
            try:
                filling = self._pool().submit(self._fill, number, window)
            except RuntimeError:  # the engine is closing
                window.done.set()
                return
            # A task that is cancelled never begins.
            filling.add_done_callback(partial(_set, window.done))

    def _fill(self, number: int, window: _Window) -> None:
        try:
            pieces: list[Buffer] = []
            for start, stop in self._steps(number):
                if self._windows.get(number) is not window:
                    return
                pieces.append(self._read(start, stop - start))
            window.data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            metrics.PREFETCHED.inc()
        except NczfsError:
            # The reader that needs these bytes reads them itself, and gets the error as its own.
            with self._lock:
                if self._windows.get(number) is window:
                    self._remove(number)
        finally:
            window.done.set()

    def _steps(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of a window that are read one after the other."""
        window_bytes = self._options.window_bytes
        first = number * window_bytes
        last = min(first + window_bytes, self._size)
        step = self._options.step_bytes or window_bytes
        for start in range(first, last, step):
            yield start, min(start + step, last)

    def _drop_behind(self, offset: int, forecast: Forwards | Backwards) -> None:
        """Drop windows that lie more than a window behind the reader."""
        here = offset // self._options.window_bytes
        is_forwards = isinstance(forecast, Forwards)
        with self._lock:
            for number in list(self._windows):
                if (number < here - 1) if is_forwards else (number > here + 1):
                    self._remove(number)

    def _remove(self, number: int) -> None:
        del self._windows[number]
        self._all.budget.claim(-self._options.window_bytes)
