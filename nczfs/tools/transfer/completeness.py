"""Whether a netCDF file is complete: copies that were cut short must not be taken for files."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from math import prod
from typing import BinaryIO, Final

from nczfs.errors import CorruptStore
from nczfs.model.classic import ATTRIBUTES, DIMENSIONS, NUMBER_OF_TYPE, SIZES, VARIABLES, padded
from nczfs.zmap.url import NETCDF_MAGIC

_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_ITEM_BYTES: Final = {number: SIZES[nc_type] for nc_type, number in NUMBER_OF_TYPE.items()}
_HEADER_BYTES_MAX: Final = 1 << 30


def check_complete(path: str, name: str) -> None:
    """Check that nothing is missing at the end of a netCDF file.

    netCDF libraries read zeros where a file of netCDF-3 was cut short, and HDF5 reads a file whose
    writer was killed. The length follows from the header of a netCDF-3 file (NetCDF Classic Format
    Specification); HDF5 notes an open writer in the superblock of its versions 2 and 3 (HDF5 File
    Format Specification, II.A), and notices a missing end itself.

    Parameters
    ----------
    name : of the file, for messages.

    Raises
    ------
    CorruptStore : it is no netCDF file, or something is missing.
    """
    with open(path, "rb") as file:
        magic = file.read(8)
        if magic == _HDF5:
            head = file.read(4)
            if len(head) == 4 and head[0] in (2, 3) and head[3] & 1:
                raise CorruptStore(f"{name}: its writer has not closed it")
            return
        if not magic.startswith(NETCDF_MAGIC):
            raise CorruptStore(f"{name}: is neither netCDF nor CDL")
        size = os.fstat(file.fileno()).st_size
        try:
            wanted = _Header(file, magic[3]).file_bytes()
        except (struct.error, KeyError, IndexError, EOFError):
            raise CorruptStore(f"{name}: its netCDF header is damaged or cut short") from None
    if size < wanted:
        raise CorruptStore(f"{name}: is cut short: {size} of {wanted} bytes are there")


@dataclass
class _Header:
    """A parser of the header of a netCDF-3 file."""

    file: BinaryIO
    version: int

    def file_bytes(self) -> int:
        """Return the least size of the file. Padding at its end may be missing."""
        self.file.seek(4)
        records = self._count()
        is_streaming = records == (1 << (64 if self.version == 5 else 32)) - 1
        lengths = [self._dimension() for _ in range(self._members(DIMENSIONS))]
        self._skip_attributes()
        fixed_end, record_ends, record_bytes = self.file.tell(), [], []
        for _ in range(self._members(VARIABLES)):
            shape, item, begin = self._variable(lengths)
            is_record = bool(shape) and shape[0] == 0
            nbytes = prod(shape[1:] if is_record else shape) * item
            if is_record:
                record_ends.append(begin + nbytes)
                record_bytes.append(nbytes)
            else:
                fixed_end = max(fixed_end, begin + nbytes)
        if is_streaming or not records or not record_ends:
            return max(fixed_end, self.file.tell())
        step = sum(map(padded, record_bytes))
        if len(record_bytes) == 1:  # a single record variable has no padding
            step = record_bytes[0]
        return max(fixed_end, max(record_ends) + (records - 1) * step)

    def _members(self, tag: int) -> int:
        """Return the number of members of a list with a tag, or of an absent one."""
        found, count = self._number(4), self._count()
        if found not in (0, tag) or (found == 0 and count):
            raise KeyError(found)
        return count

    def _dimension(self) -> int:
        self._skip_text()
        return self._count()

    def _variable(self, lengths: list[int]) -> tuple[list[int], int, int]:
        """Return the shape, with 0 for the record dimension, the bytes of an item, the begin."""
        self._skip_text()
        shape = [lengths[self._count()] for _ in range(self._count())]
        self._skip_attributes()
        item = _ITEM_BYTES[self._number(4)]
        self._count()  # vsize, which is redundant
        return shape, item, self._number(4 if self.version == 1 else 8)

    def _skip_attributes(self) -> None:
        for _ in range(self._members(ATTRIBUTES)):
            self._skip_text()
            item = _ITEM_BYTES[self._number(4)]
            self._skip(padded(item * self._count()))

    def _skip_text(self) -> None:
        self._skip(padded(self._count()))

    def _count(self) -> int:
        return self._number(8 if self.version == 5 else 4)

    def _number(self, nbytes: int) -> int:
        data = self.file.read(nbytes)
        found: int = struct.unpack(">I" if nbytes == 4 else ">Q", data)[0]
        return found

    def _skip(self, nbytes: int) -> None:
        if self.file.tell() + nbytes > _HEADER_BYTES_MAX:
            raise EOFError
        self.file.seek(nbytes, os.SEEK_CUR)
