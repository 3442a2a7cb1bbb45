"""Places in compressed members from which inflating can continue.

Deflate has access points: the state of the decompressor every few MiB of its output. For the other
methods, and between the points of Deflate, the place where the last reader stopped is kept, so that
a member that is read in pieces from beginning to end is inflated once.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from nczfs.buffers import Buffer
from nczfs.zmap.zip.inflate import DEFLATED, METHODS, Decompressor, DeflateStream

SPACING_BYTES: Final = 4 << 20
BUDGET_BYTES: Final = 64 << 20

_DEFLATE_STATE_BYTES: Final = 48 << 10  # window and tables of zlib
_STATE_BYTES: Final = 16 << 20  # bzip2 takes 4 MiB; LZMA and Zstandard as much as their windows


class InflatingMember:
    """A member that is being decompressed.

    Attributes
    ----------
    given : how many inflated bytes came out.
    taken : how many compressed bytes went in.
    """

    __slots__ = ("_decompressor", "given", "method", "taken")

    def __init__(self, method: int, decompressor: Decompressor) -> None:
        self.method = method
        self.given = 0
        self.taken = 0
        self._decompressor = decompressor

    @classmethod
    def begun(cls, method: int, size: int, *, whole: bool = False) -> InflatingMember:
        """Begin a member of `size` bytes; `whole` if no place is to be kept."""
        if method == DEFLATED and not whole:
            return cls(method, DeflateStream())
        return cls(method, METHODS[method](size))

    @property
    def state_bytes(self) -> int:
        """The approximate bytes for keeping it."""
        return _DEFLATE_STATE_BYTES if self.method == DEFLATED else _STATE_BYTES

    def blocks(self, feed: Iterator[Buffer], stop: int, block_bytes: int) -> Iterator[bytes]:
        """Yield the output up to byte `stop`; less if the compressed bytes end before.

        Deflate64 may yield up to 8 MiB more.
        """
        decompressor = self._decompressor
        while self.given < stop and not decompressor.eof:
            data = b""
            if decompressor.needs_input:
                data = bytes(next(feed, b""))
                if not data:
                    return
                self.taken += len(data)
            block = decompressor.decompress(data, min(stop - self.given, block_bytes))
            if block:
                self.given += len(block)
                yield block

    def copy(self) -> InflatingMember | None:
        """Return a copy of this place; None if it cannot be copied."""
        if not isinstance(self._decompressor, DeflateStream) or not self._decompressor.needs_input:
            return None
        other = InflatingMember(self.method, self._decompressor.copy())
        other.given = self.given
        other.taken = self.taken
        return other


@dataclass(slots=True)
class _Places:
    """The places in a member: access points in order, and where the last reader stopped."""

    points: list[InflatingMember] = field(default_factory=list)
    left: InflatingMember | None = None

    @property
    def state_bytes(self) -> int:
        left = self.left.state_bytes if self.left else 0
        return left + sum(point.state_bytes for point in self.points)


class AccessPoints:
    """The places of all members of an archive, within a budget; thread-safe.

    Those of the least recently read members are dropped first. One lock guards everything.
    """

    def __init__(
        self, budget_bytes: int = BUDGET_BYTES, spacing_bytes: int = SPACING_BYTES
    ) -> None:
        self._budget_bytes = budget_bytes
        self._spacing_bytes = spacing_bytes
        self._lock = threading.Lock()
        self._places: OrderedDict[int, _Places] = OrderedDict()
        self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        """The approximate bytes of all places."""
        with self._lock:
            return self._used_bytes

    def spacing(self, size: int) -> int:
        """Return the distance between points of a member, which gets at most half the budget."""
        return max(self._spacing_bytes, 2 * size * _DEFLATE_STATE_BYTES // self._budget_bytes)

    def take(self, offset: int, start: int) -> InflatingMember | None:
        """Take the nearest place at or before byte `start` of the member at `offset`."""
        with self._lock:
            places = self._places.get(offset)
            if places is None:
                return None
            self._places.move_to_end(offset)
            at = bisect_right(places.points, start, key=_given)
            point = places.points[at - 1] if at else None
            left = places.left
            if left is not None and (point.given if point else 0) <= left.given <= start:
                places.left = None
                self._used_bytes -= left.state_bytes
                return left
            return point.copy() if point else None

    def add(self, offset: int, size: int, reached: InflatingMember) -> None:
        """Make a point at a reader's place in a member of `size` bytes, if none is near."""
        spacing = self.spacing(size)
        with self._lock:
            places = self._of(offset)
            at = bisect_right(places.points, reached.given, key=_given)
            before = places.points[at - 1].given if at else 0
            if reached.given - before < spacing:
                return
            if at < len(places.points) and places.points[at].given - reached.given < spacing:
                return
            point = reached.copy()
            if point is not None:
                places.points.insert(at, point)
                self._grow(point.state_bytes)

    def leave(self, offset: int, left: InflatingMember) -> None:
        """Keep the place where a reader stopped; the caller must not use it any more."""
        if 4 * left.state_bytes > self._budget_bytes:
            return
        with self._lock:
            places = self._of(offset)
            if places.left is not None:
                self._used_bytes -= places.left.state_bytes
            places.left = left
            self._grow(left.state_bytes)

    def _of(self, offset: int) -> _Places:
        places = self._places.setdefault(offset, _Places())
        self._places.move_to_end(offset)
        return places

    def _grow(self, state_bytes: int) -> None:
        self._used_bytes += state_bytes
        while self._used_bytes > self._budget_bytes:
            _, dropped = self._places.popitem(last=False)
            self._used_bytes -= dropped.state_bytes


def _given(place: InflatingMember) -> int:
    return place.given
