"""The codec ``bitround`` of Zarr v3: numbers that keep some of their leading bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.arraycodec import ArrayCodec, ArraySpec, Context, StrictSettings
from nczfs.codecs.codec import Flat
from nczfs.model.smallnumbers import number_kind, small_number

_MANTISSA_BITS = {"bfloat16": 7, "complex_bfloat16": 7, "complex_float16": 10}
_MANTISSA_BITS_OF_SIZE = {2: 10, 4: 23, 8: 52}


class BitRounding(ArrayCodec):
    """Floats that keep bits of their mantissa, integers that keep those from the highest set one.

    Halves are rounded to even. Decoding changes nothing.

    Notes
    -----
    Registry of Zarr extensions, codec ``bitround``. As in its samples, what rounding up would take
    out of the type is cut off.
    """

    def __init__(self, settings: StrictSettings, form: ArraySpec, context: Context) -> None:
        settings.known("id", "keepbits")
        kind = number_kind(form.dtype)
        name = small_number(form.dtype)
        if kind not in "iufcmM" or (name is not None and name not in _MANTISSA_BITS):
            raise settings.refused(f"it rounds no numbers of the type {form.dtype}")
        self._keep = settings.integer("keepbits", -1)
        if self._keep < 0:
            raise settings.refused("keepbits is missing or negative")
        self._size = form.dtype.itemsize // (2 if kind == "c" else 1)
        self._is_float = kind in "fc"
        self._mantissa = _MANTISSA_BITS.get(name or "") or _MANTISSA_BITS_OF_SIZE.get(self._size, 0)
        if self._is_float and self._keep > self._mantissa:
            raise settings.refused(f"keepbits is {self._keep}, and a number has {self._mantissa}")
        self._is_signed = kind in "imM"
        self.encoded = replace(form, fill=self.encode(form.fill))

    def decode(self, values: Values) -> Values:
        return values

    def encode(self, values: Values) -> Values:
        native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        bits = native.reshape(-1).view(f"u{self._size}")
        rounded = self._floats(bits) if self._is_float else self._integers(bits)
        return rounded.view(native.dtype).reshape(values.shape)

    def _floats(self, bits: Flat) -> Flat:
        cut = self._mantissa - self._keep
        if cut == 0:
            return bits
        rounded = _rounded(bits, bits.dtype.type(cut))
        exponent = bits.dtype.type((1 << (8 * self._size - 1 - self._mantissa)) - 1)
        is_finite = (bits >> bits.dtype.type(self._mantissa)) & exponent != exponent
        found: Flat = np.where(is_finite, rounded, bits)
        return found

    def _integers(self, bits: Flat) -> Flat:
        if self._keep == 0:
            return bits
        one = bits.dtype.type(1)
        size = bits
        if self._is_signed:
            signed = bits.view(f"i{self._size}")
            size = np.where(signed < 0, ~bits + one, bits)
        length = _bit_lengths(size)
        cut = np.maximum(length - self._keep, 0).astype(bits.dtype)
        rounded = np.where(cut > 0, _rounded(size, cut), size)
        most = bits.dtype.type((1 << (8 * self._size - self._is_signed)) - 1)
        down = (size >> cut) << cut
        rounded = np.where((rounded < down) | (rounded > most), down, rounded)
        if self._is_signed:
            is_least = size > most
            negative = np.where(is_least, bits, ~rounded + one)
            rounded = np.where(signed < 0, negative, rounded)
        return rounded.astype(bits.dtype)


def _rounded(bits: Flat, cut: Any) -> Flat:
    """Round unsigned integers to multiples of a power of two, half to even; they may wrap."""
    one = bits.dtype.type(1)
    cut = np.maximum(cut, one)
    half = (one << (cut - one)) - one + ((bits >> cut) & one)
    rounded: Flat = ((bits + half) >> cut) << cut
    return rounded


def _bit_lengths(numbers: Flat) -> Flat:
    """Return how many bits each unsigned integer has from its highest set one on."""
    lengths = np.zeros(numbers.shape, np.int64)
    left = numbers.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        is_long = left >= np.uint64(1 << step)
        lengths[is_long] += step
        left = np.where(is_long, left >> np.uint64(step), left)
    found: Flat = lengths + (left > 0)
    return found
