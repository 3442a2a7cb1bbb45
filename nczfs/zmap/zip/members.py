"""Reading the members of an archive by ranges of its bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from nczfs.buffers import Buffer
from nczfs.errors import AccessDenied, CorruptStore, ObjectTooLarge
from nczfs.zmap.keys import Key
from nczfs.zmap.zip.index import ZipIndex, ZipMember
from nczfs.zmap.zip.inflate import ERRORS, METHODS, inflate_whole
from nczfs.zmap.zip.points import AccessPoints, InflatingMember
from nczfs.zmap.zip.records import ENCRYPTED, LENGTHS, LOCAL, LOCAL_MAGIC, STORED
from nczfs.zmap.zip.source import ArchiveBytes

try:  # a fifth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

MAX_INFLATED_BYTES: Final = 2 << 30

# Local headers may have longer extra fields than the central ones (times of access, zip64).
_HEAD_SLACK_BYTES: Final = 64
# A range that begins this early is fetched together with the local header before it.
_EARLY_BYTES: Final = 64 << 10
_NEAR_PIECE_BYTES: Final = 1 << 20
_FAR_PIECE_BYTES: Final = 8 << 20
_WHOLE_BLOCK_BYTES: Final = 16 << 20
_RANGE_BLOCK_BYTES: Final = 1 << 20
_SLICE_BYTES: Final = 16 << 10  # an access point can be made after each: at most 16 MiB of zeros


class MemberReader:
    """A reader of members. Thread-safe.

    A read of a whole member is checked against its checksum. A range of a stored member is a range
    of the archive; a range of a compressed one is inflated from the nearest known place.

    Parameters
    ----------
    index : of the archive; the local headers of its members are read once.
    max_inflated_bytes : longer reads of compressed members are refused.
    """

    def __init__(
        self,
        source: ArchiveBytes,
        index: ZipIndex,
        points: AccessPoints,
        max_inflated_bytes: int = MAX_INFLATED_BYTES,
    ) -> None:
        self._source = source
        self._name = source.name
        self._members_end = index.end.start
        self._points = points
        self._max_inflated_bytes = max_inflated_bytes
        self._piece_bytes = _NEAR_PIECE_BYTES if source.near else _FAR_PIECE_BYTES
        # True sizes of local headers; 0: not read yet. Any thread may fill one in, with the same
        # number.
        self._head_sizes = array("I", [0]) * index.end.count

    def read(self, key: Key, member: ZipMember, start: int, stop: int) -> Buffer:
        """Read bytes [start, stop) of a member, which has them.

        Raises
        ------
        AccessDenied, ObjectTooLarge, CorruptStore, Conflict.
        """
        if member.flags & ENCRYPTED:
            raise AccessDenied(f"{self._name}/{key}: encrypted, which nczfs cannot read")
        if member.method == STORED:
            return self._read_stored(key, member, start, stop)
        if member.method not in METHODS:
            raise CorruptStore(
                f"{self._name}/{key}: compressed by zip method {member.method}, which nczfs cannot "
                "read"
            )
        return self._read_compressed(key, member, start, stop)

    def _read_stored(self, key: Key, member: ZipMember, start: int, stop: int) -> Buffer:
        if member.compressed_size != member.size:
            raise CorruptStore(f"{self._name}/{key}: stored, but with two different sizes")
        data_at, early = self._locate(key, member, stop if start <= _EARLY_BYTES else 0)
        data: Buffer = early[start:stop]
        if missing := stop - start - len(data):
            rest = read_exactly(self._source, data_at + stop - missing, data_at + stop)
            data = b"".join((data, rest)) if data else rest
        if stop - start == member.size and (crc := crc32(data)) != member.crc:
            raise self._wrong_crc(key, member, crc)
        return data

    def _read_compressed(self, key: Key, member: ZipMember, start: int, stop: int) -> Buffer:
        if stop - start > self._max_inflated_bytes:
            raise ObjectTooLarge(
                f"{self._name}/{key}: inflates to {stop - start} bytes, more than the "
                f"{self._max_inflated_bytes} allowed"
            )
        try:
            if stop - start == member.size:
                return self._inflate_whole(key, member)
            return self._inflate_range(key, member, start, stop)
        except ERRORS as error:
            raise CorruptStore(f"{self._name}/{key}: {error}") from error

    def _inflate_whole(self, key: Key, member: ZipMember) -> Buffer:
        data: Buffer = b""
        if member.compressed_size <= self._piece_bytes:
            start, compressed = self._locate(key, member, member.compressed_size)
            if len(compressed) < member.compressed_size:
                end = start + member.compressed_size
                compressed = memoryview(read_exactly(self._source, start, end))
            data = inflate_whole(member.method, compressed, member.size)
        else:
            # One surplus byte reveals a bomb.
            stop = member.size + 1
            inflating = InflatingMember.begun(member.method, member.size, whole=True)
            feed = self._feed(key, member, inflating, member.size, self._piece_bytes)
            for block in inflating.blocks(feed, stop, _WHOLE_BLOCK_BYTES):
                data = _joined(data, block) if data else block
        if len(data) > member.size:
            raise self._too_much(key, member)
        if len(data) < member.size:
            raise self._too_little(key, member, len(data))
        if (crc := crc32(data)) != member.crc:
            raise self._wrong_crc(key, member, crc)
        return data

    def _inflate_range(self, key: Key, member: ZipMember, start: int, stop: int) -> Buffer:
        inflating = self._points.take(member.offset, start)
        if inflating is None:
            inflating = InflatingMember.begun(member.method, member.size)
        feed = self._feed(key, member, inflating, stop, _SLICE_BYTES)
        data: bytes | bytearray = b""
        at = inflating.given
        for block in inflating.blocks(feed, stop, _RANGE_BLOCK_BYTES):
            if part := block[max(start - at, 0) : max(stop - at, 0)]:
                data = _joined(data, part) if data else part
            at = inflating.given
            if at > member.size:
                raise self._too_much(key, member)
            self._points.add(member.offset, member.size, inflating)
        if at < stop:
            raise self._too_little(key, member, at)
        self._points.leave(member.offset, inflating)
        return data

    def _feed(
        self, key: Key, member: ZipMember, inflating: InflatingMember, stop: int, slice_bytes: int
    ) -> Iterator[Buffer]:
        """Yield the compressed bytes from the present place, fetched on demand."""
        # The approximate compressed size up to `stop`, so that a small range fetches little.
        share = member.compressed_size / max(member.size, 1)
        want = int((stop - inflating.given) * share) + (_EARLY_BYTES if stop < member.size else 64)
        want = min(want, self._piece_bytes, member.compressed_size - inflating.taken)
        early_bytes = want if inflating.taken == 0 else 0
        at, piece = self._locate(key, member, early_bytes)
        end = at + member.compressed_size
        at += inflating.taken
        while True:
            for cut in range(0, len(piece), slice_bytes):
                yield piece[cut : cut + slice_bytes]
            at += len(piece)
            if at >= end:
                return
            size = min(max(want, 2 * _EARLY_BYTES), self._piece_bytes, end - at)
            piece = memoryview(read_exactly(self._source, at, at + size))

    def _locate(self, key: Key, member: ZipMember, early_bytes: int) -> tuple[int, memoryview]:
        """Return where the data of a member begin, and their first bytes if these were fetched."""
        known = member.head_size if member.row < 0 else self._head_sizes[member.row]
        if known:
            return member.offset + known, memoryview(b"")
        end = self._members_end
        want = member.head_size + _HEAD_SLACK_BYTES + early_bytes if early_bytes else LOCAL.size
        stop = min(member.offset + want, end)
        head = self._source.read(member.offset, stop) if member.offset < stop else b""
        if len(head) < LOCAL.size or head[:4] != LOCAL_MAGIC:
            raise CorruptStore(f"{self._name}/{key}: no member begins where it should")
        name_size, extra_size = LENGTHS.unpack_from(head, 26)
        head_size = LOCAL.size + name_size + extra_size
        if member.offset + head_size + member.compressed_size > end:
            raise CorruptStore(f"{self._name}/{key}: reaches into the central directory")
        self._head_sizes[member.row] = head_size
        return member.offset + head_size, memoryview(head)[head_size : head_size + early_bytes]

    def _wrong_crc(self, key: Key, member: ZipMember, crc: int) -> CorruptStore:
        return CorruptStore(
            f"{self._name}/{key}: its checksum is {crc:08x} and should be {member.crc:08x}"
        )

    def _too_much(self, key: Key, member: ZipMember) -> CorruptStore:
        return CorruptStore(
            f"{self._name}/{key}: inflates to more than the {member.size} bytes it declares"
        )

    def _too_little(self, key: Key, member: ZipMember, size: int) -> CorruptStore:
        return CorruptStore(
            f"{self._name}/{key}: inflates to {size} bytes of the {member.size} it declares"
        )


def read_exactly(source: ArchiveBytes, start: int, stop: int) -> Buffer:
    """Read bytes [start, stop) of an archive. Raises CorruptStore if it ends before."""
    data = source.read(start, stop)
    if len(data) != stop - start:
        raise CorruptStore(f"{source.name}: it ends at byte {start + len(data)}, before {stop}")
    return data


def _joined(data: Buffer, part: bytes) -> bytearray:
    """Join bytes in place, so that a large member is in memory only once."""
    grown = data if isinstance(data, bytearray) else bytearray(data)
    grown += part
    return grown
