"""The compression methods of zip archives, with one interface of decompressors."""

from __future__ import annotations

import bz2
import lzma
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias, cast

from nczfs.buffers import Buffer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

try:  # libdeflate: the fastest, but only for a whole member at once
    import deflate
except ImportError:
    deflate = None  # type: ignore[assignment]  # a module that may be missing
try:  # half of the time of zlib's
    from isal.isal_zlib import IsalError
    from isal.isal_zlib import decompressobj as fast_decompressobj
except ImportError:
    from zlib import decompressobj as fast_decompressobj  # type: ignore[assignment]
    from zlib import error as IsalError  # type: ignore[assignment]

DEFLATED: Final = 8

# A bit less than three bytes of Deflate64 make 65,538, and its library takes no limit: this much
# input makes at most 8 MiB.
_DEFLATE64_FEED_BYTES: Final = 256
# What libdeflate may allocate at once from the size in the central directory.
_AT_ONCE_BYTES: Final = 16 << 20
# No archive has a frame with a longer window; the zstd program has this limit, too.
_ZSTD_WINDOW_LOG_MAX: Final = 27


class Decompressor(Protocol):
    """The common interface of `bz2`, `lzma` and `zstd`."""

    @property
    def eof(self) -> bool:
        """Whether the end of the compressed bytes was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether all input is used up, and more is needed for more output."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return at most `max_length` bytes. Deflate64 may return up to 8 MiB more."""


class DeflateStream:
    """Deflate with the interface of the others.

    Parameters
    ----------
    decompressobj : of `zlib`, which can be copied, or of a faster library.
    """

    def __init__(self, decompressobj: Callable[[int], Any] = zlib.decompressobj) -> None:
        self._inflater = decompressobj(-zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return bool(self._inflater.eof)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        tail = self._inflater.unconsumed_tail
        limit = max(max_length, 0)
        block: bytes = self._inflater.decompress(tail + data if tail else data, limit)
        self.needs_input = not self._inflater.unconsumed_tail and (not limit or len(block) < limit)
        return block

    def copy(self) -> DeflateStream:
        """Return another one in the same state, from which to continue later."""
        other = DeflateStream.__new__(DeflateStream)
        other._inflater = self._inflater.copy()
        other.needs_input = self.needs_input
        return other


class _Deflate64:
    def __init__(self) -> None:
        import inflate64  # few archives have it

        self._inflater = inflate64.Inflater()
        self._waiting = b""

    @property
    def eof(self) -> bool:
        return bool(self._inflater.eof)

    @property
    def needs_input(self) -> bool:
        return not self._waiting

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        view = memoryview(self._waiting + data)
        parts = []
        used = size = 0
        while used < len(view) and not self.eof and not 0 <= max_length <= size:
            feed = bytes(view[used : used + _DEFLATE64_FEED_BYTES])
            used += len(feed)
            parts.append(self._inflater.inflate(feed))
            size += len(parts[-1])
        self._waiting = bytes(view[used:])
        return b"".join(parts)


class _Lzma:
    """APPNOTE.TXT 5.8.8: version, length of the properties, properties, a raw LZMA1 stream."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._head = b""
        self._inflater: lzma.LZMADecompressor | None = None

    @property
    def eof(self) -> bool:
        return self._inflater is not None and self._inflater.eof

    @property
    def needs_input(self) -> bool:
        return self._inflater is None or self._inflater.needs_input

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if self._inflater is None:
            self._head += data
            if len(self._head) < 9:
                return b""
            self._inflater, data = self._started(self._head)
            self._head = b""
        return self._inflater.decompress(data, max_length)

    def _started(self, head: bytes) -> tuple[lzma.LZMADecompressor, bytes]:
        _, length, packed, dictionary_size = struct.unpack_from("<HHBL", head)
        packed, lc = divmod(packed, 9)
        pb, lp = divmod(packed, 5)
        properties = {
            "id": lzma.FILTER_LZMA1,
            "lc": lc,
            "lp": lp,
            "pb": pb,
            # Allocated at once, so no larger than the possible distance of references.
            "dict_size": min(dictionary_size, max(self._size, 4096)),
        }
        inflater = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[properties])
        return inflater, head[4 + length :]


def _zstandard(size: int) -> Decompressor:
    limit: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX}
    return zstd.ZstdDecompressor(options=limit)


InflateStart: TypeAlias = Callable[[int], Decompressor]
"""Makes a decompressor for so many bytes."""

METHODS: Final[Mapping[int, InflateStart]] = {
    DEFLATED: lambda _: DeflateStream(fast_decompressobj),
    9: lambda _: _Deflate64(),
    12: lambda _: bz2.BZ2Decompressor(),
    14: _Lzma,
    20: _zstandard,  # Zstandard's former number
    93: _zstandard,
}


def inflate_whole(method: int, data: Buffer, size: int) -> Buffer:
    """Inflate a whole member of `size` bytes; one byte more if it is longer, less if shorter."""
    if method == DEFLATED and deflate is not None and size <= _AT_ONCE_BYTES:
        try:
            return deflate.deflate_decompress(data, size)
        except deflate.DeflateError:
            pass  # more than `size`, or broken: the other library distinguishes these
    return METHODS[method](size).decompress(bytes(data), size + 1)


ERRORS: Final = (
    zlib.error,
    cast(type[Exception], IsalError),
    lzma.LZMAError,
    zstd.ZstdError,
    OSError,
    EOFError,
    ValueError,
    struct.error,
)
"""Exceptions of decompressors for damaged bytes."""
