"""Compressors whose data begin with their decoded size: Blosc, LZ4, Zstandard."""

from __future__ import annotations

import struct
from collections.abc import Callable

from numcodecs import blosc, lz4, zstd

from nczfs.codecs import buffers
from nczfs.codecs.codec import Codec, CodecSettings, Flat, Size, as_bytes, from_buffer
from nczfs.messages import shown
from nczfs.plaindata import frozen

# Blosc's own threads are slower than two of ours, and its lock would serialise them.
blosc.use_threads = False

_CHEAP = frozenset({"blosclz", "lz4", "lz4hc", "snappy"})

_BLOSC_HEADER = struct.Struct("<4B3I")
_LZ4_HEADER = struct.Struct("<I")


class Blosc(Codec):
    """The Blosc meta-compressor; its chunks describe themselves in a header of 16 bytes."""

    def __init__(self, settings: CodecSettings) -> None:
        self._cname = settings.text("cname", "lz4")
        self._clevel = min(max(0, settings.integer("clevel", 5)), 9)
        self._shuffle = settings.integer("shuffle", blosc.SHUFFLE)
        self._block_bytes = settings.integer("blocksize", 0)
        self._item_bytes: int | None = None  # that of the data
        if self._cname not in blosc.list_compressors():
            raise settings.refused(f"its compressor {shown(self._cname)} is not built in")
        if self._shuffle not in (-1, 0, 1, 2):
            raise settings.refused(f"shuffle is {self._shuffle}; it must be -1, 0, 1 or 2")
        self.is_cheap = self._cname in _CHEAP

    def encoded_size(self, size: Size) -> Size:
        return size.compressed()

    def decode(self, data: Flat, size: Size) -> Flat:
        data = as_bytes(data)
        if data.size < _BLOSC_HEADER.size:
            raise ValueError(f"{data.size} bytes are too few for a Blosc header")
        *_, decoded, _, encoded = _BLOSC_HEADER.unpack_from(data.data)
        # Blosc trusts its header, both for what it reads and for what it writes.
        if not _BLOSC_HEADER.size <= encoded <= data.size:
            raise ValueError(f"the header claims {encoded} bytes, but there are {data.size}")
        return _decompressed_into(blosc.decompress, data, decoded, size)

    def encode(self, data: Flat) -> Flat:
        return from_buffer(
            blosc.compress(
                as_bytes(data),
                self._cname.encode(),
                self._clevel,
                self._shuffle,
                self._block_bytes,
                self._item_bytes or data.dtype.itemsize,
            )
        )


_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


class WordedBlosc(Blosc):
    """Blosc as Zarr v3 names its settings; the data are bytes, and a setting gives their items."""

    def __init__(self, settings: CodecSettings) -> None:
        word = settings.text("shuffle", "noshuffle")
        if word not in _SHUFFLES:
            words = ", ".join(map(repr, _SHUFFLES))
            raise settings.refused(f"shuffle is {shown(word)}; it must be one of {words}")
        members = {**settings.members, "shuffle": _SHUFFLES[word]}
        super().__init__(CodecSettings(settings.codec, members))
        item = settings.integer("typesize", 1)
        if not 1 <= item < 1 << 31:
            raise settings.refused(f"typesize is {item}")
        # Blosc takes items of more than 255 bytes for bytes.
        self._item_bytes = item if item < 256 else 1


class Lz4(Codec):
    """An LZ4 block after its decoded size: the layout of numcodecs, not the LZ4 frame format."""

    is_cheap = True

    def __init__(self, settings: CodecSettings) -> None:
        self._acceleration = settings.integer("acceleration", lz4.DEFAULT_ACCELERATION)

    def encoded_size(self, size: Size) -> Size:
        return size.compressed()

    def decode(self, data: Flat, size: Size) -> Flat:
        data = as_bytes(data)
        if data.size < _LZ4_HEADER.size:
            raise ValueError(f"{data.size} bytes are too few for the size of the data")
        (decoded,) = _LZ4_HEADER.unpack_from(data.data)
        return _decompressed_into(lz4.decompress, data, decoded, size)

    def encode(self, data: Flat) -> Flat:
        return from_buffer(lz4.compress(as_bytes(data), self._acceleration))


class Zstd(Codec):
    """Zstandard frames, with or without their decoded size."""

    def __init__(self, settings: CodecSettings) -> None:
        self._level = settings.integer("level", zstd.DEFAULT_CLEVEL)
        self._checksum = settings.flag("checksum", False)

    def encoded_size(self, size: Size) -> Size:
        return size.compressed()

    def decode(self, data: Flat, size: Size) -> Flat:
        data = as_bytes(data)
        if size.expected is not None and _announces(data, size.expected):
            target = buffers.empty(size.expected)
            try:
                zstd.decompress(data, target)
            except (RuntimeError, ValueError):  # more follows, or it is broken: the scan tells
                pass
            else:
                return target
        frames = scan_zstd(data, size.limit)
        data = data[: frames.end]
        if frames.decoded is not None:
            return _decompressed_into(zstd.decompress, data, frames.decoded, size)
        if size.expected is not None:
            # numcodecs takes this for the decoded size, and refuses any other.
            return _decompressed_into(zstd.decompress, data, size.expected, size)
        if frames.ceiling > size.limit:
            raise ValueError(f"the data may decompress to more than {size.limit} bytes")
        return from_buffer(zstd.decompress(data))

    def encode(self, data: Flat) -> Flat:
        return from_buffer(zstd.compress(as_bytes(data), self._level, self._checksum))


def _decompressed_into(
    decompress: Callable[[Flat, Flat], object], data: Flat, decoded: int, size: Size
) -> Flat:
    """Decompress into a new array of the `decoded` bytes that the data announce."""
    if decoded > size.limit:
        raise ValueError(f"the header claims {decoded} bytes; at most {size.limit} are accepted")
    target = buffers.empty(decoded)
    decompress(data, target)
    return target


@frozen
class ZstdFrames:
    """The contents of the headers of Zstandard frames.

    Attributes
    ----------
    end : of the last frame; what follows is not Zstandard.
    decoded : bytes that the frames announce; None when one of them does not.
    ceiling : bytes that they cannot exceed.
    """

    end: int
    decoded: int | None
    ceiling: int


_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50
_ZSTD_BLOCK_BYTES = 128 << 10
# Real encoders fill blocks of up to 128 KiB; a chunk of empty blocks would only cost time.
_ZSTD_BLOCK_BYTES_LEAST = 64


def scan_zstd(data: Flat, limit: int) -> ZstdFrames:
    """Walk over the frames and blocks of Zstandard data (RFC 8878, section 3.1).

    Parameters
    ----------
    limit : of the decoded bytes; there cannot be unreasonably more blocks than they need.

    Raises
    ------
    ValueError : the data are not Zstandard, are truncated, or have implausibly many blocks.
    """
    view = data.data
    blocks_left = 1024 + limit // _ZSTD_BLOCK_BYTES_LEAST
    position = 0
    decoded: int | None = 0
    ceiling = 0
    while position + 4 <= len(view):
        magic = int.from_bytes(view[position : position + 4], "little")
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
            length = int.from_bytes(view[position + 4 : position + 8], "little")
            position += 8 + length
            blocks_left -= 1
        elif magic == _ZSTD_MAGIC:
            announced, position, has_checksum = _zstd_frame_header(view, position + 4)
            last = False
            while not last:
                header = int.from_bytes(view[position : position + 3], "little")
                last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
                ceiling += length if kind < 2 else _ZSTD_BLOCK_BYTES
                position += 3 + (1 if kind == 1 else length)
                blocks_left -= 1
                if position > len(view) or blocks_left < 0:
                    break
            position += 4 if has_checksum else 0
            decoded = None if announced is None or decoded is None else decoded + announced
        else:
            break
        if position > len(view):
            raise ValueError("the compressed data are truncated")
        if blocks_left < 0:
            raise ValueError("the data consist of implausibly small blocks")
    if position == 0:
        raise ValueError("the data are not Zstandard")
    return ZstdFrames(position, decoded, ceiling)


def _announces(data: Flat, nbytes: int) -> bool:
    """Return whether data begin with a frame that announces so many decoded bytes."""
    view = data.data
    is_frame = int.from_bytes(view[:4], "little") == _ZSTD_MAGIC
    return is_frame and _zstd_frame_header(view, 4)[0] == nbytes


def _zstd_frame_header(view: memoryview, position: int) -> tuple[int | None, int, bool]:
    """Return the announced size, where the first block begins, and whether a checksum follows."""
    if position >= len(view):
        raise ValueError("the compressed data are truncated")
    descriptor = view[position]
    single_segment = bool(descriptor & 0x20)
    position += 1 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    announced = int.from_bytes(view[position : position + width], "little") if width else None
    if announced is not None and width == 2:
        announced += 256
    return announced, position + width, bool(descriptor & 4)
