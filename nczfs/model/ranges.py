"""Sets of byte ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

END: Final = 1 << 63  # of a range that goes on without an end


class Ranges:
    """Half-open ranges, merged where they touch. Not thread-safe."""

    __slots__ = ("_starts", "_stops", "total")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.total = 0

    def add(self, start: int, stop: int) -> None:
        """Add a range."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        self.total -= sum(self._stops[i] - self._starts[i] for i in range(first, last))
        self.total += stop - start
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def cut(self, stop: int) -> None:
        """Remove everything from `stop` on."""
        first = bisect_right(self._stops, stop)
        self.total -= sum(
            self._stops[i] - max(stop, self._starts[i]) for i in range(first, len(self._stops))
        )
        kept = first < len(self._starts) and self._starts[first] < stop
        last = first + kept
        del self._starts[last:]
        del self._stops[last:]
        if kept:
            self._stops[first] = stop

    def copy(self) -> Ranges:
        """Return an independent copy."""
        made = Ranges()
        made._starts, made._stops, made.total = self._starts[:], self._stops[:], self.total
        return made

    def within(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a range that are in the set."""
        for i in range(bisect_right(self._stops, start), len(self._starts)):
            if self._starts[i] >= stop:
                break
            yield max(start, self._starts[i]), min(stop, self._stops[i])

    def gaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a range that are not in the set."""
        at = start
        for i in range(bisect_right(self._stops, start), len(self._starts)):
            if self._starts[i] >= stop:
                break
            if self._starts[i] > at:
                yield at, self._starts[i]
            at = self._stops[i]
        if at < stop:
            yield at, stop
