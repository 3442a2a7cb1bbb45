"""Reading parts of one version of an object that is a shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from nczfs.buffers import Buffer
from nczfs.codecs.shardindex import place_of
from nczfs.engine.chunks.base import UnitIndex
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.shardindexes import KnownIndex, ShardIndexes
from nczfs.engine.chunks.shardlayout import Path, ShardLayout, ShardLevel
from nczfs.errors import CodecError, Conflict, CorruptChunk
from nczfs.zmap.base import Stat, Version, ZMap
from nczfs.zmap.keys import Key

TOGETHER_BYTES: Final = 8 << 20
"""Of indexes of inner shards that are read at once."""

Place: TypeAlias = "tuple[int, int] | CodecError | None"
"""Where something starts and stops in the object; None: it is missing; or why that is unknown."""


class ShardReader:
    """A reader of one version of an object. For one thread.

    Parameters
    ----------
    top : the index of the object.
    is_now : whether the store had this version after the reader was wanted.
    data : the whole object; None: it is read in parts.
    """

    def __init__(
        self,
        zmap: ZMap,
        key: Key,
        layout: ShardLayout,
        indexes: ShardIndexes,
        unit: tuple[ArrayPlace, UnitIndex],
        top: KnownIndex,
        *,
        is_now: bool = False,
        data: Buffer | None = None,
    ) -> None:
        self._zmap = zmap
        self._key = key
        self._layout = layout
        self._indexes = indexes
        self._unit = unit
        self.top = top
        self._is_now = is_now
        self._data = data

    @property
    def stat(self) -> Stat:
        """The object, as far as it is known."""
        return Stat(self._key, self.top.stop, self.top.version)

    def confirm(self) -> None:
        """Raise Conflict unless the store had this version after the reader was wanted."""
        if not self._is_now:
            if self._zmap.stat(self._key).version != self.top.version:
                raise Conflict(f"{self._zmap.name}/{self._key}: replaced by another client")
            self._is_now = True

    def places(self, paths: Sequence[Path]) -> list[Place]:
        """Return where chunks are, in the order of their paths. Raises StoreError, Conflict."""
        found: dict[Path, Place] = {}
        self._find((), self.top, sorted(set(paths)), found)
        return [found[path] for path in paths]

    def ranges(self, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        """Return the bytes of several ranges of the object. Raises StoreError, Conflict."""
        if self._data is not None:
            whole = memoryview(self._data)
            return [whole[start:stop] for start, stop in ranges]
        found = self._zmap.read_ranges(self._key, ranges, version=self.top.version)
        self._is_now = self._is_now or any(start < stop for start, stop in ranges)
        return found

    def inner(
        self, path: Path, index: KnownIndex, numbers: Iterable[int]
    ) -> Iterator[tuple[int, KnownIndex | CodecError | None]]:
        """Yield the indexes of shards inside one, by their number there; None: it is missing.

        Parameters
        ----------
        path : of the outer shard, with `index`.
        numbers : ascending.
        """
        level = self._layout.levels[len(path) + 1]
        count = max(1, TOGETHER_BYTES // level.codec.nbytes)
        batch: list[int] = []
        for number in numbers:
            batch.append(number)
            if len(batch) == count:
                yield from self._inner(level, path, index, batch)
                batch = []
        yield from self._inner(level, path, index, batch)

    def place(self, index: KnownIndex, number: int) -> Place:
        """Return where an entry of an index is in the object."""
        try:
            found = place_of(index.places, number, index.stop - index.start)
        except CorruptChunk as error:
            return self._error(error)
        return None if found is None else (index.start + found[0], index.start + found[1])

    def _find(
        self, at: Path, index: KnownIndex, paths: Sequence[Path], found: dict[Path, Place]
    ) -> None:
        """Find the places of chunks below a shard."""
        depth = len(at)
        if depth == len(self._layout.levels) - 1:
            found.update((path, self.place(index, path[depth])) for path in paths)
            return
        below = {number: list(each) for number, each in groupby(paths, lambda path: path[depth])}
        for number, inner in self.inner(at, index, below):
            if isinstance(inner, KnownIndex):
                self._find((*at, number), inner, below[number], found)
            else:
                found.update(dict.fromkeys(below[number], inner))

    def _inner(
        self, level: ShardLevel, path: Path, index: KnownIndex, numbers: Sequence[int]
    ) -> Iterator[tuple[int, KnownIndex | CodecError | None]]:
        found: dict[int, KnownIndex | CodecError | None] = {}
        unread: dict[int, tuple[int, int]] = {}
        for number in numbers:
            place = self.place(index, number)
            if not isinstance(place, tuple):
                found[number] = place
                continue
            start, stop = place
            known = self._indexes.get((*self._unit, (*path, number)))
            if (
                known is not None
                and known.version == self.top.version
                and (known.start, known.stop) == place
            ):
                found[number] = known
            elif stop - start < level.codec.nbytes:
                found[number] = self._error(
                    CorruptChunk(
                        f"an inner shard has {stop - start} bytes, and its index has "
                        f"{level.codec.nbytes}"
                    )
                )
            else:
                unread[number] = place
        ranges = [level.index_range(*place) for place in unread.values()]
        for (number, place), data in zip(
            unread.items(), self.ranges(ranges) if ranges else (), strict=True
        ):
            try:
                places = level.codec.decode(data)
            except CorruptChunk as error:
                found[number] = self._error(error)
                continue
            inner = KnownIndex(self.top.version, *place, places)
            self._indexes.put((*self._unit, (*path, number)), inner)
            found[number] = inner
        yield from ((number, found[number]) for number in numbers)

    def _error(self, error: CodecError) -> CodecError:
        return type(error)(f"{self._zmap.name}/{self._key}: {error}")


def read_index(
    zmap: ZMap, key: Key, level: ShardLevel, version: Version | None = None
) -> KnownIndex:
    """Read the index of an object by one request.

    Raises
    ------
    CorruptChunk : there is none. NoSuchObject, Conflict : as `ZMap.read`.
    """
    nbytes = level.codec.nbytes
    if level.is_at_end:
        blob = zmap.read(key, -nbytes, version=version)
    else:
        blob = zmap.read(key, 0, nbytes, version=version)
    return _index_in(zmap, key, level, blob.data, blob.version, blob.object_size)


def read_whole(
    zmap: ZMap, key: Key, level: ShardLevel, bytes_max: int
) -> tuple[KnownIndex, Buffer] | None:
    """Read an object by one request, if it has no more bytes than `bytes_max`. Raises the same."""
    blob = zmap.read(key, 0, bytes_max)
    if blob.object_size > bytes_max:
        return None
    start, stop = level.index_range(0, len(blob.data))
    data = memoryview(blob.data)[max(0, start) : stop]
    return _index_in(zmap, key, level, data, blob.version, blob.object_size), blob.data


def _index_in(
    zmap: ZMap, key: Key, level: ShardLevel, data: Buffer, version: Version, size: int
) -> KnownIndex:
    try:
        return KnownIndex(version, 0, size, level.codec.decode(data))
    except CorruptChunk as error:
        raise CorruptChunk(f"{zmap.name}/{key}: {error}") from error
