"""The version of an object on which something was written, for putting it back later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain, islice
from typing import Any, Final

import google_crc32c
import numpy as np

from nczfs.buffers import Buffer
from nczfs.plaindata import frozen
from nczfs.zmap.base import ByteRange, Part, Stat, Version, ZMap, cut_part, part_bytes, part_size

BLOCK_BYTES: Final = 8 << 20
END_BYTES: Final = 64 << 10
_KEPT: Final = 8  # of the versions, and of what was sent: the newest ones
_RANGES_MAX: Final = 1 << 15  # of all that was sent: a record is as long as that


@frozen
class Sent:
    """An object that was sent to the store, and may have arrived.

    Attributes
    ----------
    crc32c : of the concatenated bytes in `ranges`.
    ranges : those that came from here; the others were in the store already.
    """

    size: int
    crc32c: int
    ranges: tuple[tuple[int, int], ...] = field(hash=False)  # there may be many

    def is_in(self, zmap: ZMap, stat: Stat) -> bool:
        """Return whether an object is what was sent. Reads it in blocks."""
        if stat.size != self.size or not (self.ranges or not self.size):
            return False
        crc = 0
        for start, stop in self.ranges:
            for at in range(start, stop, BLOCK_BYTES):
                end = min(stop, at + BLOCK_BYTES)
                crc = _extended(crc, zmap.read(stat.key, at, end, version=stat.version).data)
        return crc == self.crc32c

    def document(self) -> list[Any]:
        """Return the form in an entry."""
        return [self.size, self.crc32c, [list(each) for each in self.ranges]]

    @classmethod
    def parsed(cls, document: Any) -> Sent:
        """Parse the form in an entry. Raises TypeError, ValueError."""
        size, crc, ranges = document
        return cls(int(size), int(crc), tuple((int(start), int(stop)) for start, stop in ranges))


@frozen
class ObjectCopy:
    """A version of an object that is a copy of another object.

    Attributes
    ----------
    resolution_ns : of the times of their store.
    made_ns : when this process had made it, since 1970.
    """

    source: Stat
    version: Version
    resolution_ns: int
    made_ns: int = field(default_factory=time.time_ns)


def _nothing(part: ByteRange) -> Buffer:
    raise AssertionError(part)


def sent(parts: Sequence[Part], read: Callable[[ByteRange], Buffer] = _nothing) -> Sent:
    """Describe what is sent, from the parts of an object.

    Parameters
    ----------
    read : returns bytes that are in the store. The end of an object that has no others, because it
        only became shorter, is read: that distinguishes it from others.
    """
    if parts and all(isinstance(part, ByteRange) for part in parts):
        begin = max(0, part_size(parts[-1]) - END_BYTES)
        end = cut_part(parts[-1], begin, part_size(parts[-1]))
        assert isinstance(end, ByteRange)
        parts = [*parts[:-1], cut_part(parts[-1], 0, begin), read(end)]
    size, crc = 0, 0
    ranges: list[tuple[int, int]] = []
    for part in parts:
        if not isinstance(part, ByteRange):
            for data in part_bytes(part, _nothing):
                crc = _extended(crc, data)
            if part_size(part):
                start = ranges.pop()[0] if ranges and ranges[-1][1] == size else size
                ranges.append((start, size + part_size(part)))
        size += part_size(part)
    return Sent(size, crc, tuple(ranges))


def time_text(ns: int) -> str:
    """Format a time for users."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ns / 1e9))


def _extended(crc: int, data: Buffer) -> int:
    return int(google_crc32c.extend(crc, np.frombuffer(data, np.uint8)))


@frozen
class Basis:
    """The knowledge about an object at the time of an unsaved write.

    Attributes
    ----------
    written_ns : when the first of it was written, since 1970.
    versions : those that it was put over, `ABSENT` if there was none; empty: unknown.
    sent : what was sent to the store without an answer, which is also what was written.
    appended_from : the first record of the array whose place was not certain, because it was
        appended; None: there was none.
    """

    written_ns: int = field(default_factory=time.time_ns)
    versions: tuple[Version, ...] = ()
    sent: tuple[Sent, ...] = ()
    appended_from: int | None = None

    def upon(self, version: Version | None) -> Basis:
        """Return the basis with one more version."""
        if version is None or version in self.versions:
            return self
        return replace(self, versions=(*self.versions, version)[-_KEPT:])

    def is_upon(self, stat: Stat, resolution_ns: int) -> bool:
        """Return whether an object is surely not newer than what was written. Does not read it.

        Parameters
        ----------
        resolution_ns : that of the times of its store.
        """
        if stat.version in self.versions:
            return True
        return stat.stored_ns is not None and stat.stored_ns + resolution_ns <= self.written_ns

    def upon_copy(self, copy: ObjectCopy) -> Basis:
        """Return the basis with the copy of an object, too, unless that may be newer."""
        is_older = copy.made_ns <= self.written_ns or self.is_upon(copy.source, copy.resolution_ns)
        return self.upon(copy.version) if is_older else self

    def sending(self, attempt: Sent) -> Basis:
        """Return the basis with one more thing that was sent, as far as there is room for them."""
        others = (each for each in reversed(self.sent) if each != attempt)
        kept: list[Sent] = []
        room = _RANGES_MAX
        for each in islice(chain([attempt], others), _KEPT):
            room -= len(each.ranges)
            if room < 0:
                break
            kept.append(each)
        return replace(self, sent=tuple(reversed(kept)))

    def since(self, written_ns: int) -> Basis:
        """Return the basis of what was not written before some time."""
        return replace(self, written_ns=max(written_ns, self.written_ns))

    def document(self) -> dict[str, Any]:
        """Return the form in an entry."""
        return {
            "written_ns": self.written_ns,
            "versions": list(self.versions),
            "sent": [each.document() for each in self.sent],
            "appended_from": self.appended_from,
        }

    @classmethod
    def parsed(cls, document: Mapping[str, Any], otherwise: int) -> Basis:
        """Parse the form in an entry. Raises TypeError, ValueError.

        Parameters
        ----------
        otherwise : when it was written, if the entry does not say.
        """
        versions, attempts = document.get("versions", []), document.get("sent", [])
        if not isinstance(versions, list) or not all(isinstance(v, str) for v in versions):
            raise TypeError(f"{versions!r} are not versions")
        first = document.get("appended_from")
        return cls(
            int(document.get("written_ns", otherwise)),
            tuple(map(Version, versions)),
            tuple(map(Sent.parsed, attempts)),
            None if first is None else int(first),
        )
