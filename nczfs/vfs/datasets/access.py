"""The access log: the boxes of variables that were read, and what that cost."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from nczfs.engine.options import Tally
from nczfs.views.elements import ElementSource
from nczfs.views.layout import Layout

log = logging.getLogger("nczfs.access")

LINES_KEPT = 10_000
# Below this much decoding a warning is useless; above it, decoding so many times the requested
# bytes shows that the reads go across the grain of the chunks.
AMPLIFIED_BYTES_MIN = 64 << 20
AMPLIFICATION_MIN = 8.0
STEP_SAMPLES_MAX = 4096
BOXES_MAX = 8  # of variables in one line
STEP_SHARE = 4  # one step in so many must be the same to be called a direction


class AccessLog:
    """The last lines, kept for ``.nczfs/access.log`` and passed to the logger ``nczfs.access``.

    `_lock` guards the dict of open files.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._warned: set[str] = set()
        self._lock = threading.Lock()
        self._open: dict[str, _Together] = {}

    def opened(self, what: str, layout: Layout) -> Access:
        """Begin the account of one open file; `what` names its dataset, its node and itself."""
        access = Access(self, what, layout)
        with self._lock:
            self._open.setdefault(access.what, _Together()).open.add(access)
        return access

    def closed(self, access: Access) -> None:
        """End it."""
        with self._lock:
            together = self._open[access.what]
            together.end(access)
            if not together.open:
                del self._open[access.what]

    def cost(self, access: Access) -> Cost:
        """Return the cost of all open files of the same view; if closed, of this one alone."""
        with self._lock:
            together = self._open.get(access.what)
            return access.cost if together is None else together.cost()

    def line(self, text: str) -> None:
        """Add a line."""
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(f"{stamp} {text}")
        log.debug("%s", text)

    def warning(self, what: str, text: str) -> None:
        """Add a warning; the log of the mount has it once for each `what`."""
        self.line(f"{what}: {text}")
        if what not in self._warned:
            self._warned.add(what)
            log.warning("%s: %s", what, text)

    def content(self) -> bytes:
        """Return all lines, the oldest first."""
        text = "\n".join(self._lines)
        return (text + "\n").encode("utf-8", "surrogateescape") if text else b""


class Cost(NamedTuple):
    """The bytes that were answered, and those that were decoded for them."""

    answered: int
    decoded: int

    @property
    def is_amplified(self) -> bool:
        """Whether the ratio is worth a warning."""
        return self.decoded > AMPLIFICATION_MIN * self.answered


class _Together:
    """The open files of the same view.

    They share chunks, and the kernel caches pages for all of them: data decoded ahead for one may
    answer reads of another.
    """

    def __init__(self) -> None:
        self.open: set[Access] = set()
        self._ended = Cost(0, 0)

    def end(self, access: Access) -> None:
        self.open.remove(access)
        self._ended = _sum([self._ended, access.cost])

    def cost(self) -> Cost:
        return _sum([self._ended, *(access.cost for access in self.open)])


def _sum(costs: Sequence[Cost]) -> Cost:
    return Cost(sum(cost.answered for cost in costs), sum(cost.decoded for cost in costs))


class Access:
    """The record of an open file. `_lock` guards its sums."""

    def __init__(self, access_log: AccessLog, what: str, layout: Layout) -> None:
        self.tally = Tally()
        self._log = access_log
        self.what = what
        self._layout = layout
        self._lock = threading.Lock()
        self._reads = 0
        self._bytes = 0
        self._start = layout.size
        self._stop = 0
        self._last = -1
        self._steps: dict[int, int] = {}
        self._warned = False

    @property
    def cost(self) -> Cost:
        """The cost so far."""
        return Cost(self._bytes, self.tally.bytes_decoded)

    def answered(self, offset: int, size: int) -> None:
        """Note a read that was answered with `size` bytes from `offset` on."""
        with self._lock:
            self._reads += 1
            self._bytes += size
            self._start = min(self._start, offset)
            self._stop = max(self._stop, offset + size)
            if self._last >= 0 and self._reads < STEP_SAMPLES_MAX:
                step = offset - self._last
                self._steps[step] = self._steps.get(step, 0) + 1
            self._last = offset
            amplified = not self._warned and self._is_amplified()
            self._warned = self._warned or amplified
        if amplified:
            self._log.warning(self.what, self._warning())

    def closed(self) -> None:
        """Log a line about what was read, when the file is closed."""
        self._log.closed(self)
        if not self._reads:
            return
        tally = self.tally
        self._log.line(
            f"{self.what} box={self._box()} reads={self._reads} bytes={self._bytes} "
            f"chunks_loaded={tally.chunks_loaded} bytes_decoded={tally.bytes_decoded}"
        )

    def _is_amplified(self) -> bool:
        if self.tally.bytes_decoded <= AMPLIFIED_BYTES_MIN:
            return False
        return self.cost.is_amplified and self._log.cost(self).is_amplified

    def _warning(self) -> str:
        answered, decoded = self._log.cost(self)
        factor = decoded / max(1, answered)
        return (
            f"read amplification {factor:.0f}x{self._along()}: the reads go across the chunks; "
            "a larger --memory-limit, or reading along them, costs less"
        )

    def _along(self) -> str:
        """Return the variable and the dimension of the reads, if the view shows one variable.

        The most frequent step between two reads tells the dimension.
        """
        if len(self._layout.sources) != 1:
            return ""
        source = self._layout.sources[0]
        width = source.dtype.itemsize
        named = f", variable {source.name}"
        if not self._steps:
            return named
        step, times = max(self._steps.items(), key=lambda item: item[1])
        if times * STEP_SHARE < sum(self._steps.values()):
            return named  # scattered reads, along no dimension
        axis = source.axis(step // max(1, width))
        return f"{named}, axis {axis}" if axis else named

    def _box(self) -> str:
        """Return each variable's smallest box around everything between the first and last byte."""
        found: dict[ElementSource, tuple[int, int]] = {}
        for span in self._layout.spans(self._start, self._stop):
            first, stop = found.get(span.source, (span.first, span.stop))
            found[span.source] = min(first, span.first), max(stop, span.stop)
        if not found:
            return "header"
        boxes = [
            (source.name, source.box(*elements))
            for source, elements in islice(found.items(), BOXES_MAX)
        ]
        if len(self._layout.sources) == 1:
            return boxes[0][1]
        more = [f"+{len(found) - BOXES_MAX}"] if len(found) > BOXES_MAX else []
        return ",".join([f"{name}{box}" for name, box in boxes] + more)
