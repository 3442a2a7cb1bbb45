"""The codec pcodec, for which another package is needed: of Zarr v3, and of v2."""

from __future__ import annotations

from typing import Any

import numcodecs  # noqa: F401 - before its modules; see registry.py
import numpy as np
from numcodecs.errors import UnknownCodecError
from numcodecs.registry import get_codec

from nczfs.buffers import Values
from nczfs.codecs import buffers
from nczfs.codecs.arraycodec import ArraySpec, Context, MemoryLimit, Serializer, StrictSettings
from nczfs.codecs.codec import Codec, CodecSettings, Flat, Size, as_memory, from_buffer
from nczfs.errors import CorruptChunk, UnknownCodec
from nczfs.messages import reason

REMEDIES = {
    "pcodec": "pip install 'nczfs[pcodec]'",
    # numcodecs cannot be imported beside zfpy 1.0.1.post0.
    "zfpy": "pip install zfpy==1.0.1",
}
"""What installs codecs that numcodecs has only with another package, by their names there."""

_DTYPES = ("u2", "u4", "u8", "i2", "i4", "i8", "f2", "f4", "f8")
_SETTINGS = (
    "level",
    "mode_spec",
    "delta_spec",
    "paging_spec",
    "delta_encoding_order",
    "equal_pages_up_to",
)


class PCodec(Serializer):
    """Numbers compressed by pcodec."""

    is_cheap = False

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known(*_SETTINGS)
        if form.dtype.str[1:] not in _DTYPES:
            raise settings.refused(f"it is for numbers of 2 to 8 bytes, not {form.dtype.name}")
        try:
            self._codec, self._decode_into = _found(settings)
        except (ImportError, UnknownCodecError) as error:
            raise settings.refused(f"it is not installed: {REMEDIES['pcodec']}") from error
        self._form = form
        self.size = Size.exactly(form.nbytes).compressed()

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        values = self._form.empty()
        found = self._decode_into(bytes(as_memory(data)), values.reshape(-1)).n_processed
        if found < self._form.count:
            raise CorruptChunk(f"the data have {found} values, and a chunk has {self._form.count}")
        return values

    def encode(self, values: Values) -> Flat:
        flat = np.ascontiguousarray(values, self._form.dtype).reshape(-1)
        return from_buffer(self._codec.encode(flat))


class FlatPCodec(Codec):
    """Numbers compressed by pcodec, whose type the data tell (Zarr v2)."""

    def __init__(self, settings: CodecSettings) -> None:
        try:
            self._codec, self._decode_into = _found(settings)
        except (ImportError, UnknownCodecError) as error:
            raise UnknownCodec(f"codec 'pcodec' is not installed: {REMEDIES['pcodec']}") from error

    def encoded_size(self, size: Size) -> Size:
        return size.compressed()

    def decode(self, data: Flat, size: Size) -> Flat:
        room = buffers.empty(size.limit)
        encoded = bytes(as_memory(data))
        errors: list[Exception] = []
        for name in _DTYPES:
            dtype = np.dtype(name)
            values = room[: size.limit // dtype.itemsize * dtype.itemsize].view(dtype)
            try:
                found = self._decode_into(encoded, values)
            except RuntimeError as error:  # perhaps only the type is another one
                errors.append(error)
                continue
            if not found.finished:
                raise CorruptChunk(f"the data decompress to more than {size.limit} bytes")
            return values[: found.n_processed]
        raise CorruptChunk(reason(errors[0]))

    def encode(self, data: Flat) -> Flat:
        return from_buffer(self._codec.encode(data))


def _found(settings: CodecSettings) -> tuple[Any, Any]:
    """Return the codec of numcodecs, and what decodes into memory that is there."""
    from pcodec import standalone

    codec = get_codec({**settings.members, "id": "pcodec"})
    return codec, standalone.simple_decompress_into
