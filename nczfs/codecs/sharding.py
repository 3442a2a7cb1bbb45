"""The codec ``sharding_indexed`` for shards that are decoded as a whole.

It is a codec of the chain where chunks of the shard cannot be read one by one: behind a
compressor, or behind a codec that moves elements.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.arraycodec import ArraySpec, Context, MemoryLimit, Serializer, StrictSettings
from nczfs.codecs.buffers import Scratch
from nczfs.codecs.codec import Flat, Size, as_bytes, from_buffer
from nczfs.codecs.fillelement import is_all
from nczfs.codecs.shardindex import are_missing, in_a_row, index_codec, place_of
from nczfs.codecs.specs import specs_in
from nczfs.errors import CorruptChunk
from nczfs.messages import shown

LEVELS_MAX = 8  # of shards within shards
CHUNKS_MAX = 1 << 16  # decoded one by one, 5 us each or more; entries may all share a few bytes

_SPARE_BYTES = 64 << 10
_SPARE_BYTES_OF_CHUNK = 256  # headers and checksums


class Sharding(Serializer):
    """Chunks in a row, and an index of where each one is.

    Notes
    -----
    Zarr v3, codec ``sharding_indexed``, version 1.0.
    """

    is_cheap = False

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("chunk_shape", "codecs", "index_codecs", "index_location")
        self._form = form
        self._chunk = form.of_shape(_chunk_shape(settings, form.shape))
        self._counts = tuple(
            whole // part for whole, part in zip(form.shape, self._chunk.shape, strict=True)
        )
        count = prod(self._counts)
        within = replace(context, levels=context.levels + 1, chunks=context.chunks * max(1, count))
        if within.levels > LEVELS_MAX:
            raise settings.refused(f"shards within shards more than {LEVELS_MAX} times")
        if within.chunks > CHUNKS_MAX:
            raise settings.refused(
                f"{shown(within.chunks)} chunks of a shard that can only be read as a whole "
                f"(max {CHUNKS_MAX})"
            )
        self._inner = context.chain(specs_in(settings, "codecs"), self._chunk, within)
        self._index = index_codec(specs_in(settings, "index_codecs"), count)
        self._is_at_end = settings.one_of("index_location", ("start", "end"), "end") == "end"
        limit = context.memory_bytes if form.dtype.hasobject else 2 * form.nbytes
        self.size = Size(
            None, limit + self._index.nbytes + _SPARE_BYTES_OF_CHUNK * count + _SPARE_BYTES
        )

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        data = as_bytes(data)
        length = self._index.nbytes
        if data.nbytes < length:
            raise CorruptChunk(
                f"the shard has {data.nbytes} bytes, and its index alone has {length}"
            )
        stored = data[-length:] if self._is_at_end else data[:length]
        places = self._index.decode(stored.data)
        target = self._form.empty()
        missing = are_missing(places)
        if missing.any():
            target[...] = self._form.fill
        chunks = self._chunks(target)
        scratch = Scratch()
        for number, index in enumerate(np.ndindex(self._counts)):
            if missing[number]:
                continue
            place = place_of(places, number, data.nbytes)
            assert place is not None
            with scratch.reused():
                try:
                    chunk = self._inner.decode(data[place[0] : place[1]], room)
                except CorruptChunk as error:
                    raise CorruptChunk(f"chunk {shown(list(index))}: {error}") from error
                np.copyto(chunks[(*index, ...)], chunk)
        return target

    def _chunks(self, values: Values) -> Values:
        """Return a view of shape (chunks along each dimension, elements along each dimension)."""
        sides = zip(self._counts, self._chunk.shape, strict=True)
        ndim = len(self._counts)
        split = values.reshape([length for side in sides for length in side])
        return split.transpose([*range(0, 2 * ndim, 2), *range(1, 2 * ndim, 2)])

    def encode(self, values: Values) -> Flat:
        chunks = self._chunks(np.ascontiguousarray(values).reshape(self._form.shape))
        pieces: list[Flat] = []
        lengths: list[int | None] = []
        for index in np.ndindex(self._counts):
            chunk = chunks[(*index, ...)]
            if _is_fill(chunk, self._form):
                lengths.append(None)
            else:
                pieces.append(as_bytes(self._inner.encode(chunk)))
                lengths.append(pieces[-1].nbytes)
        start = 0 if self._is_at_end else self._index.nbytes
        index_bytes = from_buffer(self._index.encode(in_a_row(lengths, start)))
        return np.concatenate([*pieces, index_bytes] if self._is_at_end else [index_bytes, *pieces])


def _chunk_shape(settings: StrictSettings, shape: tuple[int, ...]) -> tuple[int, ...]:
    value = settings.members.get("chunk_shape")
    is_shape = (
        isinstance(value, list)
        and len(value) == len(shape)
        and all(type(length) is int and length > 0 for length in value)
    )
    if not isinstance(value, list) or not is_shape:
        raise settings.refused(f"chunk_shape is {shown(value)}, and a shard has {len(shape)} sides")
    lengths = tuple(length for length in value if isinstance(length, int))
    if any(whole % part for whole, part in zip(shape, lengths, strict=True)):
        raise settings.refused(
            f"chunk_shape {shown(value)} does not divide the shard's {shown(list(shape))}"
        )
    return lengths


def _is_fill(chunk: Values, form: ArraySpec) -> bool:
    if form.dtype.hasobject:
        fill = form.fill[()]
        return all(value == fill for value in chunk.flat)
    return is_all(chunk, form.fill)
