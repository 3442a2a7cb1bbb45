"""A sparse file in memory, which HDF5 writes a template into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from nczfs.views.netcdf.hdf5.template import FileExtent

BLOCK_BYTES: Final = 512


class SparseFile:
    """A file of any size with bytes in few places: what h5py asks of a file object.

    Attributes
    ----------
    size : in bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._at = 0
        self._blocks: dict[int, bytearray] = {}

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset from the start (0), from here (1) or from the end (2)."""
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the offset of what follows."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what follows, up to the end."""
        out = memoryview(buffer).cast("B")
        count = max(0, min(len(out), self.size - self._at))
        done = 0
        for number, start, stop in self._spans(self._at, count):
            block = self._blocks.get(number)
            out[done : done + stop - start] = block[start:stop] if block else bytes(stop - start)
            done += stop - start
        self._at += count
        return count

    def write(self, data: Any) -> int:
        """Replace what follows."""
        given = memoryview(data).cast("B")
        done = 0
        for number, start, stop in self._spans(self._at, len(given)):
            block = self._blocks.get(number)
            if block is None:
                block = self._blocks[number] = bytearray(BLOCK_BYTES)
            block[start:stop] = given[done : done + stop - start]
            done += stop - start
        self._at += len(given)
        if given:
            self.size = max(self.size, self._at)
        return len(given)

    def truncate(self, size: int) -> int:
        """Set the size. HDF5 cuts off only what it never wrote."""
        self.size = size
        return size

    def flush(self) -> None:
        """Do nothing: everything is in memory."""

    def contents(self, places: Iterable[FileExtent]) -> tuple[tuple[FileExtent, ...], bytes]:
        """Return where some places have other bytes than zeros, and the bytes one after the other.

        Parameters
        ----------
        places : ascending.
        """
        found: list[FileExtent] = []
        data = bytearray()
        written = iter(sorted(self._blocks))
        number = next(written, None)
        for offset, nbytes in places:
            stop = offset + nbytes
            while number is not None and number * BLOCK_BYTES < stop:
                at = number * BLOCK_BYTES
                begin, end = max(at, offset), min(at + BLOCK_BYTES, stop)
                if begin < end and any(piece := self._blocks[number][begin - at : end - at]):
                    if found and sum(found[-1]) == begin:
                        found[-1] = FileExtent(found[-1].offset, found[-1].nbytes + end - begin)
                    else:
                        found.append(FileExtent(begin, end - begin))
                    data += piece
                if at + BLOCK_BYTES > stop:  # the next place may begin in this block
                    break
                number = next(written, None)
        return tuple(found), bytes(data)

    def _spans(self, offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield the blocks of a range: number, and from where to where in it."""
        stop = offset + count
        while offset < stop:
            number, start = divmod(offset, BLOCK_BYTES)
            end = min(BLOCK_BYTES, start + stop - offset)
            yield number, start, end
            offset += end - start
