"""The codec chain of a Zarr v2 array: filters, then the compressor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nczfs.buffers import Buffer, Values
from nczfs.codecs import buffers
from nczfs.codecs.base import Pipeline, TooLong
from nczfs.codecs.bytechain import ByteChain
from nczfs.codecs.codec import Codec, Flat, Order, Size, as_bytes, from_buffer
from nczfs.codecs.turns import Turn
from nczfs.errors import CorruptChunk
from nczfs.model.hierarchy import ArrayDescription


class V2Pipeline(Pipeline):
    """Filters and compressor of a Zarr v2 array.

    Parameters
    ----------
    codecs : with their names, in encoding order.

    Notes
    -----
    The decoded length is known before decoding: every codec predicts its output for the chunk's
    size, so every decoder has a limit, whatever the data claim. Data up to twice as long (64 KiB or
    more, at most 64 MiB more) are accepted and cut to the chunk; without any codec, data of any
    length. Longer ones are a CorruptChunk.
    """

    def __init__(self, array: ArrayDescription, codecs: Sequence[tuple[str, Codec]]) -> None:
        self._shape = array.chunk_shape
        self._count = prod(array.chunk_shape)
        self._chunk_bytes = array.chunk_bytes
        self._stored = array.dtype.stored
        self._native = array.dtype.native
        fortran = array.codecs.order == "F" and len(array.chunk_shape) > 1
        self._order: Order = "F" if fortran else "C"
        self._as_stored = self._order == "C" and self._stored == self._native
        self._turn = Turn(self._native)
        self._chain = ByteChain(codecs, Size.exactly(self._chunk_bytes))

    @property
    def is_cheap(self) -> bool:
        return self._chain.is_cheap

    def decode(self, data: Buffer, too_long: TooLong | None = None) -> Values:
        with self._turn:
            return self._decoded(data, too_long)

    def _decoded(self, data: Buffer, too_long: TooLong | None) -> Values:
        flat = from_buffer(data)
        flat.flags.writeable = False
        flat = self._chain.decode(flat)
        values = self._cut(flat, too_long)
        if self._as_stored:
            return values
        # copyto converts the byte order without the GIL, field by field in structured types.
        target = self._empty()
        np.copyto(target, values)
        return target

    def _empty(self) -> Values:
        if self._native.hasobject:
            return np.empty(self._shape, self._native)
        return buffers.empty(self._chunk_bytes).view(self._native).reshape(self._shape)

    def _cut(self, flat: Flat, too_long: TooLong | None) -> Values:
        """Return the chunk's elements in their shape, as stored; the surplus is ignored."""
        if self._stored.hasobject != flat.dtype.hasobject:
            raise CorruptChunk(f"the data decode to {flat.dtype} instead of {self._stored}")
        if flat.nbytes < self._chunk_bytes:
            raise CorruptChunk(
                f"the data decode to {flat.nbytes} bytes, and a chunk has {self._chunk_bytes}"
            )
        if flat.nbytes > self._chunk_bytes and too_long is not None:
            too_long(
                f"a chunk decodes to {flat.nbytes} bytes instead of {self._chunk_bytes}; "
                "the surplus is ignored"
            )
        if flat.dtype.hasobject:
            elements = flat[: self._count]
        else:
            elements = as_bytes(flat)[: self._chunk_bytes].view(self._stored)
        return elements.reshape(self._shape, order=self._order)

    def encode(self, values: Values) -> bytes:
        assert values.shape == self._shape
        if self._order == "F":
            values = values.T
        flat = np.ascontiguousarray(values, self._stored).reshape(-1)
        return self._chain.encode(flat).tobytes()
