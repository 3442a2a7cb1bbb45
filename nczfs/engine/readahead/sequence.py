"""The order in which a file is read, and what will be read next."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

KIB, MIB = 1 << 10, 1 << 20

BACKWARD_SLACK_BYTES = 1 * MIB  # two read-ahead requests of the kernel can overtake each other
FORWARD_SLACK_BYTES = 16 * MIB  # a reader that skips no more than this still counts as sequential
BEGINNING_BYTES_MIN = 128 * KIB
DESCENTS_MIN = 2  # a single step back is how a program reads a header again
STRIDES_MIN = 3
STRIDE_BYTES_MIN = 64 * KIB  # the gap between closer reads costs less than skipping it
STRIDE_SLACK_BYTES = 4 * KIB  # the kernel reads whole pages, wherever in them a program reads
STRIDES_AHEAD_MAX = 16


class Forwards(NamedTuple):
    """Reading in order: everything up to `stop` should be ready."""

    stop: int


class Backwards(NamedTuple):
    """Reading backwards: everything from `start` on should be ready."""

    start: int


class Strided(NamedTuple):
    """Reading `size` bytes every `step` bytes: `places` more should be ready."""

    step: int
    size: int
    places: int


Forecast: TypeAlias = "Forwards | Backwards | Strided | None"


class SequenceDetector:
    """A forecast from the offsets of reads. Pure; races are harmless.

    Parameters
    ----------
    first_bytes, ahead_bytes_max : the distance, which doubles while the reader goes on in order.
    """

    def __init__(self, first_bytes: int, ahead_bytes_max: int) -> None:
        self._ahead_max = ahead_bytes_max
        self._first = min(first_bytes, ahead_bytes_max)
        self._ahead = self._first
        self._low = self._high = self._offset = -1  # of reads in this order, and the last
        self._ascents = self._descents = 0
        self._step = 0
        self._strides = 0

    def note(self, offset: int, size: int) -> Forecast:
        """Return what will probably be read after a read of `size` bytes."""
        before, self._offset = self._offset, offset
        if before < 0:
            self._begin(offset, size)
            # Reading a whole file begins with a large read at its start.
            self._ascents = int(offset == 0 and size >= BEGINNING_BYTES_MIN)
        else:
            if self._is_strided(offset - before, size):
                self._begin(offset, size)
                places = min(2 ** (self._strides - STRIDES_MIN), STRIDES_AHEAD_MAX)
                return Strided(self._step, size, places)
            self._follow(offset, offset + size)
        if self._ascents:
            return Forwards(self._high + self._ahead)
        if self._descents >= DESCENTS_MIN:
            return Backwards(max(0, self._low - self._ahead))
        return None

    def begin_backwards(self, offset: int, size: int) -> Backwards:
        """Return the forecast for a first read that is known to begin reading backwards."""
        self._offset = offset
        self._begin(offset, size)
        self._descents = DESCENTS_MIN + 1
        self._ahead = self._ahead_max
        return Backwards(max(0, offset - self._ahead))

    def _begin(self, offset: int, size: int) -> None:
        self._low, self._high = offset, offset + size
        self._ascents = self._descents = 0
        self._ahead = self._first

    def _is_strided(self, step: int, size: int) -> bool:
        """Return whether the last steps were equal, and skip something."""
        is_same = abs(step - self._step) <= STRIDE_SLACK_BYTES and abs(step) > size
        if not is_same or abs(step) - size < STRIDE_BYTES_MIN:
            self._step, self._strides = step, 1
            return False
        self._strides += 1
        # The mean of all steps, because each of them is off by up to a page.
        self._step += (step - self._step) // self._strides
        return self._strides >= STRIDES_MIN

    def _follow(self, start: int, stop: int) -> None:
        if stop > self._high and -BACKWARD_SLACK_BYTES <= start - self._high <= FORWARD_SLACK_BYTES:
            self._ascents += 1
            self._descents = 0
            self._high = stop
            self._low = max(self._low, stop - BACKWARD_SLACK_BYTES)
            if self._ascents > 1:
                self._ahead = min(2 * self._ahead, self._ahead_max)
        elif start < self._low and self._low - stop <= FORWARD_SLACK_BYTES:
            self._descents += 1
            if self._ascents or self._descents == 1:
                self._ahead = self._first
            self._ascents = 0
            self._low, self._high = start, stop
            if self._descents > DESCENTS_MIN:
                self._ahead = min(2 * self._ahead, self._ahead_max)
        elif not self._low <= start <= stop <= self._high:
            self._begin(start, stop - start)
