"""The sizes of pages in parquet, which the library allocates without comparing them with others.

A file of 33 KB may state in its footer that a column takes a kilobyte, and in the header of a page
that this expands to a gigabyte. Headers are structs of Thrift's compact protocol (Apache Parquet
Format, PageHeader).
"""

from __future__ import annotations

from typing import Final

from nczfs.buffers import Buffer

_UNCOMPRESSED, _COMPRESSED = 2, 3  # fields of a PageHeader
_NUMBERS: Final = frozenset({4, 5, 6})  # types of Thrift: integers of 16, 32 and 64 bits
_DEPTH_MAX: Final = 8
_VARINT_BYTES_MAX: Final = 10


def expanded_bytes(body: Buffer, start: int, stop: int) -> int:
    """Return what the pages of a column come to.

    Parameters
    ----------
    start, stop : of the column's chunk in the file.

    Raises
    ------
    ValueError : there are no pages, or they do not end where the chunk ends.
    """
    total, at = 0, start
    if not 0 <= start <= stop <= len(body):
        raise ValueError("a column is not in the file")
    while at < stop:
        header = _Header(body, at, stop)
        header.read()
        compressed, uncompressed = header.sizes[_COMPRESSED], header.sizes[_UNCOMPRESSED]
        if compressed < 0 or uncompressed < 0:
            raise ValueError("a page has a negative size")
        total += uncompressed
        at = header.at + compressed
    if at != stop:
        raise ValueError("a page is longer than its column")
    return total


class _Header:
    """A reader of one header.

    Attributes
    ----------
    at : the position in the file.
    sizes : by the number of the field.
    """

    def __init__(self, body: Buffer, at: int, stop: int) -> None:
        self._body = body
        self._stop = stop
        self.at = at
        self.sizes = {_COMPRESSED: -1, _UNCOMPRESSED: -1}

    def read(self) -> None:
        self._struct(0)

    def _struct(self, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise ValueError("the header of a page is too deep")
        field = 0
        while (head := self._byte()) & 15:
            delta, kind = head >> 4, head & 15
            field = field + delta if delta else _signed(self._varint())
            if not depth and field in self.sizes and kind in _NUMBERS:
                self.sizes[field] = _signed(self._varint())
            else:
                self._skip(kind, depth, is_field=True)

    def _skip(self, kind: int, depth: int, *, is_field: bool = False) -> None:
        match kind:
            case 1 | 2:  # a field has its truth in its type
                self._pass(0 if is_field else 1)
            case 3:
                self._pass(1)
            case 4 | 5 | 6:
                self._varint()
            case 7:
                self._pass(8)
            case 8:
                self._pass(self._varint())
            case 9 | 10:
                head = self._byte()
                count = head >> 4 if head >> 4 < 15 else self._varint()
                if count > self._stop - self.at:
                    raise ValueError("the header of a page is damaged")
                for _ in range(count):
                    self._skip(head & 15, depth + 1)
            case 12:
                self._struct(depth + 1)
            case _:  # a map, which no header has
                raise ValueError("the header of a page is damaged")

    def _byte(self) -> int:
        self._pass(1)
        return self._body[self.at - 1]

    def _pass(self, count: int) -> None:
        self.at += count
        if self.at > self._stop:
            raise ValueError("the header of a page is cut short")

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("the header of a page is damaged")


def _signed(number: int) -> int:
    return number >> 1 ^ -(number & 1)
