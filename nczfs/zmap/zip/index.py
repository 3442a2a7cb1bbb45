"""The central directory of a zip archive, as a compact index of its members.

The standard library's ``zipfile`` keeps an object of some 600 bytes for each member; here a
member is its name and 52 bytes in columns, so that an archive of a million chunks opens.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nczfs.errors import BadKey, CorruptStore
from nczfs.plaindata import frozen
from nczfs.zmap.keys import MAX_KEY_BYTES, is_name, parse_key
from nczfs.zmap.zip.ends import End, ReadAt, find_end, read_tail
from nczfs.zmap.zip.records import (
    CENTRAL,
    CENTRAL_MAGIC,
    ENTRY_LENGTHS,
    FULL32,
    LOCAL,
    UTF8,
    widened,
)

ROOT_MARK: Final = b"nczfs: keys at the root"
_PIECE_BYTES: Final = 8 << 20
_RUN_ENTRIES: Final = 512  # entries whose fixed fields are read at once
_JOINED: Final = 4096  # names that are cut out at a time
_SIGNPOST_EVERY: Final = 8  # keys that are kept as objects: searching them runs in C
_SIZE_END: Final = 1 << 63  # largest size of a file

# Most names, recognised as keys in a tenth of the time of checking each component.
_PLAIN: Final = rb"(?:\w[\w.-]*|\.(?!nczfs-)\w[\w.-]*)"
_PLAIN_LINES: Final = re.compile(rb"%b(?:[/\n]%b)*" % (_PLAIN, _PLAIN))

_FIXED: Final = np.dtype(
    {
        "names": ["magic", "flags", "method", "crc", "compressed_size", "size", "offset"],
        "formats": ["S4", "<u2", "<u2", "<u4", "<u4", "<u4", "<u4"],
        "offsets": [0, 8, 10, 16, 20, 24, 42],
        "itemsize": CENTRAL.size,
    }
)
MEMBER: Final = np.dtype(
    [
        ("row", "<u4"),
        ("offset", "<u8"),
        ("head_size", "<u4"),
        ("compressed_size", "<u8"),
        ("size", "<u8"),
        ("crc", "<u4"),
        ("method", "<u2"),
        ("flags", "<u2"),
    ]
)


class ZipMember(NamedTuple):
    """The place of a member, and its fields in the central directory.

    Attributes
    ----------
    row : its position in the central directory; -1 for a new member.
    offset : of its local header in the archive.
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


@frozen
class Columns:
    """The members in columns, in the order of their keys.

    Attributes
    ----------
    keys : all keys, concatenated, as UTF-8.
    key_ends : a 0, then the end of each key in `keys`.
    members : of `MEMBER`.
    shadowed : rows of entries that a later one of the same name replaces.
    """

    keys: bytes
    key_ends: NDArray[np.uint64]
    members: NDArray[np.void]
    shadowed: NDArray[np.uint32]


class ZipIndex(Sequence[bytes]):
    """The members of an archive by key: a sorted sequence of keys. Immutable, thread-safe.

    Attributes
    ----------
    end : the place of the central directory, and so the end of the last member.
    top : the directory of the archive that is the root of the keys; "": the archive's root.
    dropped : how many members have names that are not keys, or impossible sizes.
    columns : its data.
    """

    def __init__(self, end: End, columns: Columns, *, top: str, dropped: int) -> None:
        self.end = end
        self.top = top
        self.dropped = dropped
        self.columns = columns
        self._keys = columns.keys
        self._ends = columns.key_ends.data.cast("B").cast("Q")
        self._member = columns.members.item
        self._signposts = [self[at] for at in range(0, len(self), _SIGNPOST_EVERY)]

    @property
    def nbytes(self) -> int:
        """Memory that the index takes."""
        columns = self.columns
        arrays = columns.key_ends.nbytes + columns.members.nbytes + columns.shadowed.nbytes
        return len(columns.keys) + arrays

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, at: int) -> bytes:  # type: ignore[override]  # no slices
        return self._keys[self._ends[at] : self._ends[at + 1]]

    def find(self, key: bytes) -> ZipMember | None:
        """Return the member with a key."""
        after = bisect_right(self._signposts, key) * _SIGNPOST_EVERY
        first, last = max(after - _SIGNPOST_EVERY, 0), min(after, len(self))
        ends = self._ends
        # The text of the key may also begin within another key, or be the beginning of one.
        place = self._keys.find(key, ends[first], ends[last])
        while place >= 0:
            at = bisect_right(ends, place, first, last) - 1
            if ends[at] == place and ends[at + 1] == place + len(key):
                return self.member(at)
            place = self._keys.find(key, place + 1, ends[last])
        return None

    def position(self, key: bytes) -> int:
        """Return how many keys are before `key`."""
        after = bisect_right(self._signposts, key) * _SIGNPOST_EVERY
        return bisect_left(self, key, max(after - _SIGNPOST_EVERY, 0), min(after, len(self)))

    def member(self, at: int) -> ZipMember:
        """Return the member of the key at a position of the sequence."""
        return ZipMember._make(self._member(at))


def read_index(read_at: ReadAt, size: int, *, top: str | None = None) -> ZipIndex:
    """Find and read the central directory of an archive of `size` bytes.

    Parameters
    ----------
    top : the directory of the archive that is the root of the keys; None: detected.

    Raises
    ------
    CorruptStore : it is not a zip archive, truncated, or damaged.
    """
    tail_start, tail = read_tail(read_at, size)
    return parse_index(read_at, find_end(tail, tail_start, read_at), tail_start, tail, top=top)


def parse_index(
    read_at: ReadAt, end: End, tail_start: int, tail: bytes, *, top: str | None
) -> ZipIndex:
    """Read the central directory, whose end is already known."""
    if end.start >= tail_start:
        pieces = iter([tail[end.start - tail_start : end.stop - tail_start]])
    else:
        pieces = (
            bytes(read_at(start, min(start + _PIECE_BYTES, end.stop)))
            for start in range(end.start, end.stop, _PIECE_BYTES)
        )
    return _Entries(end, pieces).index(top)


class _Entries:
    """The entries of a central directory in order, for building an index."""

    def __init__(self, end: End, pieces: Iterator[bytes]) -> None:
        self._end = end
        self._first = b""  # name of the first entry, which may be a directory
        self._dropped = 0
        self._absurd = 0
        self._names: list[bytes] = []  # b"" for directories and dropped members
        parts = [np.zeros(0, MEMBER), *map(self._taken, whole_entries(pieces))]
        self._members = np.concatenate(parts)
        if len(self._names) != end.count:
            raise CorruptStore(
                f"its central directory has {len(self._names)} members and should have {end.count}"
            )
        if self._absurd and not any(self._names):
            raise CorruptStore("the zip64 fields of its central directory are damaged")
        self._dropped += self._absurd

    def index(self, top: str | None) -> ZipIndex:
        """Return the index; this object is empty afterwards."""
        root = self._find_top() if top is None else top.encode("utf-8", "surrogateescape")
        before = root + b"/" if root else b""
        sizes = np.fromiter(map(len, self._names), np.uint64, len(self._names))
        # Longer names were accepted while the top was unknown.
        too_long = sizes > MAX_KEY_BYTES + len(before)
        self._dropped += int(np.count_nonzero(too_long))
        is_key = (sizes > 0) & ~too_long
        if before:
            is_key &= np.fromiter((name.startswith(before) for name in self._names), bool)
        rows = np.flatnonzero(is_key).astype(np.uint32)
        names = np.array([*self._names, None], object)[rows]
        order = np.argsort(names, kind="stable")
        rows, names = rows[order], names[order]
        # The last of several members with the same name counts: it was appended as a replacement.
        is_last = np.ones(len(rows), bool)
        is_last[:-1] = names[1:] != names[:-1]
        kept, names = rows[is_last], names[is_last]
        ends = np.zeros(len(kept) + 1, np.uint64)
        np.cumsum(sizes[kept] - np.uint64(len(before)), out=ends[1:])
        keys = bytearray()
        for at in range(0, len(names), _JOINED):
            keys += b"".join([name[len(before) :] for name in names[at : at + _JOINED]])
        self._names.clear()
        del names
        members = self._members[kept]
        members["row"] = kept
        columns = Columns(bytes(keys), ends, members, np.sort(rows[~is_last]))
        return ZipIndex(
            self._end, columns, top=root.decode("utf-8", "surrogateescape"), dropped=self._dropped
        )

    def _taken(self, piece: tuple[bytes, list[int]]) -> NDArray[np.void]:
        """Return the columns of some whole entries; their names are kept."""
        data, starts = piece
        at = np.array(starts, np.int64)
        raw = np.frombuffer(data, np.uint8)[at[:, None] + np.arange(CENTRAL.size)]
        fixed = np.ascontiguousarray(raw).view(_FIXED)[:, 0]
        found = np.zeros(len(starts), MEMBER)
        for column in ("offset", "compressed_size", "size", "crc", "method", "flags"):
            found[column] = fixed[column]
        found["head_size"] = np.diff(at, append=len(data)) - CENTRAL.size + LOCAL.size
        found["head_size"] -= raw[:, 32] + 256 * raw[:, 33].astype(np.uint32)  # the comment
        absurd = self._widen(found, data, starts)
        found["offset"] += np.uint64(self._end.shift)
        sizes = raw[:, 28] + 256 * raw[:, 29].astype(np.int64)
        at += CENTRAL.size
        stops = (at + sizes).tolist()
        names = [data[start:stop] for start, stop in zip(at.tolist(), stops, strict=True)]
        if not _PLAIN_LINES.fullmatch(b"\n".join(names)) or max(map(len, names)) > MAX_KEY_BYTES:
            names = [*map(_utf8, names, fixed["flags"].tolist())]
            self._first = self._first or names[0]
            names = [self._checked(name) for name in names]
        self._first = self._first or names[0]
        for row in absurd:
            self._absurd += bool(names[row])
            names[row] = b""
        self._names += names
        return found

    def _widen(self, found: NDArray[np.void], data: bytes, starts: list[int]) -> list[int]:
        """Use the values of zip64 fields where the fixed ones are full.

        Returns
        -------
        which of the entries are impossible.
        """
        columns = ("size", "compressed_size", "offset")
        full = np.zeros(len(found), bool)
        for column in columns:
            full |= found[column] == FULL32
        absurd: list[int] = []
        for at in np.flatnonzero(full).tolist():
            _, extra, _ = entry_parts(data, starts[at])
            try:
                values = widened(extra, [int(found[column][at]) for column in columns])
            except CorruptStore:
                absurd.append(at)
                continue
            if max(values) >= _SIZE_END:
                absurd.append(at)
                continue
            for column, value in zip(columns, values, strict=True):
                found[column][at] = value
        return absurd

    def _checked(self, name: bytes) -> bytes:
        if name.endswith(b"/"):
            return b""
        if b"\\" not in name and _is_key(name.decode("utf-8", "surrogateescape")):
            return name
        self._dropped += 1
        return b""

    def _find_top(self) -> bytes:
        """Return the directory that contains everything, as netcdf-c writes it; empty: none.

        netcdf-c takes the first segment of the first entry. A document beside that directory, at
        the root of the archive, occurs in archives that netcdf-c reads, and does not count if the
        directory has one of that name, too. Such names are hidden: they begin with a dot.
        """
        top, cut, _ = self._first.partition(b"/")
        if not cut or top in {b"", b".", b".."} or ROOT_MARK in self._end.comment:
            return b""
        below = top + b"/"
        beside = {name for name in self._names if name and not name.startswith(below)}
        if not beside:
            return top
        is_document = len(beside) == 1 and all(name.startswith(b".") for name in beside)
        return top if is_document and below + beside.pop() in self._names else b""


def whole_entries(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, list[int]]]:
    """Yield runs of whole entries of a central directory, with the start of each entry."""
    fields = ENTRY_LENGTHS.unpack_from
    rest = b""
    for piece in pieces:
        data = rest + piece if rest else piece
        starts: list[int] = []
        begin = at = 0
        last = len(data) - CENTRAL.size
        while at <= last:
            magic, name_size, extra_size, comment_size = fields(data, at)
            if magic != CENTRAL_MAGIC:
                raise CorruptStore("its central directory is damaged")
            after = at + CENTRAL.size + name_size + extra_size + comment_size
            if after > len(data):
                break
            starts.append(at - begin)
            at = after
            if len(starts) == _RUN_ENTRIES:
                yield data[begin:at], starts
                begin, starts = at, []
        if starts:
            yield data[begin:at], starts
        rest = data[at:]
    if rest:
        raise CorruptStore("its central directory is damaged")


def entry_parts(data: bytes, at: int) -> tuple[bytes, bytes, bytes]:
    """Return name, extra fields and comment of an entry of the central directory, raw."""
    fields = CENTRAL.unpack_from(data, at)
    name_at = at + CENTRAL.size
    extra_at = name_at + fields[10]
    comment_at = extra_at + fields[11]
    return (
        data[name_at:extra_at],
        data[extra_at:comment_at],
        data[comment_at : comment_at + fields[12]],
    )


def _is_key(name: str) -> bool:
    """Return whether a name is a key, or one below a directory."""
    top, cut, below = name.partition("/")
    try:
        parse_key(below if cut and is_name(top) else name)
    except BadKey:
        return False
    return True


def _utf8(raw: bytes, flags: int) -> bytes:
    """Decode a member's name: UTF-8 if it is declared or valid, otherwise the IBM PC's."""
    if flags & UTF8 or raw.isascii():
        return raw
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437").encode()
    return raw
