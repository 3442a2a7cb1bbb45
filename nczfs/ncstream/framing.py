"""The frames of messages: what each begins with, and the form of lengths."""

from __future__ import annotations

from typing import Final

START: Final = b"CDFS"
HEADER: Final = b"\xad\xec\xce\xda"
DATA: Final = b"\xab\xec\xce\xba"
DATA2: Final = b"\xab\xeb\xbe\xba"
VDATA: Final = b"\xab\xef\xfe\xba"
VEND: Final = b"\xed\xef\xfe\xda"
ERROR: Final = b"\xab\xad\xba\xda"
END: Final = b"\xed\xed\xde\xde"

MAGIC_BYTES: Final = 4
BLOCK_BYTES_MAX: Final = (1 << 31) - 1
"""Of a block: netcdf-java reads lengths into a signed number of 32 bits."""


def vint(number: int) -> bytes:
    """Return a length as in streams: seven bits in a byte, the lowest ones first."""
    assert number >= 0
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def block(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return vint(len(data)) + data


def message(magic: bytes, body: bytes) -> bytes:
    """Return a message without what may follow it."""
    return magic + block(body)
