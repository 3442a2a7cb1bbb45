"""The codec chain of a Zarr v3 array."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.buffers import Buffer, Values
from nczfs.codecs.arraycodec import ArraySpec, Context, MakeInstalled, MemoryLimit
from nczfs.codecs.base import Pipeline, TooLong
from nczfs.codecs.codec import from_buffer
from nczfs.codecs.fillelement import fill_element
from nczfs.codecs.turns import Turn
from nczfs.codecs.v3chain import v3_chain
from nczfs.model.hierarchy import ArrayDescription


class V3Pipeline(Pipeline):
    """The codecs of a Zarr v3 array: from array to array, from array to bytes, of bytes.

    Parameters
    ----------
    memory_bytes : that the elements of a chunk may take if they are of variable length.
    installed : codecs of bytes that other packages have, by their names.

    Raises
    ------
    UnknownCodec : a codec or one of its settings is not known, or the codecs are in no legal order.

    Notes
    -----
    As in `V2Pipeline`, every codec predicts the size of its output, so every decoder has a limit;
    data that are somewhat too long are cut to the chunk.
    """

    def __init__(
        self,
        array: ArrayDescription,
        memory_bytes: int,
        installed: Mapping[str, MakeInstalled],
    ) -> None:
        dtype = array.dtype
        self._form = ArraySpec(array.chunk_shape, dtype.native, fill_element(array), dtype.vlen)
        self._memory_bytes = memory_bytes
        context = Context(memory_bytes, v3_chain, installed)
        self._chain = v3_chain(array.codecs.codecs, self._form, context)
        self._turn = Turn(dtype.native)

    @property
    def is_cheap(self) -> bool:
        return self._chain.is_cheap

    def decode(self, data: Buffer, too_long: TooLong | None = None) -> Values:
        with self._turn:
            flat = from_buffer(data)
            flat.flags.writeable = False
            flat = self._chain.to_bytes(flat)
            expected = self._chain.serialized_size.expected
            if too_long is not None and expected is not None and flat.nbytes > expected:
                too_long(
                    f"a chunk decodes to {flat.nbytes} bytes instead of {expected}; "
                    "the surplus is ignored"
                )
            return self._form.plain(self._chain.to_values(flat, MemoryLimit(self._memory_bytes)))

    def encode(self, values: Values) -> bytes:
        assert values.shape == self._form.shape
        return self._chain.encode(values).tobytes()
