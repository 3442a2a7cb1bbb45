"""PNG files of a size that is known before they are made."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Final

from PIL import Image

_END: Final = 12
"""The bytes of the last chunk, IEND, which is empty."""
_CHUNK: Final = 12
"""The bytes of a chunk beside its content: length, type and checksum."""
_PADDING: Final = b"npAd"
"""Ancillary and private (PNG specification, section 5.4): readers skip it."""


def padded(png: bytes, size: int) -> bytes:
    """Return a PNG with exactly `size` bytes, of which it must leave at least 12.

    The padding is a chunk of zeros before the end.
    """
    room = size - len(png) - _CHUNK
    assert room >= 0, "made smaller by `bounded` before"
    zeros = bytes(room)
    checksum = zlib.crc32(zeros, zlib.crc32(_PADDING))
    chunk = struct.pack(">I", room) + _PADDING + zeros + struct.pack(">I", checksum)
    return png[:-_END] + chunk + png[-_END:]


def bounded(png: bytes, size: int) -> bytes:
    """Return a PNG of at most `size` bytes: with fewer colours, if it has more.

    A picture with 256 colours takes a byte for each pixel at most, and a little more.
    """
    if len(png) <= size:
        return png
    with Image.open(BytesIO(png)) as image:
        out = BytesIO()
        image.convert("RGB").quantize(256).save(out, "PNG", optimize=True)
    return out.getvalue()
