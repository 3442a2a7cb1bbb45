"""The records of a zip archive as bytes: APPNOTE.TXT of PKWARE, sections 4.3.7 to 4.3.16 and 4.5.3.

New members are stored without compression, as in netcdf-c: chunks are already compressed.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Final

from nczfs.errors import CorruptStore
from nczfs.plaindata import frozen

LOCAL: Final = struct.Struct("<4s5H3L2H")
LENGTHS: Final = struct.Struct("<2H")  # name and extra fields, at the end of a local header
CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
ENTRY_LENGTHS: Final = struct.Struct("<4s24x3H")  # magic; lengths of name, extra fields and comment
END: Final = struct.Struct("<4s4H2LH")
END64_LOCATOR: Final = struct.Struct("<4sLQL")
END64: Final = struct.Struct("<4sQ2H2L4Q")
EXTRA: Final = struct.Struct("<2H")

LOCAL_MAGIC: Final = b"PK\3\4"
CENTRAL_MAGIC: Final = b"PK\1\2"
END_MAGIC: Final = b"PK\5\6"
END64_MAGIC: Final = b"PK\6\6"
END64_LOCATOR_MAGIC: Final = b"PK\6\7"

FULL16: Final = 0xFFFF
FULL32: Final = 0xFFFFFFFF
STORED: Final = 0
ENCRYPTED: Final = 0x1
HAS_DESCRIPTOR: Final = 0x8
UTF8: Final = 0x800

_ZIP64: Final = 1
_UNIX: Final = 3 << 8  # the system of the external attributes
_NEEDED: Final = 20
_NEEDED64: Final = 45
_FILE_MODE: Final = 0o100666
_DIRECTORY_MODE: Final = 0o040777


@frozen
class NewMember:
    """The fields of a new member in both of its headers.

    Attributes
    ----------
    name : as in the archive; one that ends in "/" is a directory.
    when : date and time as MS-DOS packs them, local.
    """

    name: bytes
    size: int
    crc: int
    when: tuple[int, int]

    def local_header(self) -> bytes:
        """Return the header before the data."""
        extra = b""
        sizes = (self.size, self.size)
        needed = _NEEDED
        if self.size >= FULL32:
            extra = zip64_extra(*sizes)
            sizes = (FULL32, FULL32)
            needed = _NEEDED64
        fixed = LOCAL.pack(
            LOCAL_MAGIC, needed, UTF8, STORED, *self.when, self.crc, *sizes, len(self.name),
            len(extra),
        )  # fmt: skip
        return fixed + self.name + extra

    def central_entry(self, offset: int) -> bytes:
        """Return the entry of the central directory, for a local header at `offset`."""
        wide = [value for value in (self.size, self.size, offset) if value >= FULL32]
        extra = zip64_extra(*wide) if wide else b""
        size = min(self.size, FULL32)
        needed = _NEEDED64 if wide else _NEEDED
        attributes = _DIRECTORY_MODE << 16 | 0x10 if self.name.endswith(b"/") else _FILE_MODE << 16
        fixed = CENTRAL.pack(
            CENTRAL_MAGIC, _UNIX | needed, needed, UTF8, STORED, *self.when, self.crc, size, size,
            len(self.name), len(extra), 0, 0, 0, attributes, min(offset, FULL32),
        )  # fmt: skip
        return fixed + self.name + extra


def zip64_extra(*values: int) -> bytes:
    """Return the extra field with the values that the fixed fields have no room for."""
    return EXTRA.pack(_ZIP64, 8 * len(values)) + struct.pack(f"<{len(values)}Q", *values)


def without_zip64(extra: bytes) -> bytes:
    """Return extra fields without that of zip64."""
    kept = []
    at = 0
    while at + EXTRA.size <= len(extra):
        kind, length = EXTRA.unpack_from(extra, at)
        if kind != _ZIP64:
            kept.append(extra[at : at + EXTRA.size + length])
        at += EXTRA.size + length
    return b"".join(kept)


def widened(extra: bytes, values: Sequence[int]) -> list[int]:
    """Replace full values of (size, compressed size, offset) by those of the zip64 field.

    Raises
    ------
    CorruptStore : the field is cut off.
    """
    at = 0
    while at + EXTRA.size <= len(extra):
        kind, length = EXTRA.unpack_from(extra, at)
        at += EXTRA.size
        if kind == _ZIP64:
            count = min(length, len(extra) - at) // 8
            wide = iter(struct.unpack_from(f"<{count}Q", extra, at))
            try:
                return [next(wide) if value == FULL32 else value for value in values]
            except StopIteration:
                raise CorruptStore("a zip64 field of its central directory is cut off") from None
        at += length
    return list(values)


def end_records(
    count: int, size: int, start: int, *, shift: int, comment: bytes, is_wide: bool = False
) -> bytes:
    """Return the records after a central directory of `count` entries at byte `start`.

    Parameters
    ----------
    shift : number of bytes before the archive; offsets are counted from its beginning.
    is_wide : whether the zip64 records are written even if the others have room for all numbers.
    """
    offset = start - shift
    end64 = b""
    if is_wide or count >= FULL16 or size >= FULL32 or offset >= FULL32:
        record = END64.pack(
            END64_MAGIC, END64.size - 12, _UNIX | _NEEDED64, _NEEDED64, 0, 0, count, count, size,
            offset,
        )  # fmt: skip
        end64 = record + END64_LOCATOR.pack(END64_LOCATOR_MAGIC, 0, offset + size, 1)
    small = min(count, FULL16)
    end = END.pack(
        END_MAGIC, 0, 0, small, small, min(size, FULL32), min(offset, FULL32), len(comment)
    )
    return end64 + end + comment


def dos_time(when_s: float) -> tuple[int, int]:
    """Return time and date as two fields of MS-DOS: local, from 1980 to 2107."""
    now = time.localtime(when_s)
    year = min(max(now.tm_year, 1980), 2107)
    clock = now.tm_hour << 11 | now.tm_min << 5 | now.tm_sec // 2
    return clock, (year - 1980) << 9 | now.tm_mon << 5 | now.tm_mday
