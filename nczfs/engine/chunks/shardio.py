"""Chunks that lie in shards: parts of objects, found by the index that each object has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Final, TypeAlias, TypeVar

import numpy as np

from nczfs import metrics
from nczfs.buffers import Buffer, Values
from nczfs.codecs.base import MEMORY_BYTES
from nczfs.engine.chunks.base import Confirmed, Fetched, Missing, Sending, UnitIndex
from nczfs.engine.chunks.fill import fill_chunk, is_fill
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.sharddraft import ShardDraft
from nczfs.engine.chunks.shardindexes import KnownIndex, ShardIndexes, ShardMemory
from nczfs.engine.chunks.shardlayout import Path, ShardLayout, layout_of
from nczfs.engine.chunks.shardread import (
    Place,
    ShardReader,
    read_index,
    read_whole,
)
from nczfs.engine.chunks.shardspans import Spans, StoredChunks, shared_bytes, spans_in
from nczfs.engine.chunks.shardwrite import Composer, Held, with_read
from nczfs.engine.chunks.unitio import UnitIO
from nczfs.engine.options import MissingChunks
from nczfs.engine.retrying import CONFLICTS_MAX, LOOKED_S, Confirmation
from nczfs.errors import (
    CodecError,
    Conflict,
    NczfsError,
    NoSuchObject,
    ObjectExists,
    StructureChanged,
    Unavailable,
)
from nczfs.model.boxes import index_of
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import ABSENT, ByteRange, Part, Piece, Version, Zeros, ZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.ranges import JOINED_BYTES_MAX

INDEX_SHARE: Final = 32  # an index may take up to such a part of the memory
INDEX_BYTES_LEAST: Final = 1 << 20  # however little memory there is
STORED_FACTOR: Final = 16  # a codec may give each element another type
STORED_SLACK_BYTES: Final = 4 << 10
LAYOUTS_MAX: Final = 64  # of units of other shapes than the largest one

_Read = TypeVar("_Read")
_Stored: TypeAlias = "Buffer | CodecError | Fetched | None"
"""What a shard has of a chunk: bytes; None, it is missing; an error; or what reads it later."""


class ShardIO(UnitIO):
    """Chunks in shards, each of which is an object. Immutable.

    A shard is read in parts, all of one version: first the index, then chunks. It is written as a
    whole; what does not change is copied as it is stored.

    Parameters
    ----------
    memory : of all shards.
    grows : for each dimension, whether others may make the array longer at any time.
    """

    is_grouped = True

    def __init__(
        self,
        zmap: ZMap,
        place: ArrayPlace,
        array: ArrayDescription,
        missing_chunks: MissingChunks,
        memory: ShardMemory,
        grows: Sequence[bool] = (),
        confirm: Confirmation | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        super().__init__(
            zmap, place, array, missing_chunks, confirm=confirm, memory_bytes=memory_bytes
        )
        self._memory = memory
        self._grows = grows or (False,) * len(array.shape)

    def members(self, unit: UnitIndex) -> Iterable[ChunkIndex]:
        grid, units = self.array.grid, self.array.units
        sides = []
        for first, whole, length, count, grows in zip(
            units.origin(unit),
            units.extent(unit),
            self.array.chunk_shape,
            grid.counts,
            self._grows,
            strict=True,
        ):
            stop = (first + whole) // length
            sides.append(range(first // length, stop if grows else min(stop, count)))
        return product(*sides)

    def require(self) -> None:
        _ = self._largest_layout
        super().require()

    @cached_property
    def _largest_layout(self) -> ShardLayout:
        return self._layout_of(self.array.unit_shape)

    def _layout(self, unit: UnitIndex) -> ShardLayout:
        """Return where the chunks of a unit are in its index. Raises CodecError."""
        extent = self.array.units.extent(unit)
        return self._largest_layout if extent == self.array.unit_shape else self._layout_of(extent)

    @cached_property
    def _layout_of(self) -> Callable[[tuple[int, ...]], ShardLayout]:
        """Returns the layout of the units of a shape."""

        index_bytes_max = max(INDEX_BYTES_LEAST, self._memory_bytes // INDEX_SHARE)

        def made(extent: tuple[int, ...]) -> ShardLayout:
            try:
                return layout_of(self.array, extent, index_bytes_max)
            except CodecError as error:
                raise type(error)(f"{self._place}: {error}") from error

        return lru_cache(LAYOUTS_MAX)(made)

    def _paths(self, unit: UnitIndex, chunks: Iterable[ChunkIndex]) -> list[Path]:
        """Return the paths of chunks of a unit."""
        layout, lengths = self._layout(unit), self.array.chunk_shape
        origin = self.array.units.origin(unit)
        return [
            layout.path([i * n - o for i, n, o in zip(chunk, lengths, origin, strict=True)])
            for chunk in chunks
        ]

    @property
    def _bytes_max(self) -> int:
        # Chunks in shards are not as long as netcdf-fortran writes some; and as the index may give
        # many of them the same bytes, a shard must not make reading them long.
        if self.array.dtype.vlen is not None:
            return super()._bytes_max
        return STORED_FACTOR * self.array.chunk_bytes + STORED_SLACK_BYTES

    # Reading

    def fetch(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched:
        return self.fetch_several([(chunk, known)])[0]

    def fetch_several(
        self, wanted: Sequence[tuple[ChunkIndex, LoadedChunk | None]]
    ) -> Sequence[Fetched]:
        self.require()
        unit = self.unit(wanted[0][0])
        halves: dict[ChunkIndex, Fetched] = {}
        if any(known is not None and known.version is not None for _, known in wanted):
            version = self.version(unit)
            for chunk, known in wanted:
                if known is not None and known.version == version:
                    halves[chunk] = Confirmed(known)
        missing = [chunk for chunk, _ in wanted if chunk not in halves]
        if missing:
            found, now = self._read(unit, missing)
            for chunk, stored in zip(missing, found, strict=True):
                halves[chunk] = self._half(unit, chunk, stored, now)
        return [halves[chunk] for chunk, _ in wanted]

    def newest(
        self, unit: UnitIndex, chunks: Collection[ChunkIndex]
    ) -> tuple[Mapping[ChunkIndex, Values], Version]:
        self.require()
        found, version = self._read(unit, list(chunks))
        values: dict[ChunkIndex, Values] = {}
        for chunk, stored in zip(chunks, found, strict=True):
            if stored is None:
                values[chunk] = fill_chunk(self.array, chunk)
            else:
                values[chunk] = self._half(unit, chunk, stored, version)().values
        return values, ABSENT if version is None else version

    def _half(
        self, unit: UnitIndex, chunk: ChunkIndex, stored: _Stored, version: Version | None
    ) -> Fetched:
        """Return what decodes a chunk.

        Parameters
        ----------
        version : of its unit; None: there is no object.
        """
        place = partial(self._shown, unit, chunk)
        if stored is None:
            make = partial(self._missing, place, chunk, version)
            return Missing(make) if version is None else make
        if isinstance(stored, CodecError):
            return partial(_raise, stored)
        if callable(stored):
            return stored
        assert version is not None
        return lambda: self._decode(place, chunk, stored, version)

    def _shown(self, unit: UnitIndex, chunk: ChunkIndex) -> str:
        """Return the place of a chunk, for messages."""
        return f"{self._zmap.name}/{self.key(unit)}: {_named(chunk)}"

    def stored_in(self, unit: UnitIndex) -> Collection[ChunkIndex]:
        return StoredChunks(self.array.chunks_of(unit), self._spans(unit)[0][:, 0])

    def oddities(self, unit: UnitIndex) -> Sequence[str]:
        spans, size = self._spans(unit)
        if size is not None:
            index = (-1, *self._layout(unit).levels[0].index_range(0, size))
            spans = np.concatenate([spans, np.array([index], np.int64)])
        inside = self.array.chunks_of(unit)

        def name(number: int) -> str:
            if number < 0:
                return "the index"
            within = index_of(number, inside.shape)
            return _named(tuple(a + b for a, b in zip(within, inside.start, strict=True)))

        return shared_bytes(spans, name)

    def _spans(self, unit: UnitIndex) -> tuple[Spans, int | None]:
        """Return where the chunks of a unit are, and the size of the object; None: it is gone.

        Those beyond the shape of the array are left out. See `spans_in` for rows and errors.
        """
        inside, origin = self.array.chunks_of(unit), self.array.units.origin(unit)

        def find(reader: ShardReader) -> tuple[Spans, int]:
            try:
                return spans_in(reader, self._layout(unit), inside, origin), reader.stat.size
            except CodecError as error:
                raise type(error)(f"{self._zmap.name}/{self.key(unit)}: {error}") from error

        known = self._now(unit, 0, find)
        return (np.empty((0, 3), np.int64), None) if known is None else known[0]

    def _read(
        self, unit: UnitIndex, chunks: Sequence[ChunkIndex]
    ) -> tuple[Sequence[_Stored], Version | None]:
        """Return what a unit has of chunks, and its version, as the store has it now."""
        paths = self._paths(unit, chunks)

        def read(reader: ShardReader) -> Sequence[_Stored]:
            return self._stored(reader, unit, chunks, reader.places(paths))

        found = self._now(unit, len(chunks), read)
        return found if found is not None else ([None] * len(chunks), None)

    def _now(
        self, unit: UnitIndex, count: int, read: Callable[[ShardReader], _Read]
    ) -> tuple[_Read, Version] | None:
        """Return something of a unit, as the store has it now; None: it has no such object.

        Parameters
        ----------
        count : how many chunks are wanted.
        """
        index_id = self._at, unit, ()
        for _ in range(CONFLICTS_MAX):
            key = self.key(unit)
            try:
                reader = self._opened(key, unit, count)
                found = read(reader)
                reader.confirm()
            except Conflict:
                self._indexes.forget(index_id)
            except NoSuchObject:
                self._indexes.forget(index_id)
                if self.key(unit) == key:  # the array was not renamed meanwhile
                    return None
            else:
                return found, reader.top.version
        raise Unavailable(f"{self._zmap.name}/{key}: other clients kept replacing it")

    @property
    def _indexes(self) -> ShardIndexes:
        return self._memory.indexes

    def _opened(self, key: Key, unit: UnitIndex, count: int) -> ShardReader:
        """Return a reader of a unit of which `count` chunks are wanted."""
        top, is_now, data = self._indexes.get((self._at, unit, ())), False, None
        if top is None and self._is_worth_all(unit, count):
            whole = read_whole(self._zmap, key, self._layout(unit).levels[0], JOINED_BYTES_MAX)
            if whole is not None:
                (top, data), is_now = whole, True
                self._indexes.put((self._at, unit, ()), top)
        if top is None:
            ask = partial(read_index, self._zmap, key, self._layout(unit).levels[0])
            top, is_now = self._indexes.once((self._at, unit, ()), ask)
        return self._reader(key, unit, top, is_now=is_now, data=data)

    def _reader(
        self,
        key: Key,
        unit: UnitIndex,
        top: KnownIndex,
        *,
        is_now: bool = False,
        data: Buffer | None = None,
    ) -> ShardReader:
        at = self._at, unit
        return ShardReader(
            self._zmap, key, self._layout(unit), self._indexes, at, top, is_now=is_now, data=data
        )

    def _is_worth_all(self, unit: UnitIndex, count: int) -> bool:
        """Return whether a unit of which `count` chunks are wanted is best read by one request.

        A longer one is read faster by several requests at a time.
        """
        per_unit = self._layout(unit).chunk_count
        nbytes = self.array.chunk_bytes * per_unit
        return 2 * count >= per_unit > 1 and nbytes <= JOINED_BYTES_MAX

    def _stored(
        self,
        reader: ShardReader,
        unit: UnitIndex,
        chunks: Sequence[ChunkIndex],
        places: Sequence[Place],
    ) -> Sequence[_Stored]:
        """Return what a version of a unit has of chunks at places in it."""
        found: list[_Stored] = []
        ranges: list[tuple[int, int]] = []
        numbers: list[int] = []
        room = self._bytes_max + 2 * len(chunks) * self.array.chunk_bytes
        for number, (chunk, place) in enumerate(zip(chunks, places, strict=True)):
            if not isinstance(place, tuple):
                found.append(place)
                continue
            size = place[1] - place[0]
            if size > self._bytes_max:
                found.append(self._too_large(self._shown(unit, chunk), size))
            elif size > room:  # what is so much larger than usual is read one by one
                found.append(partial(self._later, reader, unit, chunk, place))
            else:
                room -= size
                found.append(b"")
                ranges.append(place)
                numbers.append(number)
        if ranges:
            for number, data in zip(numbers, reader.ranges(ranges), strict=True):
                found[number] = data
        return found

    def _later(
        self, reader: ShardReader, unit: UnitIndex, chunk: ChunkIndex, place: tuple[int, int]
    ) -> LoadedChunk:
        """Read and decode a chunk."""
        try:
            (data,) = reader.ranges([place])
        except (Conflict, NoSuchObject):
            return self.fetch(chunk, None)()
        shown = partial(self._shown, unit, chunk)
        return self._decode(shown, chunk, data, reader.top.version)

    # Writing

    def store(
        self,
        unit: UnitIndex,
        values: Mapping[ChunkIndex, Values],
        replaces: Version | None,
        sending: Sending | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        draft = self.draft(unit)
        with self._storing():
            try:
                draft.put_all(values)
                return self._put(draft, replaces, sending, explicitly=explicitly)
            finally:
                draft.drop()

    def draft(self, unit: UnitIndex) -> ShardDraft:
        encode = partial(self._encoded, unit)
        held = Held(self._memory.claim)
        return ShardDraft(self, unit, encode, self._store_draft, held)

    def _encoded(
        self, unit: UnitIndex, chunk: ChunkIndex, values: Values
    ) -> tuple[Path, bytes | None]:
        (path,) = self._paths(unit, [chunk])
        if is_fill(self.array, values):
            return path, None
        return path, self._encode(self._shown(unit, chunk), chunk, values)

    def _store_draft(self, draft: ShardDraft, replaces: Version | None) -> Version | None:
        with self._storing():
            return self._put(draft, replaces)

    @contextlib.contextmanager
    def _storing(self) -> Iterator[None]:
        """Let no rename of the array begin during the block; it is what its writers know."""
        with self._at.gate.inside(lambda: self._at.prefix):
            self.confirm()
            self.confirm.look(LOOKED_S)
            yield

    def _replaced(self, unit: UnitIndex, version: Version) -> ShardReader:
        """Return a reader of a version of a unit. Raises Conflict: the store has another one."""
        key = self.key(unit)
        top = self._indexes.get((self._at, unit, ()))
        if top is None or top.version != version:
            try:
                top = read_index(self._zmap, key, self._layout(unit).levels[0], version)
            except NoSuchObject as error:
                raise Conflict(f"{self._zmap.name}/{key}: is gone") from error
        return self._reader(key, unit, top)

    def _put(
        self,
        draft: ShardDraft,
        replaces: Version | None,
        sending: Sending | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        unit, is_whole = draft.unit, draft.is_whole
        assert is_whole or replaces is not None
        keeps = not is_whole and replaces != ABSENT
        old = self._replaced(unit, replaces) if keeps and replaces is not None else None
        key = self.key(unit)
        composer = Composer(self._layout(unit), old)
        composed = composer.compose(draft.changes)
        if composed is None:
            if not explicitly and self._is_absent(unit, replaces):
                return None
            composed = composer.empty()
        try:
            parts = composed.parts if old is None else with_read(composed.parts, old, draft.held)
            if sending is not None:
                sending(parts, replaces)
            metrics.CHUNKS_STORED.inc(len(draft.changes))
            version = self._write(key, parts, composed.nbytes, replaces)
        except (Conflict, ObjectExists):
            self.confirm.doubt()  # perhaps the shard is of another array
            raise
        except NoSuchObject as error:
            raise Conflict(f"{self._zmap.name}/{key}: is gone") from error
        top = KnownIndex(version, 0, composed.nbytes, composed.places)
        self._indexes.put((self._at, unit, ()), top)
        try:
            self.confirm.look()
        except StructureChanged:
            if replaces == ABSENT:  # it would be a shard of what is there now
                with contextlib.suppress(NczfsError):
                    self._zmap.delete(key, version=version)
            raise
        return version

    def _write(
        self, key: Key, parts: Sequence[Part], nbytes: int, replaces: Version | None
    ) -> Version:
        pieces = [part for part in parts if not isinstance(part, ByteRange | Piece | Zeros)]
        if nbytes > JOINED_BYTES_MAX or len(pieces) < len(parts):
            return self._zmap.write_parts(key, parts, replaces=replaces)
        return self._zmap.write(key, b"".join(pieces), replaces=replaces)


def _named(chunk: ChunkIndex) -> str:
    return f"chunk [{', '.join(map(str, chunk))}]"


def _raise(error: CodecError) -> LoadedChunk:
    raise error
