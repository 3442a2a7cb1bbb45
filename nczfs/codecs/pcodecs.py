"""The codec from array to bytes ``numcodecs.pcodec``, for which another package is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.errors import UnknownCodecError
from numcodecs.registry import get_codec

from nczfs.codecs.arraycodec import Context, Form, Room, Serializer, StrictSettings
from nczfs.codecs.base import Values
from nczfs.codecs.codec import Flat, Size, as_memory, from_buffer
from nczfs.errors import CorruptChunk

REMEDIES = {
    "pcodec": "pip install 'nczfs[pcodec]'",
    # numcodecs cannot be imported beside zfpy 1.0.1.post0.
    "zfpy": "pip install zfpy==1.0.1",
}
"""What installs codecs that numcodecs has only with another package, by their names there."""

_DTYPES = frozenset({"u2", "u4", "u8", "i2", "i4", "i8", "f2", "f4", "f8"})
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

    def __init__(self, settings: StrictSettings, form: Form, context: Context) -> None:
        settings.known(*_SETTINGS)
        if form.dtype.str[1:] not in _DTYPES:
            raise settings.refused(f"it is for numbers of 2 to 8 bytes, not {form.dtype.name}")
        try:
            from pcodec import standalone

            self._codec = get_codec({**settings.members, "id": "pcodec"})
        except (ImportError, UnknownCodecError) as error:
            raise settings.refused(f"it is not installed: {REMEDIES['pcodec']}") from error
        self._decode_into: Any = standalone.simple_decompress_into
        self._form = form
        self.size = Size.exactly(form.nbytes).compressed()

    def decode(self, data: Flat, room: Room) -> Values:
        values = self._form.empty()
        found = self._decode_into(bytes(as_memory(data)), values.reshape(-1)).n_processed
        if found < self._form.count:
            raise CorruptChunk(f"the data have {found} values, and a chunk has {self._form.count}")
        return values

    def encode(self, values: Values) -> Flat:
        flat = np.ascontiguousarray(values, self._form.dtype).reshape(-1)
        return from_buffer(self._codec.encode(flat))
