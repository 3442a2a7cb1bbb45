"""One chunk between its key and its values; the place where an absent object becomes fill."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import prod

import numpy as np

from nczfs import metrics
from nczfs.codecs.base import Pipeline
from nczfs.codecs.registry import pipeline_of
from nczfs.engine.cache import Loaded, Values
from nczfs.engine.options import MissingChunks
from nczfs.errors import CodecError, CorruptChunk, MissingChunk, NczfsError, NoSuchObject
from nczfs.model.dtypes import VlenKind
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import Blob, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join

NDIM_MAX = 64  # of numpy

# A stored chunk is not expected to be larger than this many times its decoded size: incompressible
# data grow by a few bytes, and netcdf-fortran writes over-long chunks of small variables.
STORED_FACTOR = 4
STORED_SLACK_BYTES = 64 << 20
USUAL_SLACK_BYTES = 1 << 20  # what is longer is told from what is absurd before it is read whole

_EMPTY_OF: dict[VlenKind, object] = {
    VlenKind.TEXT: "",
    VlenKind.BYTES: b"",
    VlenKind.ARRAY: None,
    VlenKind.JSON: None,
}


class ChunkIO:
    """Loads the chunks of one array. Holds no state but what it is made of.

    Parameters
    ----------
    prefix : where the array lies in `zmap`.
    place : of the variable, for messages.
    """

    def __init__(
        self,
        zmap: ZMap,
        prefix: Prefix,
        place: str,
        array: ArrayDescription,
        missing_chunks: MissingChunks,
    ) -> None:
        self._zmap = zmap
        self._prefix = prefix
        self._place = place
        self._array = array
        self._missing_chunks = missing_chunks

    @cached_property
    def pipeline(self) -> Pipeline:
        """The codecs, looked up when values are first wanted. Raises CodecError."""
        if len(self._array.shape) > NDIM_MAX:
            raise CodecError(
                f"{self._place}: {len(self._array.shape)} dimensions: the values of arrays of more "
                f"than {NDIM_MAX} are not read"
            )
        try:
            return pipeline_of(self._array)
        except NczfsError as error:
            raise type(error)(f"{self._place}: {error}") from error

    def key(self, chunk: ChunkIndex) -> Key:
        return join(self._prefix, self._array.chunk_keys.name(chunk))

    def load(self, chunk: ChunkIndex, known: Loaded | None) -> Loaded:
        """The values of a chunk; `known` is given back when the store still holds that version.

        Raises
        ------
        MissingChunk, CorruptChunk, UnknownCodec, StoreError.
        """
        decode = self.fetch(chunk, known)
        return decode()

    def fetch(self, chunk: ChunkIndex, known: Loaded | None) -> Callable[[], Loaded]:
        """The half of `load` that waits for the store; it returns the half that computes."""
        key = self.key(chunk)
        pipeline = self.pipeline
        try:
            if (
                known is not None
                and isinstance(known.version, Version)
                and self._zmap.stat(key).version == known.version
            ):
                return lambda: known
            usual = self._array.chunk_bytes * STORED_FACTOR + USUAL_SLACK_BYTES
            limit = usual + STORED_SLACK_BYTES
            blob = self._zmap.read(key, 0, usual)
            if usual < blob.object_size <= limit:
                blob = self._zmap.read(key, 0, limit + 1)
        except NoSuchObject:
            return lambda: self._absent(chunk)
        if blob.object_size > limit:
            raise CorruptChunk(
                f"{self._zmap.name}/{key}: {blob.object_size} bytes are stored for a chunk of "
                f"{self._array.chunk_bytes}"
            )
        return lambda: self._decode(key, blob, pipeline)

    def _decode(self, key: Key, blob: Blob, pipeline: Pipeline) -> Loaded:
        try:
            values = pipeline.decode(blob.data)
        except NczfsError as error:
            raise type(error)(f"{self._zmap.name}/{key}: {error}") from error
        assert values.shape == self._array.chunk_shape
        nbytes = memory_of(values)
        metrics.CHUNKS_DECODED.inc()
        metrics.CHUNK_BYTES_DECODED.inc(nbytes)
        return Loaded(values, nbytes, blob.version)

    def _absent(self, chunk: ChunkIndex) -> Loaded:
        if self._missing_chunks is MissingChunks.ERROR:
            raise MissingChunk(
                f"{self._zmap.name}/{self.key(chunk)}: chunk was never written "
                "(--missing-chunks=error)"
            )
        metrics.CHUNKS_MISSING.inc()
        # One element, shown everywhere: a hole in an array of terabytes takes no memory.
        values = np.broadcast_to(fill_element(self._array), self._array.chunk_shape)
        return Loaded(values, 0, None)


def fill_element(array: ArrayDescription) -> Values:
    """The fill value as a rank-0 array of the array's native dtype; zeros when undefined."""
    dtype = array.dtype
    if dtype.vlen is not None:
        element = np.empty((), object)
        element[()] = _EMPTY_OF[dtype.vlen] if array.fill_value is None else array.fill_value
        return element
    element = np.zeros((), dtype.native)
    if array.fill_value is not None:
        element[()] = array.fill_value
    return element


def memory_of(values: Values) -> int:
    """Bytes that an array of values keeps in memory."""
    if values.dtype.hasobject:
        # An estimate is enough for a budget: the objects of an evenly spread sample.
        count = prod(values.shape)
        sample = values.reshape(-1)[:: max(1, count // 256)]
        each = sum(_size_of(value) for value in sample) // max(1, len(sample))
        return count * (each + 8)
    return values.nbytes


def _size_of(value: object) -> int:
    if isinstance(value, str | bytes):
        return 60 + len(value)
    return 200
