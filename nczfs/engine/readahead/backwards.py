"""Pages of a file that are put into the kernel's cache for a reader that goes backwards.

The kernel reads ahead forwards only: a program that reads rows from the last to the first (GDAL)
asks for each page on its own, at a round trip each. So once the order is plain, the pages before
the reader are put into the kernel's cache, a MiB at a time, without the last page of each MiB: the
reader asks for that one, and shows by it where it is.

GDAL reads one map after the other like this: what lies before a map was read already, and the map
behind it comes next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from nczfs.buffers import Buffer
from nczfs.engine.readahead.sequence import MIB
from nczfs.errors import NczfsError

PAGE_BYTES = 4096
PIECE_BYTES = 1 * MIB
PUT_AHEAD_BYTES = 8 * MIB
ASIDE_MAX = 4  # reads in a row that do not end it: the kernel reads ahead behind a row
DENSE_MIN = 8  # reads in a row, each right before the last one, that show the order


class PageCache(ABC):
    """The kernel's pages of an open file."""

    @property
    @abstractmethod
    def fresh_since(self) -> float:
        """The time since which the values in put pages must have been confirmed.

        All who have the file open share its pages, also those who opened it later.
        """

    @property
    @abstractmethod
    def takes_pages(self) -> bool:
        """Whether `begin` would return a ticket. Never blocks."""

    @abstractmethod
    def begin(self) -> object | None:
        """Return a ticket for bytes that are read from now on; None: none can be put at present.

        It is void from the moment on when anything may have changed that the file shows.
        """

    @abstractmethod
    def put(self, ticket: object, offset: int, data: Buffer) -> bool:
        """Have whole pages put into the cache, unless the ticket is void. Never blocks.

        Returns
        -------
        False if they were refused: the ticket is void, or too many others wait.
        """


class _Run:
    """Reads that go backwards from `first` without a gap; `high` is the end of all of them.

    `dense` counts them and those of earlier runs, `steps` its own; `aside` the last ones that were
    no step. `note` sets all but `front` and `top`, which belong to the thread that puts pages: it
    has put the range between them, but for the last pages of its pieces.
    """

    __slots__ = (
        "aside",
        "dense",
        "first",
        "floor",
        "following",
        "front",
        "high",
        "low",
        "steps",
        "top",
    )

    def __init__(self, low: int, high: int) -> None:
        self.low, self.first, self.high = low, high, high
        self.dense = self.steps = self.aside = 0
        self.floor = 0  # up to where an earlier run has read
        self.front = self.top = -1
        self.following: tuple[int, int] | None = None

    def step(self, offset: int) -> None:
        """Note a read right before the others."""
        self.low = offset
        self.steps += 1
        self.aside = 0


class BackwardPages:
    """What is put into the kernel's cache for one open file.

    `note` is called for one read at a time, on the event loop, and `put` by one thread at a time.

    Parameters
    ----------
    pages : of the file in the kernel.
    read : reads any range of the file.

    Attributes
    ----------
    begins_run : whether the last read begins another run, after one that left nothing out.
    """

    def __init__(self, pages: PageCache, read: Callable[[int, int], Buffer]) -> None:
        self._pages = pages
        self._read = read
        self._run = _Run(-1, -1)
        self._ticket: object | None = None
        self.begins_run = False

    @property
    def floor(self) -> int:
        """The offset below which the reader has been before."""
        run = self._run
        return run.floor if run.low >= run.floor else 0

    def note(self, offset: int, size: int) -> int | None:
        """Note a read.

        Returns
        -------
        the size of what the reader has read from `offset` on, with the pages that it found in the
        kernel's cache, and did not ask for. None: the read says nothing about its order.
        """
        run, stop = self._run, offset + size
        low = run.low
        self.begins_run = False
        if offset < low:
            if run.front <= stop and low <= run.top:
                run.step(offset)
                return max(size, low - offset)
            if low <= stop + max(size, PAGE_BYTES):
                run.step(offset)
                run.dense += 1
                return size
        elif self.is_plain and offset <= run.high and run.aside < ASIDE_MAX:
            run.aside += 1
            run.high = max(run.high, stop)
            return None
        self._run = self._next_run(run, offset, stop)
        return size

    @property
    def takes_pages(self) -> bool:
        """Whether the kernel takes pages at present."""
        return self._pages.takes_pages

    @property
    def is_plain(self) -> bool:
        """Whether the reads leave nothing out, so that all pages before them will be needed."""
        return self._run.dense >= DENSE_MIN

    def wants(self, reach: int) -> bool:
        """Return whether pages are missing in the `reach` bytes before the reader."""
        run = self._run
        front = run.low if run.front < 0 else min(run.front, run.low)
        return front > max(self.floor, run.low - reach)

    def following(self) -> tuple[int, int] | None:
        """Return, once in a run, the range that is read after it, if it follows a run like it."""
        run = self._run
        following, run.following = run.following, None
        return following

    def put(self, reach: int) -> None:
        """Put the pages in the `reach` bytes before the reader; may block."""
        run = self._run
        ticket = self._pages.begin()
        if ticket is None:
            return
        if ticket is not self._ticket:
            self._ticket = ticket
            run.front = -1  # what was put before may be gone
        if not 0 <= run.front <= run.low:
            run.front = run.top = run.low // PAGE_BYTES * PAGE_BYTES
        while run is self._run and run.front > max(self.floor, run.low - reach):
            start = (run.front - 1) // PIECE_BYTES * PIECE_BYTES
            stop = run.front - PAGE_BYTES if run.front % PIECE_BYTES == 0 else run.front
            if stop > start:
                try:
                    data = self._read(start, stop - start)
                except NczfsError:
                    break  # the reader that needs these bytes gets the error as its own
                if not self._pages.put(ticket, start, data):
                    break
            run.front = start

    def _next_run(self, before: _Run, start: int, stop: int) -> _Run:
        run = _Run(start, stop)
        if before.dense < DENSE_MIN or not before.steps or start < before.high:
            return run
        run.dense = before.dense
        run.floor = before.high
        self.begins_run = True
        length = before.first - before.low
        if abs(stop - before.first - length) <= length // 8:
            run.following = stop, stop + length
        return run
