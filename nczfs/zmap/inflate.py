"""The compression methods of zip archives, inflating piece by piece into bounded blocks."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from zipfile_deflate64 import deflate64

from nczfs.zmap.base import Buffer

DEFLATED: Final = 8
_BLOCK_BYTES: Final = 16 << 20

# A bit less than three bytes of Deflate64 make 65,538, and its library takes no limit: this much
# input makes at most 8 MiB.
_DEFLATE64_FEED_BYTES: Final = 256

Inflater: TypeAlias = "Callable[[Iterable[Buffer], int], Iterator[bytes]]"


class MethodError(Exception):
    """The compressed bytes are damaged."""


class _Bounded(Protocol):
    """What `bz2` and `lzma` decompressors have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def inflate(method: int, pieces: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    """The inflated bytes, in blocks.

    Parameters
    ----------
    method : one of `METHODS`.
    pieces : the compressed bytes, in order; taken one by one as they are needed.
    limit : stop after so many inflated bytes. Deflate64 may give up to 8 MiB more.

    Raises
    ------
    MethodError : the compressed bytes are damaged.
    """
    try:
        yield from METHODS[method](pieces, limit)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, struct.error) as error:
        raise MethodError(str(error)) from error


def _deflated(pieces: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    left = limit
    for piece in pieces:
        data: Buffer = piece
        while left and not inflater.eof:
            block = inflater.decompress(data, min(left, _BLOCK_BYTES))
            left -= len(block)
            if block:
                yield block
            data = inflater.unconsumed_tail
            if not data and not block:
                break
        if inflater.eof or not left:
            return


def _deflated64(pieces: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    inflater = deflate64.Deflate64()
    left = limit
    for piece in pieces:
        view = memoryview(piece)
        for at in range(0, len(view), _DEFLATE64_FEED_BYTES):
            if block := inflater.decompress(bytes(view[at : at + _DEFLATE64_FEED_BYTES])):
                yield block
                left -= len(block)
            if inflater.eof or left <= 0:
                return


def _bzip2(pieces: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    return _bounded(bz2.BZ2Decompressor(), pieces, limit)


def _lzma(pieces: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    """APPNOTE.TXT 5.8.8: version, length of the properties, properties, a raw LZMA1 stream."""
    feed = iter(pieces)
    head = b""
    for piece in feed:
        head += bytes(piece)
        if len(head) >= 9:
            break
    _, length, packed, dictionary_size = struct.unpack_from("<HHBL", head)
    packed, lc = divmod(packed, 9)
    pb, lp = divmod(packed, 5)
    properties = {
        "id": lzma.FILTER_LZMA1,
        "lc": lc,
        "lp": lp,
        "pb": pb,
        # Allocated at once, so no larger than what can be looked back at.
        "dict_size": min(dictionary_size, max(limit, 4096)),
    }
    inflater = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[properties])
    return _bounded(inflater, _chain(head[4 + length :], feed), limit)


def _chain(first: bytes, rest: Iterator[Buffer]) -> Iterator[Buffer]:
    yield first
    yield from rest


def _bounded(inflater: _Bounded, pieces: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    left = limit
    for piece in pieces:
        data = bytes(piece)
        while left and not inflater.eof:
            block = inflater.decompress(data, min(left, _BLOCK_BYTES))
            left -= len(block)
            if block:
                yield block
            data = b""
            if inflater.needs_input or not block:
                break
        if inflater.eof or not left:
            return


METHODS: Final[Mapping[int, Inflater]] = {
    DEFLATED: _deflated,
    9: _deflated64,
    12: _bzip2,
    14: _lzma,
}
