"""Compressors whose data do not contain their decoded size: zlib, gzip, bz2, lzma."""

from __future__ import annotations

import bz2
import lzma
import zlib
from abc import abstractmethod
from typing import Any, ClassVar, Protocol

from nczfs.codecs.codec import Codec, CodecSettings, Flat, Size, as_bytes, as_memory, from_buffer
from nczfs.messages import reason, shown

try:  # libdeflate: inflates in half the time of zlib, but only into a buffer of known size
    import deflate
except ImportError:
    deflate = None  # type: ignore[assignment]  # a module that may be missing
try:  # level 1 in an eighth of the time of zlib
    from isal import isal_zlib
except ImportError:
    isal_zlib = None  # type: ignore[assignment]  # the same

# Concatenated streams are legal in gzip, bz2 and xz; each costs a copy of all the data after it.
_STREAMS_MAX = 64

# lzma's greatest preset needs 65 MiB to decode, whatever the size of the data.
_LZMA_MEMORY_BYTES = 128 << 20


class _Decompressor(Protocol):
    """The common interface of zlib, bz2 and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Any, max_length: int, /) -> bytes: ...


class StreamCodec(Codec):
    """A compressor that is decoded up to a limit, and no further."""

    _magic: ClassVar[bytes | None] = None
    """The first bytes of a further stream; None: the data are one stream."""

    def encoded_size(self, size: Size) -> Size:
        return size.compressed()

    @abstractmethod
    def _decompressor(self) -> _Decompressor: ...

    def decode(self, data: Flat, size: Size) -> Flat:
        pieces: list[bytes] = []
        total = 0
        rest: Any = as_bytes(data)
        for _ in range(_STREAMS_MAX):
            stream = self._decompressor()
            piece = stream.decompress(rest, size.limit + 1 - total)
            pieces.append(piece)
            total += len(piece)
            if total > size.limit:
                raise ValueError(f"the data decompress to more than {size.limit} bytes")
            if not stream.eof:
                raise ValueError("the compressed data are truncated")
            rest = stream.unused_data
            # Anything else after the stream is the rest of a longer chunk that was overwritten.
            finished = size.expected is not None and total >= size.expected
            if finished or self._magic is None or not rest.startswith(self._magic):
                return from_buffer(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        raise ValueError(f"more than {_STREAMS_MAX} compressed streams in one chunk")


class Deflate(StreamCodec):
    """zlib and gzip: the same compressed data in two envelopes."""

    _window_bits: ClassVar[int]

    def __init__(self, settings: CodecSettings) -> None:
        level = settings.integer("level", 1)
        self._level = 6 if level < 0 else min(level, 9)

    def _decompressor(self) -> _Decompressor:
        return zlib.decompressobj(self._window_bits)

    @abstractmethod
    def _inflate(self, data: Flat, size: int) -> bytearray:
        """Inflate with libdeflate. Raises its error if the result is longer than `size`."""

    @abstractmethod
    def _deflate(self, data: Flat) -> bytearray:
        """Deflate with libdeflate."""

    def decode(self, data: Flat, size: Size) -> Flat:
        if deflate is not None and size.expected:
            try:
                inflated = from_buffer(self._inflate(as_bytes(data), size.expected))
            except deflate.DeflateError:
                pass  # longer than expected, or broken: zlib tells them apart
            else:
                if inflated.size == size.expected:
                    return inflated
        return super().decode(data, size)

    def encode(self, data: Flat) -> Flat:
        data = as_bytes(data)
        if isal_zlib is not None and self._level == 1:
            # Level 1 is chosen for speed: 1.4 ms/MiB against 12 of zlib.
            return from_buffer(isal_zlib.compress(data, 1, self._window_bits))
        if deflate is not None and self._level > 0:
            return from_buffer(self._deflate(data))
        return from_buffer(zlib.compress(data.data, self._level, self._window_bits))


class Zlib(Deflate):
    _window_bits = 15

    def _inflate(self, data: Flat, size: int) -> bytearray:
        result: bytearray = deflate.zlib_decompress(data, size)
        return result

    def _deflate(self, data: Flat) -> bytearray:
        result: bytearray = deflate.zlib_compress(data, self._level)
        return result


class Gzip(Deflate):
    _window_bits = 31
    _magic = b"\x1f\x8b"

    def _inflate(self, data: Flat, size: int) -> bytearray:
        result: bytearray = deflate.gzip_decompress(data, size)
        return result

    def _deflate(self, data: Flat) -> bytearray:
        result: bytearray = deflate.gzip_compress(data, self._level)
        return result


class Bz2(StreamCodec):
    _magic = b"BZh"

    def __init__(self, settings: CodecSettings) -> None:
        self._level = min(max(1, settings.integer("level", 1)), 9)

    def _decompressor(self) -> _Decompressor:
        return bz2.BZ2Decompressor()

    def encode(self, data: Flat) -> Flat:
        return from_buffer(bz2.compress(as_memory(data), self._level))


class Lzma(StreamCodec):
    _magic = b"\xfd7zXZ\0"

    def __init__(self, settings: CodecSettings) -> None:
        self._format = settings.integer("format", lzma.FORMAT_XZ)
        self._check = settings.integer("check", -1)
        self._preset = settings.optional_integer("preset")
        self._filters = _lzma_filters(settings)
        try:
            self._decompressor()
        except (ValueError, TypeError, OverflowError, MemoryError, lzma.LZMAError) as error:
            raise settings.refused(reason(error)) from error

    def _decompressor(self) -> _Decompressor:
        if self._format == lzma.FORMAT_RAW:
            return lzma.LZMADecompressor(self._format, filters=self._filters)
        return lzma.LZMADecompressor(self._format, memlimit=_LZMA_MEMORY_BYTES)

    def encode(self, data: Flat) -> Flat:
        return from_buffer(
            lzma.compress(
                as_memory(data),
                self._format,
                self._check,
                self._preset,
                self._filters,
            )
        )


def _lzma_filters(settings: CodecSettings) -> list[dict[str, int]] | None:
    filters = settings.members.get("filters")
    if filters is None:
        return None
    if not isinstance(filters, list):
        raise settings.refused("filters is not a list")
    checked: list[dict[str, int]] = []
    for entry in filters:
        if not isinstance(entry, dict):
            raise settings.refused("a filter is not an object")
        numbers = {key: value for key, value in entry.items() if isinstance(value, int)}
        if len(numbers) != len(entry) or numbers.get("dict_size", 0) > _LZMA_MEMORY_BYTES // 2:
            raise settings.refused(f"filter {shown(entry)} cannot be used")
        checked.append(numbers)
    return checked
