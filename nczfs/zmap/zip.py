"""A store that is a zip archive, itself an object of another store."""

from __future__ import annotations

import logging
import struct
import zlib
from array import array
from collections.abc import Iterator
from typing import Final

from nczfs.errors import (
    AccessDenied,
    Conflict,
    CorruptStore,
    NoSuchObject,
    ObjectTooLarge,
    ReadOnlyStore,
)
from nczfs.zmap.base import Blob, Buffer, Entry, Features, Stat, Version, ZMap
from nczfs.zmap.inflate import METHODS, MethodError, inflate
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.zipindex import Member, read_index

log = logging.getLogger(__name__)

_STORED: Final = 0
_ENCRYPTED: Final = 1
_LOCAL: Final = struct.Struct("<4s5H3L2H")

# Local headers may have longer extra fields than the central ones (times of access, zip64).
_HEAD_SLACK_BYTES: Final = 64
# A range that begins this early is fetched together with the local header before it.
_EARLY_BYTES: Final = 64 << 10
_NEAR_PIECE_BYTES: Final = 1 << 20
_FAR_PIECE_BYTES: Final = 8 << 20


class ZipZMap(ZMap):
    """The members of an archive as objects, fetched by ranged reads of the store that holds it.

    The archive is pinned: once somebody replaces it every read raises `Conflict`. A read of a
    whole member is checked against its checksum; a range of a stored member is a range of the
    archive, a range of a compressed one is inflated from the member's beginning.

    Archives of netcdf-c (everything in one directory named after the dataset) and of zarr-python
    (keys at the root) are told apart. Members whose names are no keys are left out, logged once.

    Parameters
    ----------
    source : the store that holds the archive.
    key : the archive.
    top : the directory of the archive that is the root of the keys, "" for the archive's own
        root; None: detected.
    max_inflated_bytes : compressed members that declare more are refused.
    owns_source : close `source` with this store.

    Raises
    ------
    NoSuchObject : there is no archive.
    CorruptStore : it is not a zip archive, or its central directory is damaged.
    """

    def __init__(
        self,
        source: ZMap,
        key: Key,
        *,
        top: str | None = None,
        max_inflated_bytes: int = 2 << 30,
        owns_source: bool = False,
    ) -> None:
        self._source = source
        self._key = key
        self._name = f"{source.name}/{key}"
        self._owns_source = owns_source
        self._max_inflated_bytes = max_inflated_bytes
        self._piece_bytes = _NEAR_PIECE_BYTES if source.features.near else _FAR_PIECE_BYTES
        self._archive = source.stat(key)
        try:
            self._index = read_index(self._read_exactly, self._archive.size, top=top)
        except CorruptStore as error:
            raise CorruptStore(f"{self._name}: {error}") from error
        # True sizes of local headers, 0 where not read yet. Any thread may fill one in: all find
        # the same number.
        self._head_sizes = array("I", [0]) * self._index.rows
        if self._index.dropped:
            log.warning(
                "%s: left out %d members whose names are no keys", self._name, self._index.dropped
            )

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return Features(writable=False, conditional_writes=False, near=self._source.features.near)

    @property
    def top(self) -> str:
        """The directory of the archive that is the root of the keys; "" for the archive's root."""
        return self._index.top

    @property
    def dropped(self) -> int:
        """How many members were left out because their names are no keys."""
        return self._index.dropped

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        member = self._find(key)
        found = self._version(member)
        if version is not None and version != found:
            raise Conflict(f"{self._name}/{key}: another version than the one asked for")
        stop = member.size if stop is None else min(stop, member.size)
        data: Buffer = b""
        if start < stop:
            data = self._read_member(key, member, start, stop)
        return Blob(data, found, member.size, self._archive.mtime_ns)

    def write(self, key: Key, data: Buffer, *, replaces: Version | None = None) -> Version:
        raise ReadOnlyStore(f"{self._name}/{key}: zip archives are read-only")

    def delete(self, key: Key) -> None:
        raise ReadOnlyStore(f"{self._name}/{key}: zip archives are read-only")

    def stat(self, key: Key) -> Stat:
        return self._stat(key, self._find(key))

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        before = f"{prefix}/" if prefix else ""
        for name, member, is_prefix in self._index.children(prefix):
            stat = self._stat(Key(before + name), member) if member else None
            yield Entry(name, stat, is_prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return (self._stat(key, member) for key, member in self._index.below(prefix))

    def close(self) -> None:
        """Close the source, where it is ours."""
        if self._owns_source:
            self._source.close()

    def _find(self, key: Key) -> Member:
        member = self._index.find(key)
        if member is None:
            raise NoSuchObject(f"{self._name}/{key}: no such member")
        return member

    def _stat(self, key: Key, member: Member) -> Stat:
        return Stat(key, member.size, self._version(member), self._archive.mtime_ns)

    def _version(self, member: Member) -> Version:
        return Version(f"{self._archive.version.token}:{member.offset:x}:{member.crc:x}")

    def _read_member(self, key: Key, member: Member, start: int, stop: int) -> Buffer:
        if member.flags & _ENCRYPTED:
            raise AccessDenied(f"{self._name}/{key}: encrypted, which nczfs cannot read")
        if member.method == _STORED:
            return self._read_stored(key, member, start, stop)
        if member.method not in METHODS:
            raise CorruptStore(
                f"{self._name}/{key}: compressed by zip method {member.method}, which nczfs cannot "
                "read"
            )
        return self._read_compressed(key, member, start, stop)

    def _read_stored(self, key: Key, member: Member, start: int, stop: int) -> Buffer:
        if member.compressed_size != member.size:
            raise CorruptStore(f"{self._name}/{key}: stored, but with two different sizes")
        data_at, early = self._locate(key, member, stop if start <= _EARLY_BYTES else 0)
        data: Buffer = early[start:stop]
        if missing := stop - start - len(data):
            rest = self._read_exactly(data_at + stop - missing, data_at + stop)
            data = b"".join((data, rest)) if data else rest
        if stop - start == member.size:
            self._check_crc(key, member, zlib.crc32(data))
        return data

    def _read_compressed(self, key: Key, member: Member, start: int, stop: int) -> Buffer:
        # Ranges begin at the member's beginning; here is where access points would go.
        if member.size > self._max_inflated_bytes:
            raise ObjectTooLarge(
                f"{self._name}/{key}: inflates to {member.size} bytes, more than the "
                f"{self._max_inflated_bytes} allowed"
            )
        is_whole = stop - start == member.size
        limit = member.size + 1 if is_whole else stop  # one more byte gives a bomb away
        data: bytes | bytearray = b""
        crc = total = 0
        try:
            for block in inflate(member.method, self._pieces(key, member), limit):
                part = block[max(start - total, 0) : max(stop - total, 0)]
                total += len(block)
                if total > member.size:
                    raise CorruptStore(
                        f"{self._name}/{key}: inflates to more than the {member.size} bytes "
                        "it declares"
                    )
                data = _joined(data, part) if data else part
                if is_whole:
                    crc = zlib.crc32(block, crc)
                elif total >= stop:
                    break
        except MethodError as error:
            raise CorruptStore(f"{self._name}/{key}: {error}") from error
        if total < stop:
            raise CorruptStore(
                f"{self._name}/{key}: inflates to {total} bytes of the {member.size} it declares"
            )
        if is_whole:
            self._check_crc(key, member, crc)
        return data

    def _pieces(self, key: Key, member: Member) -> Iterator[Buffer]:
        """The compressed bytes, fetched as they are asked for."""
        at, early = self._locate(key, member, min(member.compressed_size, self._piece_bytes))
        end = at + member.compressed_size
        if early:
            yield early
            at += len(early)
        while at < end:
            stop = min(at + self._piece_bytes, end)
            yield self._read_exactly(at, stop)
            at = stop

    def _locate(self, key: Key, member: Member, early_bytes: int) -> tuple[int, memoryview]:
        """Where the data of a member begin, and their first bytes if they came with the header."""
        known = self._head_sizes[member.row]
        if known:
            return member.offset + known, memoryview(b"")
        end = self._index.directory_offset
        want = member.head_size + _HEAD_SLACK_BYTES + early_bytes if early_bytes else _LOCAL.size
        head = memoryview(self._fetch(member.offset, min(member.offset + want, end)))
        if len(head) < _LOCAL.size or bytes(head[:4]) != b"PK\3\4":
            raise CorruptStore(f"{self._name}/{key}: no member begins where it should")
        *_, name_size, extra_size = _LOCAL.unpack_from(head)
        head_size = _LOCAL.size + name_size + extra_size
        if member.offset + head_size + member.compressed_size > end:
            raise CorruptStore(f"{self._name}/{key}: reaches into the central directory")
        self._head_sizes[member.row] = head_size
        return member.offset + head_size, head[head_size : head_size + early_bytes]

    def _check_crc(self, key: Key, member: Member, crc: int) -> None:
        if crc != member.crc:
            raise CorruptStore(
                f"{self._name}/{key}: its checksum is {crc:08x} and should be {member.crc:08x}"
            )

    def _read_exactly(self, start: int, stop: int) -> Buffer:
        data = self._fetch(start, stop)
        if len(data) != stop - start:
            raise CorruptStore(f"{self._name}: it ends at byte {start + len(data)}, before {stop}")
        return data

    def _fetch(self, start: int, stop: int) -> Buffer:
        try:
            return self._source.read(self._key, start, stop, version=self._archive.version).data
        except NoSuchObject as error:
            # Not NoSuchObject: that would say that the member was never written.
            raise Conflict(f"{self._name}: the archive was removed since it was opened") from error


def _joined(data: bytes | bytearray, part: bytes) -> bytearray:
    """Grown in place, so that a large member stands in memory once."""
    grown = data if isinstance(data, bytearray) else bytearray(data)
    grown += part
    return grown
