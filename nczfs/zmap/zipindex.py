"""The central directory of a zip archive, as a compact index of its members.

The standard library's ``zipfile`` keeps an object of some 600 bytes for each member; here a
member is its name and 40 bytes in columns, so that an archive of a million chunks opens.
APPNOTE.TXT of PKWARE, sections 4.3.12 to 4.3.16, is the format.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final, TypeAlias

from nczfs.errors import BadKey, CorruptStore
from nczfs.zmap.base import Buffer
from nczfs.zmap.keys import Key, Prefix, parse_key

ReadAt: TypeAlias = Callable[[int, int], Buffer]
"""Bytes [start, stop) of the archive, all of them."""

TAIL_BYTES: Final = 128 << 10  # the end record and its longest comment; small archives whole
_PIECE_BYTES: Final = 8 << 20

_END: Final = struct.Struct("<4s4H2LH")
_END64_LOCATOR: Final = struct.Struct("<4sLQL")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFFFFFF
_UTF8: Final = 0x800
_BESIDE_THE_TOP: Final = frozenset({".zgroup"})


@dataclass(frozen=True, slots=True)
class Member:
    """Where a member stands, and what the central directory says of it.

    Attributes
    ----------
    row : its position in the central directory.
    offset : of its local header, in the archive.
    head_size : of its local header, if that has the same extra fields as the central one.
    """

    row: int
    offset: int
    head_size: int
    compressed_size: int
    size: int
    crc: int
    method: int
    flags: int


class ZipIndex:
    """The members of an archive by key. Immutable, thread-safe.

    Attributes
    ----------
    top : the directory of the archive that is the root of the keys; "" when that is the archive.
    rows : how many entries the central directory has.
    dropped : how many members have names that are no keys.
    directory_offset : where the central directory begins, and so the last member ends.
    """

    def __init__(self, directory: _Directory, top: str | None) -> None:
        self._directory = directory
        self.directory_offset = directory.offset
        self.dropped = directory.dropped
        self.rows = len(directory.names)
        self.top = _find_top(directory) if top is None else top
        skip = len(self.top) + 1 if self.top else 0
        below = f"{self.top}/" if self.top else ""
        names = directory.names
        rows = [row for row, name in enumerate(names) if name and name.startswith(below)]
        rows.sort(key=names.__getitem__)
        # Of members with the same name the last one counts: it was appended as a replacement.
        last = [
            row
            for row, after in zip_longest(rows, islice(rows, 1, None))
            if after is None or names[row] != names[after]
        ]
        self._keys = [names[row][skip:] for row in last]
        self._rows = array("I", last)
        names.clear()

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: str) -> Member | None:
        """The member with a key."""
        at = bisect_left(self._keys, key)
        if at == len(self._keys) or self._keys[at] != key:
            return None
        return self._directory.member(self._rows[at])

    def below(self, prefix: Prefix) -> Iterator[tuple[Key, Member]]:
        """All members below a prefix."""
        for at in range(*self._span(prefix)):
            yield Key(self._keys[at]), self._directory.member(self._rows[at])

    def children(self, prefix: Prefix) -> Iterator[tuple[str, Member | None, bool]]:
        """Names of the next level: the member of that name, and whether others are below it."""
        keys = self._keys
        skip = len(prefix) + 1 if prefix else 0
        first, end = self._span(prefix)
        at = first
        while at < end:
            key = keys[at]
            cut = key.find("/", skip)
            if cut < 0:
                after = bisect_left(keys, f"{key}/", at, end)
                has_below = after < end and keys[after].startswith(f"{key}/")
                yield key[skip:], self._directory.member(self._rows[at]), has_below
                at += 1
            else:
                child = key[:cut]
                # A member of that very name sorts before this one and came already.
                before = bisect_left(keys, child, first, at)
                if keys[before] != child:
                    yield child[skip:], None, True
                at = bisect_left(keys, _after(child), at, end)

    def _span(self, prefix: str) -> tuple[int, int]:
        if not prefix:
            return 0, len(self._keys)
        start = bisect_left(self._keys, f"{prefix}/")
        return start, bisect_left(self._keys, _after(prefix), start)


def read_index(read_at: ReadAt, size: int, *, top: str | None = None) -> ZipIndex:
    """Find and read the central directory of an archive of `size` bytes.

    Parameters
    ----------
    top : the directory of the archive that is the root of the keys; None: detected.

    Raises
    ------
    CorruptStore : it is not a zip archive, truncated, or damaged.
    """
    tail_start = max(0, size - TAIL_BYTES)
    tail = bytes(read_at(tail_start, size))
    end = _find_end(tail, tail_start, read_at)
    directory = _Directory(end)
    if end.start >= tail_start:
        pieces = iter([tail[end.start - tail_start : end.stop - tail_start]])
    else:
        pieces = (
            bytes(read_at(start, min(start + _PIECE_BYTES, end.stop)))
            for start in range(end.start, end.stop, _PIECE_BYTES)
        )
    directory.fill(pieces)
    return ZipIndex(directory, top)


@dataclass(frozen=True, slots=True)
class _End:
    """The end record: the central directory is [start, stop); `shift` stands before the archive."""

    count: int
    start: int
    stop: int
    shift: int


class _Directory:
    """The entries of the central directory in columns, in their order."""

    def __init__(self, end: _End) -> None:
        self.offset = end.start
        self.dropped = 0
        self.first = ""  # name of the first entry, which may be a directory
        self.names: list[str] = []  # "" for directories and dropped members
        self._end = end
        self._offsets = array("Q")
        self._head_sizes = array("I")
        self._compressed_sizes = array("Q")
        self._sizes = array("Q")
        self._crcs = array("I")
        self._methods = array("H")
        self._flags = array("H")

    def fill(self, pieces: Iterator[bytes]) -> None:
        for fields, raw_name, extra in _entries(pieces):
            (_, _, _, flags, method, _, _, crc, compressed_size, size, *_, offset) = fields
            if _FULL32 in (compressed_size, size, offset):
                size, compressed_size, offset = _widened(extra, size, compressed_size, offset)
            name = _decode(raw_name, flags)
            if not self.names:
                self.first = name
            self.names.append(self._checked(name))
            self._offsets.append(offset + self._end.shift)
            self._head_sizes.append(30 + len(raw_name) + len(extra))
            self._compressed_sizes.append(compressed_size)
            self._sizes.append(size)
            self._crcs.append(crc)
            self._methods.append(method)
            self._flags.append(flags)
        if len(self.names) != self._end.count:
            raise CorruptStore(
                f"its central directory has {len(self.names)} members and should have "
                f"{self._end.count}"
            )

    def member(self, row: int) -> Member:
        return Member(
            row,
            self._offsets[row],
            self._head_sizes[row],
            self._compressed_sizes[row],
            self._sizes[row],
            self._crcs[row],
            self._methods[row],
            self._flags[row],
        )

    def _checked(self, name: str) -> str:
        if name.endswith("/"):
            return ""
        try:
            if "\\" not in name:
                return parse_key(name)
        except BadKey:
            pass
        self.dropped += 1
        return ""


def _find_end(tail: bytes, tail_start: int, read_at: ReadAt) -> _End:
    if not tail:
        raise CorruptStore("it is empty, and not a zip archive")
    at = _find_signature(tail)
    if at < 0:
        raise CorruptStore("no end record: it is truncated, or not a zip archive")
    _, disk, start_disk, _, count, size, offset, _ = _END.unpack_from(tail, at)
    stop = end_at = tail_start + at
    wide = _read_end64(tail, at, tail_start, read_at)
    if wide is not None:
        disk, start_disk, count, size, offset, stop = wide
    if disk or start_disk:
        raise CorruptStore("it is one volume of several, which is not supported")
    start = stop - size
    shift = start - offset  # what stands before the archive: a self-extracting program
    if start < 0 or shift < 0:
        raise CorruptStore(f"its central directory would not fit before byte {end_at}")
    return _End(count, start, stop, shift)


def _find_signature(tail: bytes) -> int:
    """Where the end record stands: its comment ends the file; a comment may hold the signature."""
    at = fallback = -1
    while (at := tail.rfind(b"PK\5\6", 0, at if at >= 0 else len(tail))) >= 0:
        if at + _END.size <= len(tail):
            after = at + _END.size + int.from_bytes(tail[at + 20 : at + 22], "little")
            if after == len(tail):
                return at
            if after < len(tail) and fallback < 0:
                fallback = at
    return fallback


def _read_end64(
    tail: bytes, at: int, tail_start: int, read_at: ReadAt
) -> tuple[int, int, int, int, int, int] | None:
    """Disk, disk of the directory, count, size, offset and end of it, where there is zip64."""
    locator_at = at - _END64_LOCATOR.size
    if locator_at < 0 or tail[locator_at : locator_at + 4] != b"PK\6\7":
        return None
    # Right before its locator, not where the locator says: something may stand before the archive.
    start = tail_start + locator_at - _END64.size
    if start < 0:
        raise CorruptStore("its zip64 end record is cut off")
    record = bytes(read_at(start, start + _END64.size))
    if record[:4] != b"PK\6\6":
        raise CorruptStore("its zip64 end record is damaged")
    _, _, _, _, disk, start_disk, _, count, size, offset = _END64.unpack(record)
    return disk, start_disk, count, size, offset, start


def _entries(pieces: Iterator[bytes]) -> Iterator[tuple[tuple[int, ...], bytes, bytes]]:
    """The fixed fields, raw name and extra fields of each entry."""
    rest = b""
    for piece in pieces:
        data = rest + piece if rest else piece
        at = 0
        while at + _CENTRAL.size <= len(data):
            fields = _CENTRAL.unpack_from(data, at)
            if fields[0] != b"PK\1\2":
                raise CorruptStore("its central directory is damaged")
            name_at = at + _CENTRAL.size
            extra_at = name_at + fields[10]
            comment_at = extra_at + fields[11]
            after = comment_at + fields[12]
            if after > len(data):
                break
            yield fields, data[name_at:extra_at], data[extra_at:comment_at]
            at = after
        rest = data[at:]
    if rest:
        raise CorruptStore("its central directory is damaged")


def _widened(extra: bytes, size: int, compressed_size: int, offset: int) -> tuple[int, int, int]:
    """The values that stand in the zip64 extra field where the fixed ones are full."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(
                struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4)
            )
            try:
                size = next(wide) if size == _FULL32 else size
                compressed_size = next(wide) if compressed_size == _FULL32 else compressed_size
                offset = next(wide) if offset == _FULL32 else offset
            except StopIteration:
                raise CorruptStore("a zip64 field of its central directory is cut off") from None
            break
        at += 4 + length
    return size, compressed_size, offset


def _decode(raw: bytes, flags: int) -> str:
    """A member's name: UTF-8 when it says so or is so, else of the code page of the IBM PC."""
    if flags & _UTF8:
        return raw.decode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437")


def _find_top(directory: _Directory) -> str:
    """The directory that holds everything, as netcdf-c writes it; "" where there is none.

    netcdf-c takes the first segment of the first entry. A group document beside that directory,
    at the root of the archive, occurs in archives that netcdf-c reads, and does not count.
    """
    top, cut, _ = directory.first.partition("/")
    if not cut or top in {"", ".", ".."}:
        return ""
    below = f"{top}/"
    beside = {name for name in directory.names if name and not name.startswith(below)}
    if not beside:
        return top
    return top if beside <= _BESIDE_THE_TOP and f"{below}.zgroup" in directory.names else ""


def _after(prefix: str) -> str:
    """The least text behind all keys below a prefix: "0" comes right after "/"."""
    return f"{prefix}0"
