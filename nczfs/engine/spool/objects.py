"""An object that could not be stored, put back in blocks over the version that it was made from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from nczfs.buffers import Buffer
from nczfs.engine.spool.basis import BLOCK_BYTES, Sent, time_text
from nczfs.engine.spool.disk import disk
from nczfs.engine.spool.entries import KILLED, SpoolEntry, copied
from nczfs.engine.spool.records import FileData
from nczfs.engine.spool.staged import Staged
from nczfs.errors import BadKey, Conflict, NoSuchObject, ObjectExists, SpoolError
from nczfs.model.ranges import Ranges
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, ByteRange, Part, Piece, Stat, Version, ZMap
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.securing import secure


@frozen(kw_only=True)
class KeptObject(SpoolEntry):
    """The bytes of an object in the spool.

    Attributes
    ----------
    data : its bytes.
    replaces : the version that it was made from, `ABSENT` where there was none.
    missing : ranges that are those of that version.
    sent : what was sent to the store without an answer.
    """

    kind: ClassVar[str] = "file"

    data: FileData
    replaces: Version
    missing: tuple[tuple[int, int], ...]
    sent: tuple[Sent, ...]

    @classmethod
    def of(cls, path: Path, url: str, staged: Staged, written_at: float) -> KeptObject:
        """Return the object of a staged file, as the log describes it.

        Parameters
        ----------
        written_at : when the log was written last, in seconds since 1970.
        """
        kept = staged.kept
        size = path.stat().st_size if kept is None else kept.size
        return cls(
            url=url,
            key=staged.key,
            reason=KILLED if kept is None else kept.reason,
            saved_at=written_at if kept is None else kept.saved_at,
            files=(path,),
            data=FileData(path, 0, size, None if kept is None else kept.crc32c),
            replaces=Version(staged.replaces),
            missing=tuple(staged.missing(size)),
            sent=tuple(staged.sent),
        )

    def describe(self) -> str:
        """As of an entry."""
        return f": {self.data.size} bytes"

    def export(self, path: Path) -> Path:
        """As of an entry: its bytes, those that were never fetched as zeros."""
        self.data.check("content")
        return copied(self.data, path)

    @property
    def object(self) -> Key:
        """Where it belongs. Raises SpoolError."""
        try:
            return parse_key(self.key)
        except BadKey as error:
            raise SpoolError(f"{self.key}: the entry cannot be understood: {error!r}") from error

    @property
    def own(self) -> tuple[tuple[int, int], ...]:
        """The ranges whose bytes the spool has."""
        known = Ranges()
        for start, stop in self.missing:
            known.add(start, stop)
        return tuple(known.gaps(0, self.data.size))

    def put(self, zmap: ZMap, *, force: bool) -> None:
        """Store it in place of the version that it was made from; `force`: of any.

        Where the store has these bytes, it only makes them durable. Takes no more memory than a
        store does to write it in parts.

        Raises
        ------
        SpoolError : the store has another version, or the bytes are damaged. StoreError.
        """
        self.data.check("content")
        key = self.object
        now = stat_of(zmap, key)
        version = now.version if now is not None else ABSENT
        is_base = version == self.replaces
        if not is_base and now is not None and any(each.is_in(zmap, now) for each in self.sent):
            is_base = True
        if not is_base and not force:
            if now is not None and self._is_in(zmap, now):
                secure(zmap, key)
                return
            raise SpoolError(self._difference(now))
        parts = list(self._parts(now if is_base else None)) or [b""]
        try:
            zmap.write_parts(key, parts, replaces=condition(zmap, version))
        except (Conflict, ObjectExists, NoSuchObject) as error:
            raise SpoolError(f"{self.key}: another client is writing it") from error

    def _parts(self, base: Stat | None) -> Iterator[Part]:
        at = 0
        for start, stop in [*self.missing, (self.data.size, self.data.size)]:
            if start > at:
                yield Piece(self._read, at, start)
            if stop > start:
                if base is None:
                    raise SpoolError(
                        f"{self.key}: the version with bytes {start} to {stop} is gone"
                    )
                if stop > base.size:
                    raise SpoolError(f"{self.key}: the version it is based on is shorter than that")
                yield ByteRange(base, start, stop)
            at = stop

    def _read(self, start: int, stop: int) -> Buffer:
        with disk(self.data.path), open(self.data.path, "rb") as file:
            data = os.pread(file.fileno(), stop - start, self.data.offset + start)
        if len(data) < stop - start:
            raise SpoolError(f"{self.data.path}: another program has shortened it")
        return data

    def _is_in(self, zmap: ZMap, stat: Stat) -> bool:
        """Return whether an object has all the bytes that the spool has of it."""
        if stat.size != self.data.size or (self.missing and not self.own):
            return False
        return _are_same(_reader(zmap, stat), self._read, self.own)

    def _difference(self, now: Stat | None) -> str:
        if now is None:
            what = "another client has deleted it since"
        else:
            when = f" at {time_text(now.stored_ns)}" if now.stored_ns is not None else ""
            what = f"another client has replaced it since{when}: it has {now.size} bytes there"
        return (
            f"{self.key}: {what}, {self.data.size} in the spool; --export DIR gives you the "
            "bytes, and --force overwrites it"
        )


def are_equal(zmap: ZMap, one: Stat, other: Stat) -> bool:
    """Return whether two objects of a store have the same bytes, comparing them in blocks."""
    if one.size != other.size:
        return False
    return _are_same(_reader(zmap, one), _reader(zmap, other), [(0, one.size)])


def _are_same(
    one: Callable[[int, int], Buffer],
    other: Callable[[int, int], Buffer],
    ranges: Sequence[tuple[int, int]],
) -> bool:
    return all(
        one(at, end) == other(at, end)
        for start, stop in ranges
        for at in range(start, stop, BLOCK_BYTES)
        for end in [min(stop, at + BLOCK_BYTES)]
    )


def _reader(zmap: ZMap, stat: Stat) -> Callable[[int, int], Buffer]:
    def read(start: int, stop: int) -> Buffer:
        try:
            return zmap.read(stat.key, start, stop, version=stat.version).data
        except (Conflict, NoSuchObject) as error:
            raise SpoolError(f"{stat.key}: another client is writing it") from error

    return read


def condition(zmap: ZMap, version: Version) -> Version | None:
    """Return what a write that replaces a version is given; None: the store compares none."""
    return version if zmap.features.conditional_writes else None


def stat_of(zmap: ZMap, key: Key) -> Stat | None:
    """Return an object of a store; None: there is none."""
    try:
        return zmap.stat(key)
    except NoSuchObject:
        return None
