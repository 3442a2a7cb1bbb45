"""Putting a shard together from encoded chunks, and from the bytes of an older version."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from tempfile import TemporaryFile
from typing import IO, Final

import numpy as np

from nczfs.codecs.shardindex import Places, are_missing, in_a_row
from nczfs.engine.chunks.shardindexes import KnownIndex
from nczfs.engine.chunks.shardlayout import Path, ShardLayout
from nczfs.engine.chunks.shardread import ShardReader
from nczfs.errors import CodecError, CorruptChunk, NoSpace
from nczfs.plaindata import frozen
from nczfs.zmap.base import ByteRange, Part, Piece, part_size
from nczfs.zmap.joining import IN_MEMORY_BYTES_MAX

COPIED_BYTES_LEAST: Final = 5 << 20
"""Shorter ranges of the older version are read; a server copies longer ones, if it can."""

SHARED_BYTES_MAX: Final = 64 << 20
"""By so many bytes a shard may grow because chunks that shared bytes have their own."""


@frozen
class Composed:
    """A shard that is to be stored.

    Attributes
    ----------
    places : of its entries, from its start on.
    """

    parts: list[Part]
    nbytes: int
    places: Places


class Held:
    """Bytes that are held until a shard is stored: in memory, or else in a nameless file.

    Parameters
    ----------
    claim : takes bytes of the budget for memory, or gives them back.
    """

    def __init__(self, claim: Callable[[int], None]) -> None:
        self._claim = claim
        self._in_memory = 0
        self._in_file = 0
        self._file: IO[bytes] | None = None

    def has_room(self, nbytes: int) -> bool:
        """Return whether so many bytes more would be held in memory."""
        return self._in_memory + nbytes <= IN_MEMORY_BYTES_MAX

    def keep(self, data: bytes) -> Part:
        """Return the part of an object that these bytes are to be. Raises NoSpace."""
        if self.has_room(len(data)):
            self.count(len(data))
            return data
        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="nczfs-")  # noqa: SIM115 - parts keep it open
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise NoSpace(
                f"no room for the chunks of a shard in the directory for temporary files "
                f"({error}); TMPDIR names another one"
            ) from error
        start, self._in_file = self._in_file, self._in_file + len(data)
        file = self._file

        def read(first: int, stop: int) -> bytes:
            return os.pread(file.fileno(), stop - first, first)

        return Piece(read, start, self._in_file)

    def count(self, nbytes: int) -> None:
        """Count bytes that are in memory."""
        self._claim(nbytes)
        self._in_memory += nbytes

    def release(self) -> None:
        """Give back what was taken of the budget."""
        self._claim(-self._in_memory)
        self._in_memory = 0


class Composer:
    """A composer of shards of an array.

    Parameters
    ----------
    old : the version that is replaced; None: nothing of it is left.
    """

    def __init__(self, layout: ShardLayout, old: ShardReader | None) -> None:
        self._layout = layout
        self._old = old

    def compose(self, changes: Mapping[Path, Part | None]) -> Composed | None:
        """Return the object with some chunks changed; None: it has no chunk.

        The chunks follow one another in the order of the index.

        Parameters
        ----------
        changes : the encoded chunks by their paths; None: the chunk becomes a missing one.

        Raises
        ------
        CodecError : the older version is damaged. StoreError, Conflict : it cannot be read.
        """
        return self._composed((), changes, self._old.top if self._old is not None else None)

    def empty(self) -> Composed:
        """Return an object without chunks."""
        codec = self._layout.levels[0].codec
        places = in_a_row([None] * codec.count, 0)
        index = codec.encode(places)
        return Composed([index], len(index), places)

    def _composed(
        self, path: Path, changes: Mapping[Path, Part | None], old: KnownIndex | None
    ) -> Composed | None:
        depth = len(path)
        level = self._layout.levels[depth]
        found: dict[int, Sequence[Part]]
        if depth == len(self._layout.levels) - 1:
            found = {p[depth]: [] if part is None else [part] for p, part in changes.items()}
            present = {p[depth] for p, part in changes.items() if part is not None}
        else:
            found = self._inner(path, changes, old)
            present = {number for number, parts in found.items() if parts}
        kept = self._kept(old, found) if old is not None else {}
        lengths: list[int | None] = [None] * level.codec.count
        parts: list[Part] = []
        for number in sorted(kept.keys() | present):
            pieces = found.get(number) or [kept[number]]
            lengths[number] = sum(map(part_size, pieces))
            for piece in pieces:
                _add(parts, piece)
        if not parts:
            return None
        begin = 0 if level.is_at_end else level.codec.nbytes
        places = in_a_row(lengths, begin)
        index = level.codec.encode(places)
        parts = [*parts, index] if level.is_at_end else [index, *parts]
        return Composed(parts, sum(map(part_size, parts)), places)

    def _inner(
        self, path: Path, changes: Mapping[Path, Part | None], old: KnownIndex | None
    ) -> dict[int, Sequence[Part]]:
        """Return the parts of the inner shards that have changes, by number; []: it is missing."""
        depth = len(path)
        below: dict[int, dict[Path, Part | None]] = {}
        for each, part in changes.items():
            below.setdefault(each[depth], {})[each] = part
        count = prod(level.codec.count for level in self._layout.levels[depth + 1 :])
        partial = [number for number in sorted(below) if len(below[number]) < count]
        indexes: dict[int, KnownIndex | None] = {}
        found: dict[int, Sequence[Part]] = {}
        if old is not None and self._old is not None:
            for number, inner in self._old.inner(path, old, partial):
                if isinstance(inner, CodecError):
                    raise inner
                indexes[number] = inner
        for number, changed in below.items():
            composed = self._composed((*path, number), changed, indexes.get(number))
            found[number] = [] if composed is None else composed.parts
        return found

    def _kept(self, old: KnownIndex, changed: Mapping[int, object]) -> dict[int, ByteRange]:
        """Return the entries of the older version that stay, by number.

        Raises
        ------
        CodecError : an entry makes no sense, or so many share bytes that what is short now would
            become long.
        """
        assert self._old is not None
        kept: dict[int, ByteRange] = {}
        stat = self._old.stat
        for number in np.flatnonzero(~are_missing(old.places)).tolist():
            if number in changed:
                continue
            place = self._old.place(old, number)
            if isinstance(place, CodecError):
                raise place
            if place is not None:
                kept[number] = ByteRange(stat, *place)
        nbytes, room = sum(each.size for each in kept.values()), old.stop - old.start
        if nbytes > room + SHARED_BYTES_MAX:
            raise CorruptChunk(
                f"{stat.key}: its chunks share bytes: they have {nbytes} bytes in {room}, and "
                "would each be written anew"
            )
        return kept


def with_read(parts: Sequence[Part], old: ShardReader, held: Held) -> list[Part]:
    """Return parts of which the short ranges are read, as far as memory holds them."""
    short = [p for p in parts if isinstance(p, ByteRange) and p.size < COPIED_BYTES_LEAST]
    total = sum(part.size for part in short)
    if not short or not held.has_room(total):
        return list(parts)
    held.count(total)
    found = iter(old.ranges([(part.start, part.stop) for part in short]))
    return [
        next(found) if isinstance(part, ByteRange) and part.size < COPIED_BYTES_LEAST else part
        for part in parts
    ]


def _add(parts: list[Part], part: Part) -> None:
    """Add a part; ranges that follow one another become one."""
    last = parts[-1] if parts else None
    if isinstance(part, ByteRange) and isinstance(last, ByteRange) and last.stop == part.start:
        parts[-1] = ByteRange(part.stat, last.start, part.stop)
    else:
        parts.append(part)
