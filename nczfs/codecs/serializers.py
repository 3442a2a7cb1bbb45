"""Codecs from array to bytes that write one element after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs import buffers, objects
from nczfs.codecs.arraycodec import ArraySpec, Context, MemoryLimit, Serializer, StrictSettings
from nczfs.codecs.codec import Flat, Size, as_bytes
from nczfs.errors import CorruptChunk
from nczfs.messages import shown
from nczfs.model.dtypes import VlenKind
from nczfs.model.smallnumbers import bits_of, number_kind, ordered, small_number

_ORDERS = {"little": "<", "big": ">"}


class Bytes(Serializer):
    """The elements as they are in memory, in either byte order (``bytes``)."""

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("endian")
        order = _order(settings, form.dtype)
        if form.dtype.hasobject:
            raise settings.refused("elements of variable length need a vlen codec")
        if order == ">" and _has_small_field(form.dtype):
            raise settings.refused("fields of such numbers are not read in big-endian order")
        self._form = form
        self._nbytes = form.nbytes
        self._stored = ordered(form.dtype, order)
        self.size = Size.exactly(form.nbytes)

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        nbytes = self._nbytes
        if data.nbytes != nbytes:
            data = whole(data, nbytes)
        return data.view(self._stored).reshape(self._form.shape)

    def encode(self, values: Values) -> Flat:
        return as_bytes(np.ascontiguousarray(values, self._stored).reshape(-1))


class PaddedBytes(Bytes):
    """Numbers of fewer than eight bits, which take a byte each.

    The other bits are arbitrary in stored data; in memory they are zero, as ml_dtypes has them.
    """

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        super().__init__(settings, form, context)
        self._mask = np.uint8((1 << bits_of(form.dtype)) - 1)

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        data = whole(data, self._nbytes)
        masked = np.bitwise_and(data, self._mask, out=buffers.empty(self._nbytes))
        return masked.view(self._form.dtype).reshape(self._form.shape)

    def encode(self, values: Values) -> Flat:
        return super().encode(values) & self._mask


class PairedBytes(Bytes):
    """Complex numbers of ml_dtypes, whose byte order numpy would change as if they were one."""

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        super().__init__(settings, form, context)
        self._part = np.dtype("u2").newbyteorder(self._stored.byteorder)

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        values = self._form.empty()
        np.copyto(values.reshape(-1).view(np.uint16), whole(data, self._nbytes).view(self._part))
        return values

    def encode(self, values: Values) -> Flat:
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint16)
        return as_bytes(flat.astype(self._part, copy=False))


def bytes_of(settings: StrictSettings, form: ArraySpec, context: Context) -> Serializer:
    """Return the codec ``bytes`` for elements of a type."""
    if small_number(form.dtype) is not None:
        if number_kind(form.dtype) == "c":
            return PairedBytes(settings, form, context)
        if bits_of(form.dtype) < 8:
            return PaddedBytes(settings, form, context)
    return Bytes(settings, form, context)


def _order(settings: StrictSettings, dtype: np.dtype[Any]) -> str:
    endian = settings.one_of("endian", ("little", "big"), None)
    # Of texts and structures old writers leave it out, and mean little-endian.
    if endian is None and dtype.itemsize > 1 and (number_kind(dtype) in "iufcmM"):
        raise settings.refused("endian is missing, and the elements have more than one byte")
    return _ORDERS[endian or "little"]


def _has_small_field(dtype: np.dtype[Any]) -> bool:
    """Whether numpy leaves fields in this machine's byte order, whatever order it is given."""
    if dtype.subdtype is not None:
        return _has_small_field(dtype.subdtype[0])
    kinds = [field[0] for field in (dtype.fields or {}).values()]
    return any(
        _has_small_field(kind) or (kind.itemsize > 1 and small_number(kind) is not None)
        for kind in kinds
    )


def whole(data: Flat, nbytes: int) -> Flat:
    """Return the bytes of a chunk without surplus. Raises CorruptChunk: there are too few."""
    data = as_bytes(data)
    if data.nbytes < nbytes:
        raise CorruptChunk(f"the data decode to {data.nbytes} bytes, and a chunk has {nbytes}")
    return data[:nbytes]


class Vlen(Serializer):
    """Elements of variable length, each after its length (``vlen-utf8``, ``vlen-bytes``)."""

    is_cheap = False

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known()
        is_text = settings.codec == "vlen-utf8"
        kind = VlenKind.TEXT if is_text else VlenKind.BYTES
        if form.vlen is not kind:
            what = "texts" if is_text else "byte strings"
            raise settings.refused(f"it is for {what} of variable length alone")
        make = objects.vlen_utf8 if is_text else objects.vlen_bytes
        self._codec = make(settings, context.memory_bytes)
        self._form = form
        self._decoded = Size.exactly(form.nbytes)
        self.size = self._codec.encoded_size(self._decoded)

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        room.take(self._codec.needed(data, self._decoded))
        values = self._codec.decode(data, self._decoded)
        count = self._form.count
        if values.size < count:
            raise CorruptChunk(f"the data have {values.size} values, and a chunk has {count}")
        return values[:count].reshape(self._form.shape)

    def encode(self, values: Values) -> Flat:
        return self._codec.encode(np.ascontiguousarray(values).reshape(-1))


def text_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a type for messages."""
    return small_number(dtype) or shown(str(dtype))
