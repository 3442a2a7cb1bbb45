"""Chunks that are objects of their own; here an absent object becomes fill."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from math import prod

from nczfs import metrics
from nczfs.codecs.base import Pipeline, TooLong
from nczfs.codecs.registry import MEMORY_BYTES, pipeline_of
from nczfs.engine.chunks.base import NDIM_MAX, ChunkStore, Fetched, Sending, UnitIndex
from nczfs.engine.chunks.fill import fill_chunk, is_fill
from nczfs.engine.chunks.loaded import LoadedChunk, Values
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.options import MissingChunks
from nczfs.engine.retrying import LOOKED_S, Confirmation
from nczfs.engine.weight import weight_of_values
from nczfs.errors import (
    CodecError,
    Conflict,
    CorruptChunk,
    MissingChunk,
    NczfsError,
    NoSuchObject,
    ObjectExists,
    StructureChanged,
)
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import ABSENT, Blob, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join
from nczfs.zmap.run import Run

log = logging.getLogger(__name__)

# A stored chunk is not expected to be larger than this many times its decoded size: incompressible
# data grow by a few bytes, and netcdf-fortran writes over-long chunks of small variables.
# The length of a chunk of variable-length elements follows from nothing but the budget.
STORED_FACTOR = 4
STORED_SLACK_BYTES = 64 << 20
RUN_CHUNKS = 900  # a listing of all objects of an array with so many takes one request
USUAL_SLACK_BYTES = 1 << 20  # a longer chunk is measured before it is read whole


class ChunkIO(ChunkStore):
    """Chunks of which each one is an object. It holds no state but its parameters.

    Parameters
    ----------
    place : the place of the array in `zmap`.
    too_long : called for each chunk that decodes to more bytes than it should, with its key; None:
        the log warns of the first one.
    confirm : raises StructureChanged if the store now describes other chunks.
    memory_bytes : that the elements of a chunk may take if they are of variable length.
    """

    def __init__(
        self,
        zmap: ZMap,
        place: ArrayPlace,
        array: ArrayDescription,
        missing_chunks: MissingChunks,
        too_long: TooLong | None = None,
        confirm: Confirmation | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._zmap = zmap
        self._memory_bytes = memory_bytes
        self._at = place
        self.array = array
        self._missing_chunks = missing_chunks
        self._too_long = too_long or _OneWarning()
        self.confirm = confirm or Confirmation(_no_question)

    @property
    def prefix(self) -> Prefix:
        """The current prefix of the array."""
        return self._at.prefix

    @property
    def _place(self) -> str:
        """The place of the variable, for messages."""
        return "/".join(part for part in (self._zmap.name, self.prefix) if part)

    @property
    def is_cheap(self) -> bool:
        return self.pipeline.is_cheap

    def require(self) -> None:
        _ = self.pipeline

    @cached_property
    def pipeline(self) -> Pipeline:
        """The codecs, looked up when values are first needed. Raises CodecError."""
        if len(self.array.shape) > NDIM_MAX:
            raise CodecError(
                f"{self._place}: {len(self.array.shape)} dimensions: values of arrays with more "
                f"than {NDIM_MAX} cannot be read"
            )
        try:
            return pipeline_of(self.array, self._memory_bytes)
        except NczfsError as error:
            raise type(error)(f"{self._place}: {error}") from error

    def key(self, unit: UnitIndex) -> Key:
        return join(self.prefix, self.array.chunk_keys.name(unit))

    def fetch(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched:
        decode = self._found(chunk, known)
        return decode if decode is not None else lambda: self._absent(chunk)

    def _found(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched | None:
        """Fetch as `fetch` does; None if the store has no such object."""
        key = self.key(chunk)
        found = self._found_at(key, known)
        while found is None and self.key(chunk) != key:  # the array was renamed meanwhile
            key = self.key(chunk)
            found = self._found_at(key, known)
        return found

    def _found_at(self, key: Key, known: LoadedChunk | None) -> Fetched | None:
        pipeline = self.pipeline
        try:
            if (
                known is not None
                and known.version is not None
                and self._zmap.stat(key).version == known.version
            ):
                return lambda: known
            usual = self.array.chunk_bytes * STORED_FACTOR + USUAL_SLACK_BYTES
            limit = usual + STORED_SLACK_BYTES
            if self.array.dtype.vlen is not None:
                limit = max(usual, self._memory_bytes)
            blob = self._zmap.read(key, 0, usual)
            if usual < blob.object_size <= limit:
                blob = self._zmap.read(key, 0, limit + 1)
        except NoSuchObject:
            return None
        if blob.object_size > limit and self.array.dtype.vlen is not None:
            raise CodecError(
                f"{self._zmap.name}/{key}: {blob.object_size} bytes are stored for a chunk of "
                f"variable length, more than the limit of {limit} (--memory-limit)"
            )
        if blob.object_size > limit:
            raise CorruptChunk(
                f"{self._zmap.name}/{key}: {blob.object_size} bytes are stored for a chunk of "
                f"{self.array.chunk_bytes}"
            )
        return lambda: self._decode(key, blob, pipeline)

    def resized(self, array: ArrayDescription) -> ChunkIO:
        return ChunkIO(
            self._zmap,
            self._at,
            array,
            self._missing_chunks,
            self._too_long,
            self.confirm,
            self._memory_bytes,
        )

    def reporting(self, too_long: TooLong) -> ChunkIO:
        return ChunkIO(
            self._zmap,
            self._at,
            self.array,
            MissingChunks.FILL,
            too_long,
            memory_bytes=self._memory_bytes,
        )

    def newest(
        self, unit: UnitIndex, chunks: Collection[ChunkIndex]
    ) -> tuple[Mapping[ChunkIndex, Values], Version]:
        decode = self._found(unit, None)
        if decode is None:
            return dict.fromkeys(chunks, fill_chunk(self.array)), ABSENT
        loaded = decode()
        assert loaded.version is not None
        return dict.fromkeys(chunks, loaded.values), loaded.version

    def stat(self, unit: UnitIndex) -> Stat | None:
        try:
            return self._zmap.stat(self.key(unit))
        except NoSuchObject:
            return None

    def run_from(self, unit: UnitIndex) -> Run | None:
        is_small = prod(self.array.grid.counts) <= RUN_CHUNKS
        return self._zmap.run_from(self.prefix, None if is_small else self.key(unit))

    def version(self, unit: UnitIndex) -> Version:
        stat = self.stat(unit)
        return stat.version if stat is not None else ABSENT

    @property
    def is_conditional(self) -> bool:
        return self._zmap.features.conditional_writes

    @property
    def is_dated(self) -> bool:
        return self._zmap.features.dates_objects

    def store(
        self,
        unit: UnitIndex,
        values: Mapping[ChunkIndex, Values],
        replaces: Version | None,
        sending: Sending | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        with self._at.gate.inside(lambda: self.prefix):
            self.confirm()
            self.confirm.look(LOOKED_S)
            key, chunk = self.key(unit), values[unit]
            if not explicitly and is_fill(self.array, chunk) and not self._exists(key, replaces):
                return None
            try:
                data = self.pipeline.encode(chunk)
            except CodecError as error:
                raise type(error)(f"{self._zmap.name}/{key}: {error}") from error
            if sending is not None:
                sending(data, replaces)
            metrics.CHUNKS_STORED.inc()
            try:
                version = self._zmap.write(key, data, replaces=replaces)
            except (Conflict, ObjectExists):
                self.confirm.doubt()  # perhaps the chunk is of another array
                raise
            try:
                self.confirm.look()
            except StructureChanged:
                if replaces == ABSENT:  # it would be a chunk of what is there now
                    with contextlib.suppress(NczfsError):
                        self._zmap.delete(key, version=version)
                raise
            return version

    def delete(self, is_wanted: Callable[[ChunkIndex], bool]) -> Collection[ChunkIndex]:
        start = f"{self.prefix}/" if self.prefix else ""
        gone: dict[Key, ChunkIndex] = {}
        for stat in self._zmap.list(self.prefix):
            index = self.array.chunk_index(stat.key.removeprefix(start))
            if index is not None and is_wanted(index):
                gone[stat.key] = index
        self._zmap.delete_many(gone)
        return gone.values()

    def _exists(self, key: Key, replaces: Version | None) -> bool:
        if replaces is not None:
            return replaces != ABSENT
        try:
            self._zmap.stat(key)
        except NoSuchObject:
            return False
        return True

    def _decode(self, key: Key, blob: Blob, pipeline: Pipeline) -> LoadedChunk:
        place = f"{self._zmap.name}/{key}"
        try:
            values = pipeline.decode(blob.data, lambda wrong: self._too_long(f"{place}: {wrong}"))
        except NczfsError as error:
            raise type(error)(f"{place}: {error}") from error
        assert values.shape == self.array.chunk_shape
        nbytes = weight_of_values(values)
        metrics.CHUNKS_DECODED.inc()
        metrics.CHUNK_BYTES_DECODED.inc(nbytes)
        return LoadedChunk(values, nbytes, blob.version)

    def _absent(self, chunk: ChunkIndex) -> LoadedChunk:
        if self._missing_chunks is MissingChunks.ERROR:
            raise MissingChunk(
                f"{self._zmap.name}/{self.key(chunk)}: chunk was never written "
                "(--missing-chunks=error)"
            )
        metrics.CHUNKS_MISSING.inc()
        return LoadedChunk(fill_chunk(self.array), 0, None)


def _no_question() -> None:
    return


class _OneWarning:
    """A receiver of messages that logs the first as a warning, and no other."""

    def __init__(self) -> None:
        self._is_given = False

    def __call__(self, message: str) -> None:
        if not self._is_given:
            self._is_given = True
            log.warning("%s (logged once for each array)", message)
