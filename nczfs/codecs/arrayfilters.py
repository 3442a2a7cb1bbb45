"""Filters that act on numbers: delta, scaling, rounding, casts, packed booleans, categories."""

from __future__ import annotations

from typing import Any, Protocol

import numcodecs  # noqa: F401 - before its modules; see registry.py
import numpy as np
from numcodecs.astype import AsType
from numcodecs.bitround import BitRound as _BitRound
from numcodecs.categorize import Categorize as _Categorize
from numcodecs.delta import Delta
from numcodecs.fixedscaleoffset import FixedScaleOffset
from numcodecs.packbits import PackBits as _PackBits
from numcodecs.quantize import Quantize

from nczfs.codecs.codec import Codec, CodecSettings, Flat, Size, as_bytes
from nczfs.messages import shown


class NumcodecsCodec(Protocol):
    """The common part of the codecs of numcodecs."""

    def encode(self, buf: Any) -> Any: ...
    def decode(self, buf: Any) -> Any: ...


class Recast(Codec):
    """A filter of numcodecs that turns each number of one type into one number of another."""

    def __init__(
        self, inner: NumcodecsCodec, decoded: np.dtype[Any], encoded: np.dtype[Any]
    ) -> None:
        self._inner = inner
        self._decoded = decoded
        self._encoded = encoded

    def encoded_size(self, size: Size) -> Size:
        return size.scaled(from_bytes=self._decoded.itemsize, to_bytes=self._encoded.itemsize)

    def decode(self, data: Flat, size: Size) -> Flat:
        # Data that the filter did not write may overflow; no warning is needed for that.
        with np.errstate(all="ignore"):
            decoded: Flat = self._inner.decode(data)
        return decoded

    def encode(self, data: Flat) -> Flat:
        with np.errstate(all="ignore"):
            encoded: Flat = self._inner.encode(data)
        return encoded


def _types(
    settings: CodecSettings, decoded: str = "dtype", encoded: str = "astype"
) -> tuple[np.dtype[Any], np.dtype[Any]]:
    inner = settings.dtype(decoded)
    outer = settings.dtype(encoded, inner.str)
    if (inner.kind == "c") != (outer.kind == "c"):
        raise settings.refused(f"{inner.str} and {outer.str} do not convert into each other")
    return inner, outer


def delta(settings: CodecSettings) -> Codec:
    inner, outer = _types(settings)
    return Recast(Delta(inner, outer), inner, outer)


def fixedscaleoffset(settings: CodecSettings) -> Codec:
    inner, outer = _types(settings)
    offset, scale = settings.number("offset"), settings.number("scale")
    return Recast(FixedScaleOffset(offset, scale, inner, outer), inner, outer)


def quantize(settings: CodecSettings) -> Codec:
    inner, outer = _types(settings)
    if inner.kind != "f" or outer.kind != "f":
        raise settings.refused("it quantizes only floating-point numbers")
    return Recast(Quantize(settings.integer("digits", 0), inner, outer), inner, outer)


def astype(settings: CodecSettings) -> Codec:
    inner, outer = _types(settings, "decode_dtype", "encode_dtype")
    return Recast(AsType(outer, inner), inner, outer)


class BitRound(Codec):
    """Floats that keep some bits of their mantissa. Decoding changes nothing."""

    def __init__(self, settings: CodecSettings) -> None:
        keep = settings.integer("keepbits", -1)
        if keep < 0:
            raise settings.refused("keepbits is missing or negative")
        self._inner = _BitRound(keep)

    def encoded_size(self, size: Size) -> Size:
        return size

    def decode(self, data: Flat, size: Size) -> Flat:
        return data

    def encode(self, data: Flat) -> Flat:
        # numcodecs knows dtypes by their native names only.
        native = data.astype(data.dtype.newbyteorder("="), copy=False)
        rounded: Flat = self._inner.encode(native).view(native.dtype)
        return rounded.astype(data.dtype, copy=False)


class PackBits(Codec):
    """Booleans as bits, the first in the highest bit; a byte in front counts the unused ones."""

    def __init__(self, settings: CodecSettings) -> None:
        self._inner = _PackBits()

    def encoded_size(self, size: Size) -> Size:
        if size.expected is None:
            return Size(None, 2 + size.limit // 8)
        return Size.exactly(1 + -(-size.expected // 8))

    def decode(self, data: Flat, size: Size) -> Flat:
        decoded: Flat = self._inner.decode(as_bytes(data))
        return decoded

    def encode(self, data: Flat) -> Flat:
        encoded: Flat = self._inner.encode(data)
        return encoded


class Categorize(Codec):
    """Texts as numbers: 0 for a text that is not a label, 1 for the first label."""

    def __init__(self, settings: CodecSettings) -> None:
        labels = settings.members.get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise settings.refused("labels is not a list of texts")
        self._codes = settings.dtype("astype", "|u1")
        if self._codes.kind not in "iu":
            raise settings.refused(f"astype is {self._codes.str}, not a type of integers")
        name = settings.text("dtype", "|O")
        try:
            self._texts = np.dtype(name)
            self._inner: NumcodecsCodec = _Categorize(labels, self._texts, self._codes)
        except (TypeError, ValueError, SyntaxError) as error:
            raise settings.refused(f"dtype is {shown(name)}, neither |O nor of texts") from error
        self._table = np.array(["", *labels], self._texts)

    def encoded_size(self, size: Size) -> Size:
        return size.scaled(from_bytes=max(1, self._texts.itemsize), to_bytes=self._codes.itemsize)

    def decode(self, data: Flat, size: Size) -> Flat:
        # The texts can be a thousand times as long as the codes, if data are a bit too long.
        codes = as_bytes(data).view(self._codes)[: size.limit // max(1, self._texts.itemsize)]
        known = (codes > 0) & (codes < self._table.size)
        return self._table[np.where(known, codes, 0)]

    def encode(self, data: Flat) -> Flat:
        encoded: Flat = self._inner.encode(data)
        return encoded
