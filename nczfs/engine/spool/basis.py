"""Upon which version of an object something was written, for those who put it back later."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import google_crc32c
import numpy as np

from nczfs.zmap.base import Buffer, Part, Range, Stat, Version, ZMap, part_bytes, part_size

BLOCK_BYTES: Final = 8 << 20
_KEPT: Final = 8  # of the versions, and of what was sent: the newest ones


@dataclass(frozen=True, slots=True)
class Sent:
    """An object that was sent to the store, and may have arrived.

    Attributes
    ----------
    crc32c : of the bytes in `ranges`, one after the other.
    ranges : those that came from here; the others were in the store already.
    """

    size: int
    crc32c: int
    ranges: tuple[tuple[int, int], ...]

    def is_in(self, zmap: ZMap, stat: Stat) -> bool:
        """Whether an object is what was sent. Reads it in blocks."""
        if stat.size != self.size or not (self.ranges or not self.size):
            return False
        crc = 0
        for start, stop in self.ranges:
            for at in range(start, stop, BLOCK_BYTES):
                end = min(stop, at + BLOCK_BYTES)
                crc = _extended(crc, zmap.read(stat.key, at, end, version=stat.version).data)
        return crc == self.crc32c

    def document(self) -> list[Any]:
        """As an entry has it."""
        return [self.size, self.crc32c, [list(each) for each in self.ranges]]

    @classmethod
    def parsed(cls, document: Any) -> Sent:
        """The one that an entry has. Raises TypeError, ValueError."""
        size, crc, ranges = document
        return cls(int(size), int(crc), tuple((int(start), int(stop)) for start, stop in ranges))


def sent(parts: Iterable[Part]) -> Sent:
    """What is sent, of what an object is put together of."""
    size, crc, ranges = 0, 0, []
    for part in parts:
        if not isinstance(part, Range):
            for data in part_bytes(part, _nothing):
                crc = _extended(crc, data)
            if part_size(part):
                ranges.append((size, size + part_size(part)))
        size += part_size(part)
    return Sent(size, crc, tuple(ranges))


def time_text(ns: int) -> str:
    """A time as a user reads it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ns / 1e9))


def _extended(crc: int, data: Buffer) -> int:
    return int(google_crc32c.extend(crc, np.frombuffer(data, np.uint8)))


def _nothing(part: Range) -> Buffer:
    raise AssertionError(part)


@dataclass(frozen=True, slots=True)
class Basis:
    """What was known of an object when something was written to it that is not stored yet.

    Attributes
    ----------
    written_ns : when the first of it was written, since 1970.
    versions : those that it was put over, `ABSENT` where there was none; empty: none is known.
    sent : what was sent to the store without an answer: that is what was written, too.
    """

    written_ns: int = field(default_factory=time.time_ns)
    versions: tuple[Version, ...] = ()
    sent: tuple[Sent, ...] = ()

    def upon(self, version: Version | None) -> Basis:
        """The same, put over one more version."""
        if version is None or version in self.versions:
            return self
        return replace(self, versions=(*self.versions, version)[-_KEPT:])

    def sending(self, attempt: Sent) -> Basis:
        """The same, sent once more."""
        others = tuple(each for each in self.sent if each != attempt)
        return replace(self, sent=(*others, attempt)[-_KEPT:])

    def document(self) -> dict[str, Any]:
        """As an entry has it."""
        return {
            "written_ns": self.written_ns,
            "versions": list(self.versions),
            "sent": [each.document() for each in self.sent],
        }

    @classmethod
    def parsed(cls, document: Mapping[str, Any], otherwise: int) -> Basis:
        """The one that an entry has. Raises TypeError, ValueError.

        Parameters
        ----------
        otherwise : when it was written, where the entry does not tell.
        """
        versions, attempts = document.get("versions", []), document.get("sent", [])
        if not isinstance(versions, list) or not all(isinstance(v, str) for v in versions):
            raise TypeError(f"{versions!r} are not versions")
        return cls(
            int(document.get("written_ns", otherwise)),
            tuple(map(Version, versions)),
            tuple(map(Sent.parsed, attempts)),
        )
