"""Units that are objects of a store: what chunks alone and chunks in shards have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Self

from nczfs import metrics
from nczfs.buffers import Buffer, Values
from nczfs.codecs.base import MEMORY_BYTES, Pipeline, TooLong
from nczfs.codecs.pipelines import pipeline_of
from nczfs.engine.chunks.base import NDIM_MAX, ChunkStore, UnitIndex
from nczfs.engine.chunks.fill import fill_chunk
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.options import MissingChunks
from nczfs.engine.retrying import Confirmation
from nczfs.engine.weight import weight_of_values
from nczfs.errors import CodecError, CorruptChunk, MissingChunk, NczfsError, NoSuchObject
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import ABSENT, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join
from nczfs.zmap.run import ListedRange

log = logging.getLogger(__name__)

# A stored chunk is not expected to be larger than this many times its decoded size: incompressible
# data grow by a few bytes, and netcdf-fortran writes over-long chunks of small variables.
# The length of a chunk of variable-length elements follows from nothing but the budget.
STORED_FACTOR = 4
STORED_SLACK_BYTES = 64 << 20
RUN_UNITS = 900  # a listing of all objects of an array with so many takes one request
PIPELINES_MAX = 64  # of chunks of different shapes
USUAL_SLACK_BYTES = 1 << 20  # a longer chunk is measured before it is read whole


class UnitIO(ChunkStore):
    """Units that are objects of a store. Immutable.

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
        return self._at.identity

    @property
    def _place(self) -> str:
        """The place of the variable, for messages."""
        return "/".join(part for part in (self._zmap.name, self.prefix) if part)

    @property
    def is_cheap(self) -> bool:
        return self._pipeline.is_cheap

    @property
    def listed(self) -> ChunkStore | None:
        is_far = not self._zmap.features.near
        return self if is_far and self._missing_chunks is MissingChunks.FILL else None

    def require(self) -> None:
        _ = self._pipeline

    def pipeline(self, chunk: ChunkIndex) -> Pipeline:
        shape = self.array.grid.extent(chunk)
        return self._pipeline if shape == self.array.chunk_shape else self._pipeline_of(shape)

    @cached_property
    def _pipeline_of(self) -> Callable[[tuple[int, ...]], Pipeline]:
        """Returns the codecs of the chunks of a shape."""

        def made(shape: tuple[int, ...]) -> Pipeline:
            return pipeline_of(replace(self.array, chunk_shape=shape, cuts=()), self._memory_bytes)

        return lru_cache(PIPELINES_MAX)(made)

    @cached_property
    def _pipeline(self) -> Pipeline:
        """The codecs of the largest chunk, looked up when values are first needed."""
        if len(self.array.shape) > NDIM_MAX:
            raise CodecError(
                f"{self._place}: {len(self.array.shape)} dimensions: values of arrays with more "
                f"than {NDIM_MAX} cannot be read"
            )
        try:
            return pipeline_of(self.array, self._memory_bytes)
        except NczfsError as error:
            raise type(error)(f"{self._place}: {error}") from error

    def resized(self, array: ArrayDescription) -> Self:
        return self._with(array=array)  # and the same codecs

    def reporting(self, too_long: TooLong) -> Self:
        return self._with(
            _missing_chunks=MissingChunks.FILL,
            _too_long=too_long,
            confirm=Confirmation(_no_question),
        )

    def key(self, unit: UnitIndex) -> Key:
        return join(self._at.prefix, self.array.chunk_keys.name(unit))

    def stat(self, unit: UnitIndex) -> Stat | None:
        try:
            return self._zmap.stat(self.key(unit))
        except NoSuchObject:
            return None

    def delete(self, is_wanted: Callable[[UnitIndex], bool]) -> None:
        prefix = self._at.prefix
        start = f"{prefix}/" if prefix else ""
        gone: list[Key] = []
        for stat in self._zmap.list(prefix):
            unit = self.array.unit_index(stat.key.removeprefix(start))
            if unit is not None and is_wanted(unit):
                gone.append(stat.key)
        self._zmap.delete_many(gone)

    def run_from(self, unit: UnitIndex) -> ListedRange | None:
        is_small = prod(self.array.units.counts) <= RUN_UNITS
        return self._zmap.run_from(self._at.prefix, None if is_small else self.key(unit))

    def version(self, unit: UnitIndex) -> Version:
        stat = self.stat(unit)
        return stat.version if stat is not None else ABSENT

    @property
    def is_conditional(self) -> bool:
        return self._zmap.features.conditional_writes

    @property
    def is_dated(self) -> bool:
        return self._zmap.features.dates_objects

    def _with(self, **changes: Any) -> Self:
        """Return the same units with other attributes."""
        other = copy(self)
        vars(other).update(changes)
        return other

    def _is_absent(self, unit: UnitIndex, replaces: Version | None) -> bool:
        """Return whether a write that replaces a version makes a new object."""
        return (self.version(unit) if replaces is None else replaces) == ABSENT

    @property
    def _usual_bytes(self) -> int:
        """A length that few stored chunks exceed."""
        return self.array.chunk_bytes * STORED_FACTOR + USUAL_SLACK_BYTES

    @property
    def _bytes_max(self) -> int:
        """The most bytes that a stored chunk may have."""
        if self.array.dtype.vlen is not None:
            return max(self._usual_bytes, self._memory_bytes)
        return self._usual_bytes + STORED_SLACK_BYTES

    def _too_large(self, place: str, nbytes: int) -> CodecError:
        """Return the error for a stored chunk with too many bytes."""
        if self.array.dtype.vlen is not None:
            return CodecError(
                f"{place}: {nbytes} bytes are stored for a chunk of variable length, more than the "
                f"limit of {self._bytes_max} (--memory-limit)"
            )
        return CorruptChunk(
            f"{place}: {nbytes} bytes are stored for a chunk of {self.array.chunk_bytes}"
        )

    def _encode(self, place: str, chunk: ChunkIndex, values: Values) -> bytes:
        try:
            return self.pipeline(chunk).encode(values)
        except CodecError as error:
            raise type(error)(f"{place}: {error}") from error

    def _decode(
        self, place: Callable[[], str], chunk: ChunkIndex, data: Buffer, version: Version
    ) -> LoadedChunk:
        """Decode a chunk.

        Parameters
        ----------
        place : gives the place of the chunk, for messages.
        """
        pipeline = self.pipeline(chunk)
        try:
            values = pipeline.decode(data, lambda wrong: self._too_long(f"{place()}: {wrong}"))
        except NczfsError as error:
            raise type(error)(f"{place()}: {error}") from error
        assert values.shape == self.array.grid.extent(chunk)
        nbytes = weight_of_values(values)
        metrics.CHUNKS_DECODED.inc()
        metrics.CHUNK_BYTES_DECODED.inc(nbytes)
        return LoadedChunk(values, nbytes, version)

    def _missing(
        self, place: Callable[[], str], chunk: ChunkIndex, version: Version | None
    ) -> LoadedChunk:
        """Return a chunk that was never written.

        Parameters
        ----------
        place : gives the place of the chunk, for messages.
        version : of the object that lacks it; None: there is no object.
        """
        if self._missing_chunks is MissingChunks.ERROR:
            raise MissingChunk(f"{place()}: chunk was never written (--missing-chunks=error)")
        metrics.CHUNKS_MISSING.inc()
        return LoadedChunk(fill_chunk(self.array, chunk), 0, version)


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
