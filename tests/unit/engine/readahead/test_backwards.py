"""Pages that are put into the kernel's cache for readers that go backwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.readahead.backwards import (
    PIECE_BYTES,
    PUT_AHEAD_BYTES,
    BackwardPages,
    PageCache,
)
from nczfs.engine.readahead.prefetch import AheadOptions, ReadAhead, Windows
from nczfs.engine.readahead.sequence import MIB
from nczfs.errors import Unavailable

PAGE = 4096
SIEVE = 64 << 10  # bytes that HDF5 reads for each row
MAP_BYTES = 4 * MIB
HEADER = 24 << 10
OPTIONS = AheadOptions(4 * MIB, 12 * MIB, 24 * MIB)


class Tasks(ThreadPoolExecutor):
    """Tasks of which each begins some reads late."""

    def __init__(self, late: int) -> None:
        super().__init__(1)
        self._late = late
        self._now = 0
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._waiting.append((self._now + self._late, lambda: fn(*args, **kwargs)))
        return Future()

    def tick(self) -> None:
        self._now += 1
        while self._waiting and self._waiting[0][0] <= self._now:
            self._waiting.popleft()[1]()


class Pages(PageCache):
    """The pages of a file in a kernel."""

    def __init__(self) -> None:
        self.cached: set[int] = set()
        self.put_bytes: list[tuple[int, int]] = []
        self.ticket = object()
        self.takes = True

    @property
    def fresh_since(self) -> float:
        return 0.0

    @property
    def takes_pages(self) -> bool:
        return self.takes

    def begin(self) -> object | None:
        return self.ticket if self.takes else None

    def put(self, ticket: object, offset: int, data: bytes | bytearray | memoryview) -> bool:
        assert offset % PAGE == 0
        assert len(data) % PAGE == 0
        if ticket is not self.ticket:
            return False
        self.put_bytes.append((offset, len(data)))
        self.cached.update(range(offset // PAGE, (offset + len(data)) // PAGE))
        return True

    def void(self) -> None:
        self.ticket = object()
        self.cached.clear()


class Reader:
    """A program that reads a file through the kernel's cache."""

    def __init__(
        self, size: int, late: int, read: Callable[[int, int], bytes] | None = None
    ) -> None:
        self.size = size
        self.pages = Pages()
        self.tasks = Tasks(late)
        self.requests = 0
        self.hinted: list[tuple[int, int]] = []
        self.windows = Windows(ChunkCache(64 * MIB))
        self.ahead = ReadAhead(
            lambda _offset, size: bytes(size),
            lambda start, stop: self.hinted.append((start, stop)),
            size,
            lambda: self.tasks,
            self.windows,
            OPTIONS,
            BackwardPages(self.pages, read or (lambda _offset, size: bytes(size))),
        )

    def read(self, offset: int, size: int) -> None:
        """Read a range; a request for each gap in what the kernel has."""
        stop = -(-min(offset + size, self.size) // PAGE)
        missing = [page for page in range(offset // PAGE, stop) if page not in self.pages.cached]
        while missing:
            count = 1
            while count < len(missing) and missing[count] == missing[0] + count:
                count += 1
            self.ahead.note(missing[0] * PAGE, count * PAGE)
            self.requests += 1
            self.pages.cached.update(missing[:count])
            self.tasks.tick()
            del missing[:count]

    def read_rows(self, start: int, stop: int, row: int = PAGE, size: int = SIEVE) -> None:
        """Read rows from the last to the first."""
        for offset in range(stop - row, start - 1, -row):
            self.read(offset, size)


@pytest.fixture
def reader_of() -> Iterator[Callable[..., Reader]]:
    readers: list[Reader] = []

    def new(*arguments: Any) -> Reader:
        readers.append(Reader(*arguments))
        return readers[-1]

    yield new
    for reader in readers:
        reader.ahead.close()
        reader.windows.close()


@pytest.mark.parametrize(("late", "requests_max"), [(1, 32), (20, 200)])
@pytest.mark.parametrize("row", [400, PAGE, 10_000])
def test_a_reader_that_goes_backwards_asks_once_for_a_mebibyte(
    reader_of: Callable[..., Reader], row: int, late: int, requests_max: int
) -> None:
    size = 16 * MIB + 100
    reader = reader_of(size, late)
    reader.read_rows(0, size, row, row)
    assert reader.requests <= requests_max
    places = [offset for offset, _ in reader.pages.put_bytes]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(("late", "requests_max"), [(1, 120), (20, 500)])
def test_maps_that_are_read_from_the_last_row_to_the_first_cost_few_requests(
    reader_of: Callable[..., Reader], late: int, requests_max: int
) -> None:
    maps = 16
    reader = reader_of(HEADER + maps * MAP_BYTES + 8192, late)
    for number in range(maps):
        start = HEADER + number * MAP_BYTES
        reader.read_rows(start, start + MAP_BYTES)
    assert reader.requests <= requests_max  # of 16,384 rows
    # What was read before is neither put again nor decoded again.
    assert sum(size for _, size in reader.pages.put_bytes) <= maps * MAP_BYTES + PIECE_BYTES
    assert sum(stop - start for start, stop in reader.hinted) <= (maps + 1) * MAP_BYTES


def test_what_the_kernel_reads_ahead_behind_a_row_does_not_end_the_order(
    reader_of: Callable[..., Reader],
) -> None:
    reader = reader_of(3 * MAP_BYTES, 1)
    reader.read_rows(MAP_BYTES, 2 * MAP_BYTES)
    reader.read_rows(2 * MAP_BYTES, 3 * MAP_BYTES - SIEVE)
    before = reader.requests
    reader.ahead.note(3 * MAP_BYTES - PAGE, PAGE)
    reader.read_rows(0, MAP_BYTES)
    assert reader.requests - before < 50


def test_nothing_is_put_for_readers_in_order_or_at_random_places(
    reader_of: Callable[..., Reader],
) -> None:
    forwards = reader_of(16 * MIB, 1)
    for offset in range(0, 16 * MIB, SIEVE):
        forwards.read(offset, SIEVE)
    scattered = reader_of(16 * MIB, 1)
    for number in range(2000):
        scattered.read(number * 7919 * PAGE % (16 * MIB), PAGE)
    strided = reader_of(64 * MIB, 1)
    for number in range(60):
        strided.read(63 * MIB - number * MIB, PAGE)
    assert [r.pages.put_bytes for r in (forwards, scattered, strided)] == [[], [], []]


def test_a_reader_that_turns_and_goes_forwards_is_followed(
    reader_of: Callable[..., Reader],
) -> None:
    reader = reader_of(64 * MIB, 1)
    reader.read_rows(16 * MIB, 20 * MIB)
    before = len(reader.pages.put_bytes)
    reader.hinted.clear()
    for offset in range(24 * MIB, 60 * MIB, SIEVE):
        reader.read(offset, SIEVE)
    assert len(reader.pages.put_bytes) - before <= PUT_AHEAD_BYTES // PIECE_BYTES + 1
    assert max(stop for _, stop in reader.hinted) >= 60 * MIB


def test_pages_that_were_voided_are_put_again(reader_of: Callable[..., Reader]) -> None:
    reader = reader_of(32 * MIB, 1)
    reader.read_rows(16 * MIB, 32 * MIB, PAGE, PAGE)
    reader.pages.void()
    before = reader.requests
    reader.read_rows(0, 16 * MIB, PAGE, PAGE)
    assert reader.requests - before <= 16 * MIB // PIECE_BYTES + 8 * MIB // PAGE // 8


def test_where_the_kernel_takes_no_pages_windows_serve_the_reader(
    reader_of: Callable[..., Reader],
) -> None:
    reader = reader_of(16 * MIB, 1)
    reader.pages.takes = False
    reader.read_rows(0, 16 * MIB, PAGE, PAGE)
    assert reader.pages.put_bytes == []
    assert reader.requests == 16 * MIB // PAGE
    assert reader.ahead._windows


def test_what_cannot_be_read_is_left_to_the_reader(reader_of: Callable[..., Reader]) -> None:
    def read(offset: int, size: int) -> bytes:
        if offset < 8 * MIB:
            raise Unavailable("the store is gone")
        return bytes(size)

    reader = reader_of(16 * MIB, 1, read)
    reader.read_rows(0, 16 * MIB, PAGE, PAGE)
    assert min(offset for offset, _ in reader.pages.put_bytes) == 8 * MIB
    assert reader.requests >= 8 * MIB // PAGE
