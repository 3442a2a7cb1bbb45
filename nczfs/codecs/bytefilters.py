"""Filters that act on bytes: shuffle, checksums, base64."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import checksum32
from numcodecs.fletcher32 import Fletcher32 as _Fletcher32

from nczfs.codecs import buffers
from nczfs.codecs.codec import Codec, CodecSettings, Flat, Size, as_bytes, as_memory, from_buffer
from nczfs.messages import shown

_CHECKSUM_BYTES = 4


class Shuffle(Codec):
    """A filter that groups the bytes of items by position: all first bytes, then all second ones.

    It uses strides of numpy, since numcodecs holds the GIL throughout. Bytes after the last whole
    item stay as they are, as in HDF5.
    """

    def __init__(self, settings: CodecSettings) -> None:
        # An element size of 0 or 1 shuffles nothing. netcdf-c writes 0 and means the size of the
        # items; the reader of its metadata has filled that in.
        self._item = max(1, settings.integer("elementsize", 4))

    def encoded_size(self, size: Size) -> Size:
        return size

    def decode(self, data: Flat, size: Size) -> Flat:
        source = as_bytes(data)
        count = source.size // self._item
        if self._item == 1 or count <= 1:
            return source
        whole = count * self._item
        target = buffers.empty(source.nbytes)
        planes = source[:whole].reshape(self._item, count)
        items = target[:whole]
        for place in range(self._item):
            items[place :: self._item] = planes[place]
        target[whole:] = source[whole:]
        return target

    def encode(self, data: Flat) -> Flat:
        source = as_bytes(data)
        count = source.size // self._item
        if self._item == 1 or count <= 1:
            return source
        whole = count * self._item
        target = np.empty_like(source)
        planes = target[:whole].reshape(self._item, count)
        items = source[:whole]
        for place in range(self._item):
            planes[place] = items[place :: self._item]
        target[whole:] = source[whole:]
        return target


class Checksum(Codec):
    """A checksum of four bytes, little-endian, before or after the data.

    Parameters
    ----------
    function : returns an unsigned number of 32 bits for the bytes.
    """

    def __init__(self, function: Callable[[memoryview], int], *, in_front: bool) -> None:
        self._function = function
        self._in_front = in_front

    def encoded_size(self, size: Size) -> Size:
        return size.plus(_CHECKSUM_BYTES)

    def decode(self, data: Flat, size: Size) -> Flat:
        source = as_bytes(data)
        if source.size < _CHECKSUM_BYTES:
            raise ValueError(f"{source.size} bytes are too few for a checksum")
        if self._in_front:
            stored, content = source[:_CHECKSUM_BYTES], source[_CHECKSUM_BYTES:]
        else:
            content, stored = source[:-_CHECKSUM_BYTES], source[-_CHECKSUM_BYTES:]
        claimed = int.from_bytes(stored.tobytes(), "little")
        actual = self._function(content.data)
        if claimed != actual:
            raise ValueError(f"the checksum is {actual:#010x}, but {claimed:#010x} was stored")
        return content

    def encode(self, data: Flat) -> Flat:
        source = as_bytes(data)
        checksum = np.array([self._function(source.data)], "<u4").view(np.uint8)
        return np.concatenate((checksum, source) if self._in_front else (source, checksum))


def _at_start(settings: CodecSettings, default: str) -> bool:
    location = settings.text("location", default)
    if location not in ("start", "end"):
        raise settings.refused(f"location is {shown(location)}; it must be 'start' or 'end'")
    return location == "start"


def crc32(settings: CodecSettings) -> Codec:
    return Checksum(zlib.crc32, in_front=_at_start(settings, "start"))


def adler32(settings: CodecSettings) -> Codec:
    return Checksum(zlib.adler32, in_front=_at_start(settings, "start"))


def crc32c(settings: CodecSettings) -> Codec:
    def checksum(data: memoryview) -> int:
        # google-crc32c refuses memoryviews, and takes arrays.
        value: Any = google_crc32c.value(from_buffer(data))
        return int(value)

    return Checksum(checksum, in_front=_at_start(settings, "end"))


def fletcher32(settings: CodecSettings) -> Codec:
    return Checksum(_fletcher32, in_front=False)


def _fletcher32(data: memoryview) -> int:
    # numcodecs has no function for the checksum alone, and cannot take empty data. It holds the
    # GIL (0.3 ms/MiB); the same in numpy does not, and takes twice the time.
    if not data.nbytes:
        return 0
    return int.from_bytes(_Fletcher32().encode(data)[-_CHECKSUM_BYTES:], "little")


def jenkins_lookup3(settings: CodecSettings) -> Codec:
    if settings.members.get("prefix") is not None:
        raise settings.refused("a prefix is not supported")
    seed = settings.integer("initval", 0)

    def checksum(data: memoryview) -> int:
        value: Any = checksum32.jenkins_lookup3(data, seed)
        return int(value)

    return Checksum(checksum, in_front=False)


class Base64(Codec):
    """Bytes as text, four characters for every three bytes."""

    def __init__(self, settings: CodecSettings) -> None:
        pass

    def encoded_size(self, size: Size) -> Size:
        if size.expected is None:
            return Size(None, -(-size.limit // 3) * 4)
        return Size.exactly(-(-size.expected // 3) * 4)

    def decode(self, data: Flat, size: Size) -> Flat:
        return from_buffer(base64.b64decode(as_memory(data), validate=True))

    def encode(self, data: Flat) -> Flat:
        return from_buffer(base64.b64encode(as_memory(data)))
