"""Loading and storing single chunks; here an absent object becomes fill."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from math import prod

import numpy as np

from nczfs import metrics
from nczfs.codecs.base import Pipeline, TooLong
from nczfs.codecs.registry import pipeline_of
from nczfs.engine.chunks.loaded import Loaded, Values
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.options import MissingChunks
from nczfs.engine.retrying import Confirmation
from nczfs.engine.weight import weight_of_values
from nczfs.errors import (
    CodecError,
    Conflict,
    CorruptChunk,
    MissingChunk,
    NczfsError,
    NoSuchObject,
    ObjectExists,
)
from nczfs.model.dtypes import VlenKind, ZeroText
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.base import ABSENT, Blob, Buffer, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join
from nczfs.zmap.run import Run

log = logging.getLogger(__name__)

NDIM_MAX = 64  # limit of numpy

# A stored chunk is not expected to be larger than this many times its decoded size: incompressible
# data grow by a few bytes, and netcdf-fortran writes over-long chunks of small variables.
STORED_FACTOR = 4
STORED_SLACK_BYTES = 64 << 20
RUN_CHUNKS = 900  # a listing of all objects of an array with so many takes one request
USUAL_SLACK_BYTES = 1 << 20  # a longer chunk is measured before it is read whole

_EMPTY_OF: dict[VlenKind, object] = {
    VlenKind.TEXT: "",
    VlenKind.BYTES: b"",
    VlenKind.JSON: None,
}


class ChunkIO:
    """A loader and storer of the chunks of one array. It holds no state but its parameters.

    Parameters
    ----------
    place : the place of the array in `zmap`.
    too_long : called for each chunk that decodes to more bytes than it should, with its key; None:
        the log warns of the first one.
    confirm : raises StructureChanged if the store now describes other chunks.
    """

    def __init__(
        self,
        zmap: ZMap,
        place: ArrayPlace,
        array: ArrayDescription,
        missing_chunks: MissingChunks,
        too_long: TooLong | None = None,
        confirm: Confirmation | None = None,
    ) -> None:
        self._zmap = zmap
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

    @cached_property
    def pipeline(self) -> Pipeline:
        """The codecs, looked up when values are first needed. Raises CodecError."""
        if len(self.array.shape) > NDIM_MAX:
            raise CodecError(
                f"{self._place}: {len(self.array.shape)} dimensions: values of arrays with more "
                f"than {NDIM_MAX} cannot be read"
            )
        try:
            return pipeline_of(self.array)
        except NczfsError as error:
            raise type(error)(f"{self._place}: {error}") from error

    def key(self, chunk: ChunkIndex) -> Key:
        return join(self.prefix, self.array.chunk_keys.name(chunk))

    def load(self, chunk: ChunkIndex, known: Loaded | None) -> Loaded:
        """Load the values of a chunk. Returns `known` if the store still holds that version.

        Raises
        ------
        MissingChunk, CorruptChunk, UnknownCodec, StoreError.
        """
        decode = self.fetch(chunk, known)
        return decode()

    def fetch(self, chunk: ChunkIndex, known: Loaded | None) -> Callable[[], Loaded]:
        """Run the half of `load` that waits for the store, and return the half that computes."""
        decode = self._found(chunk, known)
        return decode if decode is not None else lambda: self._absent(chunk)

    def _found(self, chunk: ChunkIndex, known: Loaded | None) -> Callable[[], Loaded] | None:
        """Fetch as `fetch` does; None if the store has no such object."""
        key = self.key(chunk)
        found = self._found_at(key, known)
        while found is None and self.key(chunk) != key:  # the array was renamed meanwhile
            key = self.key(chunk)
            found = self._found_at(key, known)
        return found

    def _found_at(self, key: Key, known: Loaded | None) -> Callable[[], Loaded] | None:
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
            blob = self._zmap.read(key, 0, usual)
            if usual < blob.object_size <= limit:
                blob = self._zmap.read(key, 0, limit + 1)
        except NoSuchObject:
            return None
        if blob.object_size > limit:
            raise CorruptChunk(
                f"{self._zmap.name}/{key}: {blob.object_size} bytes are stored for a chunk of "
                f"{self.array.chunk_bytes}"
            )
        return lambda: self._decode(key, blob, pipeline)

    def resized(self, array: ArrayDescription) -> ChunkIO:
        """Return the same chunks, of an array of another shape."""
        return ChunkIO(
            self._zmap,
            self._at,
            array,
            self._missing_chunks,
            self._too_long,
            self.confirm,
        )

    def newest(self, chunk: ChunkIndex) -> tuple[Values, Version]:
        """Return the values that the store has now, or fill if it has none, and their version.

        `missing_chunks` does not matter here: the unwritten elements of a chunk that is being
        written are fill.
        """
        decode = self._found(chunk, None)
        if decode is None:
            return self._fill(), ABSENT
        loaded = decode()
        assert loaded.version is not None
        return loaded.values, loaded.version

    def stat(self, chunk: ChunkIndex) -> Stat | None:
        """Return the object that the store has of a chunk; None: there is none."""
        try:
            return self._zmap.stat(self.key(chunk))
        except NoSuchObject:
            return None

    def run_from(self, chunk: ChunkIndex) -> Run | None:
        """Return a run of objects with that of a chunk, as `ZMap.run_from`; all if they are few."""
        is_small = prod(self.array.grid.counts) <= RUN_CHUNKS
        return self._zmap.run_from(self.prefix, None if is_small else self.key(chunk))

    def version(self, chunk: ChunkIndex) -> Version:
        """Return the version that the store has of a chunk now; `ABSENT`: it has none."""
        stat = self.stat(chunk)
        return stat.version if stat is not None else ABSENT

    @property
    def is_conditional(self) -> bool:
        """Whether the store itself compares the version that a write replaces."""
        return self._zmap.features.conditional_writes

    @property
    def is_dated(self) -> bool:
        """Whether `stat` gives the time when a chunk was stored."""
        return self._zmap.features.dates_objects

    def store(
        self,
        chunk: ChunkIndex,
        values: Values,
        replaces: Version | None,
        sending: Callable[[Buffer, Version | None], None] | None = None,
        *,
        explicitly: bool = False,
    ) -> Version | None:
        """Encode the values of a whole chunk and put them into the store.

        Parameters
        ----------
        replaces : the only version to replace; `ABSENT`: store only if there is none; None: replace
            any.
        sending : called just before the bytes are sent, with the bytes and `replaces`.
        explicitly : store the chunk even if it is all fill, because an earlier request with other
            values may still arrive.

        Returns
        -------
        the version that the store has now; None if nothing was stored, because the chunk is all
        fill and was never written, which reads the same.

        Raises
        ------
        Conflict : the store has another version. StructureChanged : the store has another array.
        CodecError, StoreError.
        """
        with self._at.gate.inside(lambda: self.prefix):
            self.confirm()
            key = self.key(chunk)
            if not explicitly and self.is_fill(values) and not self._exists(key, replaces):
                return None
            try:
                data = self.pipeline.encode(values)
            except CodecError as error:
                raise type(error)(f"{self._zmap.name}/{key}: {error}") from error
            if sending is not None:
                sending(data, replaces)
            metrics.CHUNKS_STORED.inc()
            try:
                return self._zmap.write(key, data, replaces=replaces)
            except (Conflict, ObjectExists):
                self.confirm.doubt()  # perhaps the chunk is of another array
                raise

    def _exists(self, key: Key, replaces: Version | None) -> bool:
        if replaces is not None:
            return replaces != ABSENT
        try:
            self._zmap.stat(key)
        except NoSuchObject:
            return False
        return True

    def is_fill(self, values: Values) -> bool:
        """Return whether all values are fill, and a missing chunk reads the same."""
        # Without a fill value, what other programs read from a missing chunk is undefined.
        if values.dtype.hasobject or values.size == 0 or self.array.fill_value is None:
            return False
        # Bits, not values: NaN equals no NaN, and -0.0 is not 0.0.
        fill = fill_element(self.array).tobytes()
        if values[(0,) * values.ndim].tobytes() != fill:
            return False
        size = len(fill)
        item = np.dtype(f"u{size}" if size in (1, 2, 4, 8) else (np.void, size))
        items = np.ascontiguousarray(values).reshape(-1).view(item)
        return bool((items == np.frombuffer(fill, item)[0]).all())

    def _fill(self) -> Values:
        # One element, broadcast: a hole in an array of terabytes takes no memory.
        return np.broadcast_to(fill_element(self.array), self.array.chunk_shape)

    def _decode(self, key: Key, blob: Blob, pipeline: Pipeline) -> Loaded:
        place = f"{self._zmap.name}/{key}"
        try:
            values = pipeline.decode(blob.data, lambda wrong: self._too_long(f"{place}: {wrong}"))
        except NczfsError as error:
            raise type(error)(f"{place}: {error}") from error
        assert values.shape == self.array.chunk_shape
        nbytes = weight_of_values(values)
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
        return Loaded(self._fill(), 0, None)


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


def fill_element(array: ArrayDescription) -> Values:
    """Return the fill value as a rank-0 array of the array's native dtype; zeros if undefined."""
    dtype = array.dtype
    if dtype.vlen is not None:
        element = np.empty(1, object)
        fill = array.fill_value
        if dtype.vlen is VlenKind.ARRAY:
            element[0] = np.empty(0, dtype.base)
        elif fill is None or isinstance(fill, ZeroText):
            element[0] = _EMPTY_OF[dtype.vlen]
        else:
            element[0] = fill
        return element.reshape(())
    element = np.zeros((), dtype.native)
    if array.fill_value is not None:
        element[()] = array.fill_value
    return element
