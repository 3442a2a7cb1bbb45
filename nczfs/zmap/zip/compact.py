"""Compacting an archive: removing replaced and deleted members, and old directories."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from nczfs.buffers import Buffer
from nczfs.errors import CorruptStore, Unsupported
from nczfs.plaindata import frozen
from nczfs.zmap import fileio
from nczfs.zmap.directory import TEMPORARY
from nczfs.zmap.oserrors import archive_errors
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.growing import GrowingArchive, keep_ownership
from nczfs.zmap.zip.index import ZipIndex, entry_parts, read_index, whole_entries
from nczfs.zmap.zip.locking import lock_archive
from nczfs.zmap.zip.ozx import without_mark
from nczfs.zmap.zip.records import (
    CENTRAL,
    FULL32,
    HAS_DESCRIPTOR,
    LOCAL,
    LOCAL_MAGIC,
    STORED,
    end_records,
    widened,
    without_zip64,
    zip64_extra,
)
from nczfs.zmap.zip.recovery import recover

_DESCRIPTOR_MAGIC: Final = b"PK\7\10"
_DESCRIPTOR_BYTES_MAX: Final = 24
_PIECE_BYTES: Final = 8 << 20


@frozen
class Compaction:
    """The result of a compaction, real or simulated.

    Attributes
    ----------
    members : of the archive, including directories.
    size_before, size_after : of the archive, in bytes.
    """

    members: int
    size_before: int
    size_after: int

    @property
    def dead_bytes(self) -> int:
        """The bytes that no member used."""
        return self.size_before - self.size_after


@frozen
class Arrangement:
    """The order of members in an archive that is read in pieces.

    Attributes
    ----------
    first : the name of the members that come first, those of fewer levels before others.
    comment : of the archive.
    """

    first: bytes
    comment: bytes

    def rank(self, name: bytes) -> tuple[int, bytes] | None:
        """Return the place of a member among the first ones; None: it is none of them."""
        return (name.count(b"/"), name) if name.rpartition(b"/")[2] == self.first else None


def compact(
    path: str, *, dry_run: bool = False, arrangement: Arrangement | None = None
) -> Compaction:
    """Write an archive anew with only its members, and rename the new file over the old one.

    The headers of members keep all their contents. A crash leaves the old or the new archive.

    Parameters
    ----------
    dry_run : whether to simulate; then no permission to write is needed.
    arrangement : of the new archive; None: the members stay in their order.

    Raises
    ------
    Unsupported : the archive compresses members, or has all in a directory; an arranged one cannot.
    StoreBusy : another process is writing to it. NoSuchObject : there is no archive.
    CorruptStore : it is not a zip archive, or its members overlap or are damaged.
    """
    path = os.path.realpath(path)
    name = Path(path).as_uri()
    if dry_run:
        archive = GrowingArchive(path, name, may_repair=False)
        try:
            return _Plan(archive.fd, archive.size, name, arrangement).result
        finally:
            archive.close()
    with archive_errors(name):
        fd = lock_archive(path, name)
        try:
            recover(fd, path, name)
            plan = _Plan(fd, os.fstat(fd).st_size, name, arrangement)
            if plan.result.dead_bytes or arrangement is not None:
                _replace(fd, path, plan)
            return plan.result
        finally:
            os.close(fd)


def _replace(fd: int, path: str, plan: _Plan) -> None:
    temporary = os.path.join(os.path.dirname(path), f"{TEMPORARY}{secrets.token_hex(8)}")
    new = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(new, fcntl.LOCK_EX)  # size of the new archive
        plan.write(new)
        keep_ownership(new, os.fstat(fd))
        disk.sync(new)
        plan.check(new)
        disk.rename(temporary, path)
        disk.sync_directory(path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(new)


class _Plan:
    """The moves of bytes in a compaction.

    Members that share a local header keep sharing it.
    """

    def __init__(self, fd: int, size: int, name: str, arrangement: Arrangement | None) -> None:
        self._fd = fd
        self._name = name
        self._arrangement = arrangement
        self._index = self._read_index(fd, size)
        if arrangement is not None and self._index.top:
            raise Unsupported(f"{name}: all members are in the directory {self._index.top!r}")
        gone = set(self._index.columns.shadowed.tolist())
        rows = range(self._index.end.count)
        self._kept = np.array([row not in gone for row in rows], bool)
        self._starts = np.zeros(len(rows), np.uint64)
        self._sizes = np.zeros(len(rows), np.uint64)
        ranks: list[tuple[tuple[int, bytes], int]] = []
        for row, entry in self._entries():
            self._measure(row, entry)
            if arrangement is not None:
                self._check_stored(entry)
                rank = arrangement.rank(entry_parts(entry, 0)[0])
                if rank is not None:
                    ranks.append((rank, row))
        self._first_rows = [row for _, row in sorted(ranks)]
        self._targets = self._placed()
        directory_size = sum(map(len, self._directory()))
        self._directory_at = self._members_end
        closing = self._end_records(directory_size)
        self.result = Compaction(
            int(self._kept.sum()), size, self._directory_at + directory_size + len(closing)
        )

    def write(self, fd: int) -> None:
        """Write the new archive into an empty file."""
        disk.copy(self._fd, 0, self._lead, fd, 0)
        for start, stop, target in self._runs():
            disk.copy(self._fd, start, stop, fd, target)
        at = self._directory_at
        for entry in self._directory():
            disk.write_at(fd, entry, at)
            at += len(entry)
        disk.write_at(fd, self._end_records(at - self._directory_at), at)

    def check(self, fd: int) -> None:
        """Raise CorruptStore unless a written file has the members of this archive."""
        new = self._read_index(fd, os.fstat(fd).st_size)
        old = self._index
        is_same = (
            new.columns.keys == old.columns.keys
            and new.top == old.top
            and bool((new.columns.members["crc"] == old.columns.members["crc"]).all())
        )
        if not is_same:
            raise CorruptStore(f"{self._name}: left as it is, because the new archive differs")

    def _read_index(self, fd: int, size: int) -> ZipIndex:
        def read_at(start: int, stop: int) -> Buffer:
            return fileio.read_at(fd, start, stop)

        try:
            return read_index(read_at, size)
        except CorruptStore as error:
            raise CorruptStore(f"{self._name}: {error}") from error

    def _entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield the kept rows with their entries."""
        end = self._index.end
        pieces = (
            fileio.read_at(self._fd, at, min(at + _PIECE_BYTES, end.stop))
            for at in range(end.start, end.stop, _PIECE_BYTES)
        )
        row = 0
        for data, starts in whole_entries(pieces):
            for start, stop in zip(starts, [*starts[1:], len(data)], strict=True):
                if self._kept[row]:
                    yield row, data[start:stop]
                row += 1

    def _measure(self, row: int, entry: bytes) -> None:
        """Find out the extent of a member, with its header and what follows it."""
        fields = CENTRAL.unpack_from(entry)
        name, extra, _ = entry_parts(entry, 0)
        size, compressed_size, offset = widened(extra, (fields[9], fields[8], fields[16]))
        start = offset + self._index.end.shift
        head = fileio.read_at(self._fd, start, start + LOCAL.size) if start < 1 << 62 else b""
        if len(head) < LOCAL.size or not head.startswith(LOCAL_MAGIC):
            raise CorruptStore(f"{self._member(name)}: no member begins where it should")
        *_, name_size, extra_size = LOCAL.unpack(head)
        stop = start + LOCAL.size + name_size + extra_size + compressed_size
        if fields[3] & HAS_DESCRIPTOR:
            after = fileio.read_at(self._fd, stop, stop + _DESCRIPTOR_BYTES_MAX)
            stop += _descriptor_size(after, fields[7], compressed_size, size)
        if stop > self._index.end.start:
            raise CorruptStore(f"{self._member(name)}: reaches into the central directory")
        self._starts[row] = start
        self._sizes[row] = stop - start

    def _check_stored(self, entry: bytes) -> None:
        """Raise Unsupported if the archive compresses a member."""
        if CENTRAL.unpack_from(entry)[4] != STORED:
            raise Unsupported(
                f"{self._member(entry_parts(entry, 0)[0])}: is compressed by the archive; a new "
                "archive that `nczfs cp` makes compresses nothing"
            )

    def _member(self, name: bytes) -> str:
        return f"{self._name}/{name.decode(errors='backslashreplace')}"

    def _placed(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return the new place of each member, in the order of the archive."""
        targets = np.zeros(len(self._kept), np.uint64)
        self._order = np.flatnonzero(self._kept)
        self._order = self._order[np.argsort(self._starts[self._order], kind="stable")]
        self._lead = self._index.end.shift
        if self._order.size and fileio.read_at(self._fd, 0, 4) != LOCAL_MAGIC:
            # A self-extracting program is there, whichever way offsets are counted.
            self._lead = int(self._starts[self._order[0]])
        last_start, last_stop = -1, 0
        for row in self._order.tolist():
            start, stop = int(self._starts[row]), int(self._starts[row] + self._sizes[row])
            if start < last_stop and (start, stop) != (last_start, last_stop):
                raise CorruptStore(f"{self._name}: members overlap, so it is left as it is")
            last_start, last_stop = start, stop
        if self._first_rows:
            rest = self._order[~np.isin(self._order, self._first_rows)]
            self._order = np.concatenate([np.array(self._first_rows, rest.dtype), rest])
        at = self._lead
        shared: dict[int, int] = {}
        for row in self._order.tolist():
            start, size = int(self._starts[row]), int(self._sizes[row])
            if start not in shared:
                shared[start] = at
                at += size
            targets[row] = shared[start]
        self._members_end = at
        return targets

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield what to copy: start, stop, and goal, joining neighbours."""
        run: tuple[int, int, int] | None = None
        for row in self._order.tolist():
            start, target = int(self._starts[row]), int(self._targets[row])
            stop = start + int(self._sizes[row])
            if run and start == run[1] and target - start == run[2] - run[0]:
                run = run[0], stop, run[2]
            elif run is None or stop != run[1]:
                if run:
                    yield run
                run = start, stop, target
        if run:
            yield run

    def _directory(self) -> Iterator[bytes]:
        first = dict.fromkeys(self._first_rows, b"")
        if first:
            first.update((row, entry) for row, entry in self._entries() if row in first)
        rest = ((row, entry) for row, entry in self._entries() if row not in first)
        for row, entry in chain(first.items(), rest):
            yield _moved(entry, int(self._targets[row]) - self._index.end.shift)

    def _end_records(self, directory_size: int) -> bytes:
        end, arrangement = self._index.end, self._arrangement
        comment = end.comment if arrangement is None else arrangement.comment
        return end_records(
            int(self._kept.sum()),
            directory_size,
            self._directory_at,
            shift=end.shift,
            comment=comment,
            is_wide=without_mark(comment) != comment,
        )


def _moved(entry: bytes, offset: int) -> bytes:
    """Return an entry of a central directory for a member that has moved."""
    fields = list(CENTRAL.unpack_from(entry))
    name, extra, comment = entry_parts(entry, 0)
    size, compressed_size, _ = widened(extra, (fields[9], fields[8], fields[16]))
    wide = [value for value in (size, compressed_size, offset) if value >= FULL32]
    extra = (zip64_extra(*wide) if wide else b"") + without_zip64(extra)
    fields[8], fields[9] = min(compressed_size, FULL32), min(size, FULL32)
    fields[11], fields[16] = len(extra), min(offset, FULL32)
    return CENTRAL.pack(*fields) + name + extra + comment


def _descriptor_size(after: bytes, crc: int, compressed_size: int, size: int) -> int:
    """Return the length of the record after the data of a member written without seeking.

    APPNOTE.TXT 4.3.9: with or without a signature, its sizes of four bytes or of eight.
    """
    lead = _DESCRIPTOR_MAGIC if after.startswith(_DESCRIPTOR_MAGIC) else b""
    rest = after[len(lead) :]
    if rest.startswith(_le(4, crc)):
        for width in (4, 8):
            if rest[4:].startswith(_le(width, compressed_size) + _le(width, size)):
                return len(lead) + 4 + 2 * width
    return 0


def _le(width: int, value: int) -> bytes:
    return (value & (1 << 8 * width) - 1).to_bytes(width, "little")
