"""The parts of an upload: sent, or copied by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from nczfs.plaindata import frozen
from nczfs.zmap.base import ByteRange, Part, cut_part, part_size

PART_BYTES_MIN = 5 << 20  # limit of S3, except for the last part
PARTS_MAX = 10_000
COPY_BYTES = 512 << 20  # a server copies some 100 MiB a second, several parts at once

_MIB = 1 << 20


@frozen
class SentPart:
    """A part of an upload that goes through this machine, some of it still to be read."""

    parts: tuple[Part, ...]


UploadPart: TypeAlias = "SentPart | ByteRange"
"""A part of an upload; the server copies ranges."""


def part_bytes(size: int, wanted: int) -> int:
    """Return the size of all parts except the last, for an upload of `size` bytes.

    As requested, or more in whole MiB if there would be over 10,000 parts.
    """
    least = -(-size // PARTS_MAX)
    return max(wanted, -(-least // _MIB) * _MIB)


def cut(parts: Sequence[Part], wanted: int) -> list[UploadPart]:
    """Cut the parts of an object into parts of an upload.

    All except the last have at least 5 MiB, and there are at most 10,000. The server copies ranges,
    except those that are too small to be parts, and the beginning of a range that fills up a part
    that would be too small.

    Parameters
    ----------
    wanted : the size of parts that are sent, at least 5 MiB.
    """
    size = sum(map(part_size, parts))
    cutting = _Cutting(part_bytes(size, PART_BYTES_MIN), part_bytes(size, wanted))
    for part in parts:
        cutting.add(part)
    cutting.pass_on()
    return cutting.pieces


class _Cutting:
    """The pieces so far, and what is held until it is large enough for one."""

    def __init__(self, least: int, sent: int) -> None:
        self.pieces: list[UploadPart] = []
        self._least = least
        self._sent = sent
        self._held: list[Part] = []
        self._held_size = 0

    def add(self, part: Part) -> None:
        size = part_size(part)
        room = self._least if isinstance(part, ByteRange) else self._sent
        start = 0
        while start < size:
            if self._held_size >= room:
                self.pass_on()
            rest = size - start
            if isinstance(part, ByteRange) and not self._held and rest >= self._least:
                taken = self._all_or(max(COPY_BYTES, self._least), rest)
                whole = part.start + start
                self.pieces.append(ByteRange(part.stat, whole, whole + taken))
            else:
                free = room - self._held_size
                taken = min(free, rest) if isinstance(part, ByteRange) else self._all_or(free, rest)
                self._held.append(cut_part(part, start, start + taken))
                self._held_size += taken
            start += taken

    def _all_or(self, most: int, rest: int) -> int:
        """Return `most` of what is left, or all of it if the rest would be too small."""
        return rest if rest < most + self._least else most

    def pass_on(self) -> None:
        """Make a piece of what is held."""
        match self._held:
            case []:
                return
            case [ByteRange() as only]:
                self.pieces.append(only)
            case held:
                self.pieces.append(SentPart(tuple(held)))
        self._held, self._held_size = [], 0
