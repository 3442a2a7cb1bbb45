"""A source of chunks of which two or more share an object, which ends with an index of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod

import pytest

from nczfs.buffers import Buffer, Values
from nczfs.codecs.base import Pipeline, TooLong
from nczfs.codecs.pipelines import pipeline_of
from nczfs.engine.chunks.base import ChunkStore, Fetched, Sending, UnitIndex
from nczfs.engine.chunks.fill import fill_chunk, is_fill
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.options import EngineOptions, MissingChunks
from nczfs.engine.retrying import LOOKED_S, Confirmation
from nczfs.engine.weight import weight_of_values
from nczfs.errors import Conflict, NoSuchObject, ObjectExists
from nczfs.model.grid import ChunkGrid, ChunkIndex, RegularGrid
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import ABSENT, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join
from nczfs.zmap.run import ListedRange


def _index_of(count: int) -> struct.Struct:
    """The layout of an index: start and stop of each chunk; of a missing one -1, -1."""
    return struct.Struct(f"<{2 * count}q")


@dataclass(frozen=True, slots=True)
class Index:
    """Where the chunks of an object are, in a version of it."""

    version: Version
    places: tuple[tuple[int, int], ...]


class PairedChunks(ChunkStore):
    """Chunks of which neighbours share an object: two along the first dimension.

    Parameters
    ----------
    counts : other numbers of neighbours along the first dimensions.
    indexes : those that were read, by unit.
    """

    def __init__(
        self,
        zmap: ZMap,
        place: ArrayPlace,
        array: ArrayDescription,
        missing_chunks: MissingChunks = MissingChunks.FILL,
        confirm: Confirmation | None = None,
        indexes: dict[UnitIndex, Index] | None = None,
        counts: Sequence[int] = (2,),
    ) -> None:
        rank = len(array.shape)
        self._given = counts
        self._counts = (*counts, *(1 for _ in range(rank)))[:rank]
        self._zmap = zmap
        self._at = place
        self.array = array
        self.confirm = confirm or Confirmation(lambda: None)
        self._indexes = {} if indexes is None else indexes

    is_grouped = True

    @property
    def is_cheap(self) -> bool:
        return False

    def require(self) -> None:
        return

    def pipeline(self, chunk: ChunkIndex) -> Pipeline:
        return pipeline_of(self.array)

    @property
    def prefix(self) -> Prefix:
        return self._at.prefix

    @property
    def units(self) -> ChunkGrid:
        lengths = zip(self._counts, self.array.chunk_shape, strict=True)
        return RegularGrid(self.array.shape, tuple(n * c for n, c in lengths))

    def unit(self, chunk: ChunkIndex) -> UnitIndex:
        return tuple(i // n for i, n in zip(chunk, self._counts, strict=True))

    def members(self, unit: UnitIndex) -> Iterable[ChunkIndex]:
        ranges = [range(u * n, u * n + n) for u, n in zip(unit, self._counts, strict=True)]
        return [chunk for chunk in product(*ranges) if chunk in self.array.grid]

    def _slot(self, chunk: ChunkIndex) -> int:
        """The number of a chunk in its unit."""
        slot = 0
        for i, n in zip(chunk, self._counts, strict=True):
            slot = slot * n + i % n
        return slot

    def key(self, unit: UnitIndex) -> Key:
        return join(self.prefix, self.array.chunk_keys.name(unit))

    def fetch(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched:
        return self.fetch_several([(chunk, known)])[0]

    def fetch_several(
        self, wanted: Sequence[tuple[ChunkIndex, LoadedChunk | None]]
    ) -> Sequence[Fetched]:
        unit = self.unit(wanted[0][0])
        while True:
            try:
                index = self._indexes.get(unit) or self._read_index(unit)
                found = self._read(unit, [chunk for chunk, _ in wanted], index)
            except Conflict:
                self._indexes.pop(unit, None)
                continue
            except NoSuchObject:
                self._indexes.pop(unit, None)
                return [partial(self._absent, chunk) for chunk, _ in wanted]
            chunks = [chunk for chunk, _ in wanted]
            return [
                self._half(chunk, data, index.version)
                for chunk, data in zip(chunks, found, strict=True)
            ]

    def resized(self, array: ArrayDescription) -> PairedChunks:
        return PairedChunks(
            self._zmap,
            self._at,
            array,
            confirm=self.confirm,
            indexes=self._indexes,
            counts=self._given,
        )

    def reporting(self, too_long: TooLong) -> PairedChunks:
        return self

    @property
    def is_conditional(self) -> bool:
        return self._zmap.features.conditional_writes

    @property
    def is_dated(self) -> bool:
        return self._zmap.features.dates_objects

    def stat(self, unit: UnitIndex) -> Stat | None:
        try:
            return self._zmap.stat(self.key(unit))
        except NoSuchObject:
            return None

    def version(self, unit: UnitIndex) -> Version:
        stat = self.stat(unit)
        return ABSENT if stat is None else stat.version

    def run_from(self, unit: UnitIndex) -> ListedRange | None:
        return self._zmap.run_from(self.prefix, None)

    def newest(
        self, unit: UnitIndex, chunks: Collection[ChunkIndex]
    ) -> tuple[Mapping[ChunkIndex, Values], Version]:
        while True:
            try:
                index = self._read_index(unit)
                found = self._read(unit, list(chunks), index)
            except NoSuchObject:
                return {chunk: fill_chunk(self.array, chunk) for chunk in chunks}, ABSENT
            except Conflict:
                continue
            halves = [
                (c, self._half(c, d, index.version)) for c, d in zip(chunks, found, strict=True)
            ]
            return {chunk: half().values for chunk, half in halves}, index.version

    def store(
        self,
        unit: UnitIndex,
        values: Mapping[ChunkIndex, Values],
        replaces: Version | None,
        sending: Sending | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        members = list(self.members(unit))
        assert set(values) <= set(members)
        with self._at.gate.inside(lambda: self.prefix):
            self.confirm()
            self.confirm.look(LOOKED_S)
            parts = {
                chunk: b"" if is_fill(self.array, each) else self.pipeline(chunk).encode(each)
                for chunk, each in values.items()
            }
            others = [chunk for chunk in members if chunk not in values]
            assert replaces is not None or not others
            if others and replaces is not None and replaces != ABSENT:
                try:
                    index = self._read_index(unit, replaces)
                    found = map(bytes, self._read(unit, others, index))
                    parts |= zip(others, found, strict=True)
                except NoSuchObject as error:
                    raise Conflict(f"{self.key(unit)}: is gone") from error
            if not (any(parts.values()) or explicitly) and self._is_absent(unit, replaces):
                return None
            slots = [b""] * prod(self._counts)
            for chunk, part in parts.items():
                slots[self._slot(chunk)] = bytes(part)
            data = _packed(slots)
            if sending is not None:
                sending([data], replaces)
            try:
                version = self._zmap.write(self.key(unit), data, replaces=replaces)
            except (Conflict, ObjectExists):
                self.confirm.doubt()
                raise
            self.confirm.look()
            return version

    def delete(self, is_wanted: Callable[[UnitIndex], bool]) -> None:
        raise NotImplementedError

    def _is_absent(self, unit: UnitIndex, replaces: Version | None) -> bool:
        return (self.version(unit) if replaces is None else replaces) == ABSENT

    def _read_index(self, unit: UnitIndex, version: Version | None = None) -> Index:
        layout = _index_of(prod(self._counts))
        blob = self._zmap.read(self.key(unit), -layout.size, version=version)
        bounds = layout.unpack(blob.data)
        places = tuple(zip(bounds[::2], bounds[1::2], strict=True))
        index = self._indexes[unit] = Index(blob.version, places)
        return index

    def _read(self, unit: UnitIndex, chunks: list[ChunkIndex], index: Index) -> list[Buffer]:
        """Return the bytes of chunks, by one request; those that are missing have none."""
        places = [index.places[self._slot(chunk)] for chunk in chunks]
        there = [place for place in places if place[0] >= 0]
        if not there:
            stat = self._zmap.stat(self.key(unit))
            if stat.version != index.version:
                raise Conflict(f"{self.key(unit)}: has another version")
            return [b"" for _ in chunks]
        found = iter(self._zmap.read_ranges(self.key(unit), there, version=index.version))
        return [next(found) if place[0] >= 0 else b"" for place in places]

    def _absent(self, chunk: ChunkIndex) -> LoadedChunk:
        return LoadedChunk(fill_chunk(self.array, chunk), 0, None)

    def _half(self, chunk: ChunkIndex, data: Buffer, version: Version) -> Fetched:
        def decode() -> LoadedChunk:
            if not len(data):
                return LoadedChunk(fill_chunk(self.array, chunk), 0, version)
            values = self.pipeline(chunk).decode(data)
            return LoadedChunk(values, weight_of_values(values), version)

        return decode


def _packed(parts: list[bytes]) -> bytes:
    places, at = [-1] * (2 * len(parts)), 0
    for slot, part in enumerate(parts):
        if part:
            places[2 * slot : 2 * slot + 2] = at, at + len(part)
            at += len(part)
    return b"".join(parts) + _index_of(len(parts)).pack(*places)


@contextmanager
def all_paired(counts: Sequence[int] = (2,)) -> Iterator[None]:
    """Let the chunks of all arrays that are opened share objects.

    Parameters
    ----------
    counts : how many chunks of an object are neighbours along the first dimensions.
    """

    def source_of(
        zmap: ZMap,
        place: ArrayPlace,
        array: ArrayDescription,
        options: EngineOptions,
        confirm: Confirmation,
        *_: object,
    ) -> ChunkStore:
        """As `nczfs.engine.chunks.sources.source_of`."""
        return PairedChunks(zmap, place, array, options.missing_chunks, confirm, counts=counts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nczfs.engine.dataset.source_of", source_of)
        yield
