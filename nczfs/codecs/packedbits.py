"""The codec ``packbits``: some bits of each number, without gaps."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.arraycodec import ArraySpec, Context, MemoryLimit, Serializer, StrictSettings
from nczfs.codecs.codec import Flat, Size
from nczfs.codecs.serializers import whole
from nczfs.errors import CorruptChunk
from nczfs.messages import shown
from nczfs.model.smallnumbers import bits_of, number_kind

_PADDINGS = ("none", "first_byte", "last_byte")


class PackedBits(Serializer):
    """The bits of all elements in a row, filled up with zeros to whole bytes.

    Notes
    -----
    Registry of Zarr extensions, codec ``packbits``. It leaves open which bit of a byte is the
    first. Whole bytes are little-endian, so it is the lowest one; booleans are as numcodecs packs
    them, with the first one in the highest bit.
    """

    is_cheap = False

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("padding_encoding", "first_bit", "last_bit")
        kind = number_kind(form.dtype)
        if kind not in "biufc":
            raise settings.refused(f"it packs only numbers, not {form.dtype}")
        self._form = form
        self._parts = 2 if kind == "c" else 1
        self._item = np.dtype(f"u{form.dtype.itemsize // self._parts}")
        self._bits = bits_of(form.dtype)
        self._first = settings.integer("first_bit", 0)
        self._last = settings.integer("last_bit", self._bits - 1)
        if not 0 <= self._first <= self._last < self._bits:
            raise settings.refused(
                f"the bits {self._first} to {self._last} of numbers that have {self._bits}"
            )
        self._padding = settings.one_of("padding_encoding", _PADDINGS, "none")
        self._order: Literal["big", "little"] = "big" if kind == "b" else "little"
        self._is_signed = kind == "i"
        count = form.count * self._parts * (self._last - self._first + 1)
        self._packed_bits = count
        self._nbytes = -(-count // 8)
        self.size = Size.exactly(self._nbytes + (self._padding != "none"))

    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        data = whole(data, self._nbytes + (self._padding != "none"))
        if self._padding != "none":
            at_front = self._padding == "first_byte"
            claimed = int(data[0 if at_front else -1])
            data = data[1:] if at_front else data[:-1]
            if claimed != -self._packed_bits % 8:
                raise CorruptChunk(
                    f"{shown(claimed)} bits of padding are claimed, and there are "
                    f"{-self._packed_bits % 8}"
                )
        width = 8 * self._item.itemsize
        kept = self._last - self._first + 1
        found = np.unpackbits(data, count=self._packed_bits, bitorder=self._order)
        if self._bits == 1:
            return found.view(self._form.dtype).reshape(self._form.shape)
        bits = np.zeros((self._packed_bits // kept, width), np.uint8)
        bits[:, self._first : self._last + 1] = found.reshape(-1, kept)
        if self._is_signed:
            bits[:, self._last + 1 : self._bits] = bits[:, self._last : self._last + 1]
        packed = np.packbits(bits, axis=1, bitorder="little").reshape(-1)
        items = packed.view(self._item.newbyteorder("<")).astype(self._item, copy=False)
        return items.view(self._form.dtype).reshape(self._form.shape)

    def encode(self, values: Values) -> Flat:
        items = np.ascontiguousarray(values).reshape(-1).view(self._item)
        little = items.astype(self._item.newbyteorder("<"), copy=False).view(np.uint8)
        rows = little.reshape(-1, self._item.itemsize)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, self._first : self._last + 1]
        packed: Flat = np.packbits(bits.reshape(-1), bitorder=self._order)
        padding = np.array([-self._packed_bits % 8], np.uint8)
        match self._padding:
            case "first_byte":
                return np.concatenate((padding, packed))
            case "last_byte":
                return np.concatenate((packed, padding))
        return packed
