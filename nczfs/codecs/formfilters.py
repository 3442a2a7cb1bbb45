"""The array filters of numcodecs as codecs of a Zarr v3 chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs import arrayfilters
from nczfs.codecs.arraycodec import ArrayCodec, ArraySpec, Context, StrictSettings
from nczfs.codecs.codec import Codec, CodecSettings, Size, as_bytes
from nczfs.errors import CorruptChunk


class FormFilter(ArrayCodec):
    """A filter that turns each number of one type into one of another.

    Parameters
    ----------
    decoded, encoded : the types, in the byte orders that the filter wants.
    """

    is_cheap = False

    def __init__(
        self, codec: Codec, form: ArraySpec, decoded: np.dtype[Any], encoded: np.dtype[Any]
    ) -> None:
        self._codec = codec
        self._form = form
        self._inner = decoded
        self._outer = encoded
        native = encoded.newbyteorder("=")
        fill = self._codec.encode(np.array(form.fill, decoded).reshape(1))
        self.encoded = replace(form, dtype=native, fill=fill.astype(native).reshape(()))

    def decode(self, values: Values) -> Values:
        flat = np.ascontiguousarray(values, self._outer).reshape(-1)
        return self._codec.decode(flat, Size.exactly(self._form.nbytes)).reshape(self._form.shape)

    def encode(self, values: Values) -> Values:
        flat = np.ascontiguousarray(values, self._inner).reshape(-1)
        return self._codec.encode(flat).reshape(self._form.shape)


class PackedBooleans(ArrayCodec):
    """Booleans as bits in an array of bytes, one of which says how many bits are unused."""

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("id")
        if form.dtype.kind != "b":
            raise settings.refused(f"it packs only booleans, not {form.dtype}")
        self._codec = arrayfilters.PackBits(settings)
        self._form = form
        self.encoded = ArraySpec((1 + -(-form.count // 8),), np.dtype("u1"), np.zeros((), "u1"))

    def decode(self, values: Values) -> Values:
        size = Size.exactly(self._form.count)
        found = as_bytes(self._codec.decode(np.ascontiguousarray(values), size)).view(np.bool_)
        if found.size < self._form.count:
            raise CorruptChunk(f"{found.size} booleans, and a chunk has {self._form.count}")
        return found[: self._form.count].reshape(self._form.shape)

    def encode(self, values: Values) -> Values:
        return self._codec.encode(np.ascontiguousarray(values).reshape(-1))


def _filter(
    make: Callable[[CodecSettings], Codec], decoded: str, encoded: str | None, *others: str
) -> Callable[[StrictSettings, ArraySpec, Context], ArrayCodec]:
    """Return a maker of a filter with its settings for the types before and after it."""

    def made(settings: StrictSettings, form: ArraySpec, context: Context) -> ArrayCodec:
        settings.known("id", decoded, *([encoded] if encoded else []), *others)
        if form.dtype.kind not in "biufcmM":
            raise settings.refused(f"it filters only numbers, not {form.dtype}")
        # zarr-python leaves out the type of the array.
        inner = settings.dtype(decoded, form.dtype.str)
        if inner.newbyteorder("=") != form.dtype:
            raise settings.refused(f"{decoded} is {inner.str}, and the array has {form.dtype}")
        outer = settings.dtype(encoded, inner.str) if encoded else inner
        full = CodecSettings(settings.codec, {**settings.members, decoded: inner.str})
        return FormFilter(make(full), form, inner, outer)

    return made


delta = _filter(arrayfilters.delta, "dtype", "astype")
fixedscaleoffset = _filter(arrayfilters.fixedscaleoffset, "dtype", "astype", "offset", "scale")
quantize = _filter(arrayfilters.quantize, "dtype", "astype", "digits")
astype = _filter(arrayfilters.astype, "decode_dtype", "encode_dtype")
