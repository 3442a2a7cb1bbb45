"""Objects that could not be stored, put back over the version that they were made from."""

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
from nczfs.errors import BadKey, Conflict, NczfsError, NoSuchObject, ObjectExists, SpoolError
from nczfs.model.ranges import END, Ranges
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, ByteRange, Part, Piece, Stat, Version, Zeros, ZMap
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.securing import secure


@frozen(kw_only=True)
class KeptObject(SpoolEntry):
    """The bytes of an object in the spool.

    Attributes
    ----------
    data : its bytes.
    replaces : the version that it was made from, `ABSENT` where there was none.
    missing : ranges that are those of that version, and were not even read.
    changed : ranges that were written. The last one goes on to `END` where the size was set.
    sent : what was sent to the store without an answer.
    """

    kind: ClassVar[str] = "file"

    data: FileData
    replaces: Version
    missing: tuple[tuple[int, int], ...]
    changed: tuple[tuple[int, int], ...]
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
            changed=tuple(staged.changed.within(0, END)),
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
    def there(self) -> tuple[tuple[int, int], ...]:
        """The ranges whose bytes the spool has, written or only read."""
        known = Ranges()
        for start, stop in self.missing:
            known.add(start, stop)
        return tuple(known.gaps(0, self.data.size))

    def size_after(self, size: int) -> int:
        """Return the size of an object of a size over which it is put."""
        stop = self.changed[-1][1] if self.changed else 0
        return self.data.size if stop == END else max(size, min(stop, self.data.size))

    def parts(self, start: int, stop: int) -> Iterator[Part]:
        """Return its bytes as parts of an object: zeros behind its end."""
        end = min(max(start, self.data.size), stop)
        if start < end:
            yield Piece(self.read, start, end)
        if end < stop:
            yield Zeros(stop - end)

    def rests_on(self, zmap: ZMap, now: Stat | None) -> bool:
        """Return whether an object is what it was made from. Reads it, if it was sent."""
        if (now.version if now is not None else ABSENT) == self.replaces:
            return True
        return now is not None and any(each.is_in(zmap, now) for each in self.sent)

    def is_in(self, zmap: ZMap, now: Stat | None, later: Sequence[KeptObject]) -> bool:
        """Return whether an object has all that was written.

        Parameters
        ----------
        later : what was made later and is in it too, the latest first.
        """
        if now is None or now.size != _size_after([*later, self], now.size):
            return False
        written = [(start, min(stop, self.data.size)) for start, stop in self.changed]
        written = [(start, stop) for start, stop in written if start < stop]
        if not (later or written or not self.missing):
            return False
        covered = Ranges()
        for each in later:
            for start, stop in each.changed:
                covered.add(start, stop)
        left = [gap for start, stop in written for gap in covered.gaps(start, stop)]
        return _are_same(_reader(zmap, now), self.read, left)

    def read(self, start: int, stop: int) -> Buffer:
        """Read some of its bytes. Raises SpoolError, StoreError."""
        with disk(self.data.path), open(self.data.path, "rb") as file:
            data = os.pread(file.fileno(), stop - start, self.data.offset + start)
        if len(data) < stop - start:
            raise SpoolError(f"{self.data.path}: another program has shortened it")
        return data

    def difference(self, now: Stat | None) -> str:
        if now is None:
            what = "another client has deleted it since"
        else:
            when = f" at {time_text(now.stored_ns)}" if now.stored_ns is not None else ""
            what = f"another client has replaced it since{when}: it has {now.size} bytes there"
        return (
            f"{self.key}: {what}, {self.data.size} in the spool; --export DIR gives you the "
            "bytes, and --force overwrites it"
        )


def put_together(
    zmap: ZMap, several: Sequence[KeptObject], *, force: bool
) -> list[NczfsError | None]:
    """Store what the spool has of one object in place of the version that it was made from.

    As if they had been written one after the other: the later ones count where the same bytes were
    written, or the size was set. What a later one has only read of that version undoes nothing.
    Where the store has these bytes, they are only made durable. Takes no more memory than a store
    does to write it in parts.

    Parameters
    ----------
    several : in the order in which they were written.
    force : whatever the store has.

    Returns
    -------
    for each of them why it stays: SpoolError, the store has another version, or the bytes are
    damaged. None: it is stored.

    Raises
    ------
    SpoolError, StoreError : nothing is stored.
    """
    key = several[0].object
    now = stat_of(zmap, key)
    problems: list[NczfsError | None] = []
    there: list[KeptObject] = []
    put: list[KeptObject] = []
    base = now
    for each in reversed(several):
        problem = None
        try:
            each.data.check("content")
            if each.rests_on(zmap, now):
                put.append(each)
            elif not force and each.is_in(zmap, now, there):
                there.append(each)
            elif force:
                base = base if put else None
                put.append(each)
            else:
                problem = SpoolError(each.difference(now))
        except SpoolError as error:
            problem = error
        problems.append(problem)
    if put:
        together = [each for each in reversed(several) if each in put or each in there]
        version = now.version if now is not None else ABSENT
        try:
            zmap.write_parts(key, _parts(together, base), replaces=condition(zmap, version))
        except (Conflict, ObjectExists, NoSuchObject) as error:
            raise SpoolError(f"{key}: another client is writing it") from error
    elif there:
        secure(zmap, key)
    return problems[::-1]


def _parts(several: Sequence[KeptObject], base: Stat | None) -> list[Part]:
    """Return the parts of an object: what was written, the latest first, over a version.

    Parameters
    ----------
    base : that version; None: it is gone, and what was read of it stands for it.
    """
    key = several[0].key
    size = _size_after(several, base.size if base is not None else several[0].data.size)
    known, found = Ranges(), dict[int, list[Part]]()

    def add(each: KeptObject, ranges: Sequence[tuple[int, int]]) -> None:
        for start, stop in ranges:
            for gap in list(known.gaps(start, min(stop, size))):
                found[gap[0]] = list(each.parts(*gap))
                known.add(*gap)

    for each in several:
        add(each, each.changed)
    for each in several if base is None else ():
        add(each, each.there)
    for start, stop in known.gaps(0, size):
        if base is None:
            raise SpoolError(f"{key}: the version with bytes {start} to {stop} is gone")
        end = min(max(start, base.size), stop)
        found[start] = [ByteRange(base, start, end)] if start < end else []
        if end < stop:
            if any(a < stop and end < b for each in several for a, b in each.missing):
                raise SpoolError(f"{key}: the version it is based on is shorter than that")
            found[start].append(Zeros(stop - end))
    return [part for start in sorted(found) for part in found[start]] or [b""]


def _size_after(several: Sequence[KeptObject], size: int) -> int:
    """Return the size of an object of a size over which several are put, the latest first."""
    for each in reversed(several):
        size = each.size_after(size)
    return size


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
