"""Zip archives for tests: from other programs, damaged on purpose, or with very many members."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Final

# Offsets of fields in an entry of the central directory.
FLAGS: Final = 8
METHOD: Final = 10
CRC: Final = 16
COMPRESSED_SIZE: Final = 20
SIZE: Final = 24
OFFSET: Final = 42


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Make an archive of members in order; a name may come twice, "name/" is a directory."""
    file = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def patched(data: bytes, central: Mapping[int, bytes]) -> bytes:
    """Overwrite fields of an archive's first central entry, by their offsets in it."""
    changed = bytearray(data)
    at = data.index(b"PK\1\2")
    for offset, value in central.items():
        changed[at + offset : at + offset + len(value)] = value
    return bytes(changed)


def deflate64_run(first: int, *, lengths: list[int]) -> bytes:
    """Return one byte and copies of it, in a final block of fixed codes.

    Deflate64 is Deflate except that code 285 means 3 + 16 bits and not 258 (and for distances).
    """
    bits = ""

    def code(value: int, width: int) -> str:
        return f"{value:0{width}b}"

    bits += "1" + "10"  # final; fixed codes, low bit first
    bits += code(0x30 + first, 8)
    for length in lengths:
        bits += code(0b11000000 + 285 - 280, 8)
        bits += code(length - 3, 16)[::-1]  # extra bits come low bit first
        bits += code(0, 5)  # distance 1
    bits += code(0, 7)  # end of block
    padded = bits + "0" * (-len(bits) % 8)
    return bytes(int(padded[at : at + 8][::-1], 2) for at in range(0, len(padded), 8))


def zipped_deflate64(compressed: bytes, content_size: int, crc: int) -> bytes:
    """Make an archive of one Deflate64 member "a" with any declared sizes."""
    data = zipped(("a", compressed))
    return patched(data, {METHOD: u16(9), SIZE: u32(content_size), CRC: u32(crc)})


def zipped_many(count: int, name: Callable[[int], str]) -> bytes:
    """Make an archive whose members all refer to one local header."""
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(b"x"), 1, 1, 0, 0) + b"x"
    entries = []
    for index in range(count):
        raw = name(index).encode()
        entries.append(
            struct.pack(
                "<4s6H3L5H2L",
                *(b"PK\1\2", 20, 20, 0, 0, 0, 0, zlib.crc32(b"x"), 1, 1),
                *(len(raw), 0, 0, 0, 0, 0, 0),
            )
            + raw
        )
    directory = b"".join(entries)
    start = len(local)
    end64_at = start + len(directory)
    end64 = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start
    )
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end64_at, 1)
    full16, full32 = 0xFFFF, 0xFFFFFFFF
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, full16, full16, full32, full32, 0)
    return local + directory + end64 + locator + end


def u16(value: int) -> bytes:
    """Return a field of two bytes."""
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    """Return a field of four bytes."""
    return value.to_bytes(4, "little")
