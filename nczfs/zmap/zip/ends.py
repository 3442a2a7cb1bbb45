"""The end record of a zip archive, which says where its central directory is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from nczfs.buffers import Buffer
from nczfs.errors import CorruptStore
from nczfs.plaindata import frozen
from nczfs.zmap.zip.records import (
    END,
    END64,
    END64_LOCATOR,
    END64_LOCATOR_MAGIC,
    END64_MAGIC,
    END_MAGIC,
)

ReadAt: TypeAlias = Callable[[int, int], Buffer]
"""Reads bytes [start, stop) of the archive, all of them."""

TAIL_BYTES: Final = 128 << 10  # the end record and its longest comment; small archives whole


@frozen
class End:
    """The end of an archive.

    Attributes
    ----------
    count : of the entries of the central directory, which is the bytes [start, stop).
    shift : number of bytes before the archive.
    """

    count: int
    start: int
    stop: int
    shift: int
    comment: bytes


def read_tail(read_at: ReadAt, size: int) -> tuple[int, bytes]:
    """Return the last bytes of an archive, and where they begin."""
    start = max(0, size - TAIL_BYTES)
    return start, bytes(read_at(start, size))


def find_end(tail: bytes, tail_start: int, read_at: ReadAt) -> End:
    """Find the end record of an archive.

    Raises
    ------
    CorruptStore : there is none, or it does not fit the archive.
    """
    if not tail:
        raise CorruptStore("it is empty, and not a zip archive")
    at = _find_signature(tail)
    if at < 0:
        raise CorruptStore("no end record: it is truncated, or not a zip archive")
    _, disk, start_disk, _, count, size, offset, comment_size = END.unpack_from(tail, at)
    stop = end_at = tail_start + at
    wide = _read_end64(tail, at, tail_start, read_at)
    if wide is not None:
        disk, start_disk, count, size, offset, stop = wide
    if disk or start_disk:
        raise CorruptStore("it is one volume of several, which is not supported")
    start = stop - size
    shift = start - offset  # bytes before the archive: a self-extracting program
    if start < 0 or shift < 0:
        raise CorruptStore(f"its central directory would not fit before byte {end_at}")
    comment_at = at + END.size
    return End(count, start, stop, shift, tail[comment_at : comment_at + comment_size])


def _find_signature(tail: bytes) -> int:
    """Find the end record: its comment ends the file, and may contain the signature."""
    at = fallback = -1
    while (at := tail.rfind(END_MAGIC, 0, at if at >= 0 else len(tail))) >= 0:
        if at + END.size <= len(tail):
            after = at + END.size + int.from_bytes(tail[at + 20 : at + 22], "little")
            if after == len(tail):
                return at
            if after < len(tail) and fallback < 0:
                fallback = at
    return fallback


def _read_end64(
    tail: bytes, at: int, tail_start: int, read_at: ReadAt
) -> tuple[int, int, int, int, int, int] | None:
    """Read disk, disk of the directory, count, size, offset and end of it, with zip64."""
    locator_at = at - END64_LOCATOR.size
    if locator_at < 0 or tail[locator_at : locator_at + 4] != END64_LOCATOR_MAGIC:
        return None
    # Right before its locator, not where that says: there may be bytes before the archive.
    start = tail_start + locator_at - END64.size
    if start < 0:
        raise CorruptStore("its zip64 end record is cut off")
    record = bytes(read_at(start, start + END64.size))
    if record[:4] != END64_MAGIC:
        raise CorruptStore("its zip64 end record is damaged")
    _, _, _, _, disk, start_disk, _, count, size, offset = END64.unpack(record)
    return disk, start_disk, count, size, offset, start
