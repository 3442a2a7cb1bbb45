"""A reader of classic netCDF files, by the words of the format's specification alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]
Attributes = dict[str, tuple[int, bytes]]

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
CODES = {
    **{1: "i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8"},
    **{7: "u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"},
}


@dataclass
class ClassicVariable:
    name: str
    shape: tuple[int, ...]
    dimensions: tuple[str, ...]
    attributes: Attributes
    type: int
    vsize: int
    begin: int
    is_record: bool

    @property
    def row_bytes(self) -> int:
        """Bytes of the whole, or of one record, without padding."""
        return prod(self.shape[1:] if self.is_record else self.shape) * SIZES[self.type]


@dataclass
class ClassicFile:
    """The header of a file.

    Attributes
    ----------
    begins : where in the header the offsets stand, and in how many bytes.
    size : of the header.
    """

    version: int
    records: int
    dimensions: dict[str, int]
    attributes: Attributes
    variables: dict[str, ClassicVariable] = field(default_factory=dict)
    begins: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0

    @property
    def record_bytes(self) -> int:
        rows = [v.row_bytes for v in self.variables.values() if v.is_record]
        return rows[0] if len(rows) == 1 else sum(-(-row // 4) * 4 for row in rows)

    def values(self, name: str, read: Callable[[int, int], bytes]) -> Values:
        """All values; `read` returns bytes from an offset on."""
        variable = self.variables[name]
        if not variable.is_record:
            data = read(variable.begin, variable.row_bytes)
        else:
            data = b"".join(
                read(variable.begin + number * self.record_bytes, variable.row_bytes)
                for number in range(self.records)
            )
        return np.frombuffer(data, CODES[variable.type]).reshape(variable.shape)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 4
        assert data[:3] == b"CDF"
        self.version = data[3]
        self.number_bytes = 8 if self.version == 5 else 4
        self.offset_bytes = 4 if self.version == 1 else 8

    def bytes(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        assert len(found) == count
        self.at += count
        padding = -count % 4
        assert self.data[self.at : self.at + padding] == bytes(padding)
        self.at += padding
        return found

    def number(self, size: int | None = None) -> int:
        return int.from_bytes(self.bytes(size or self.number_bytes), "big")

    def name(self) -> str:
        return self.bytes(self.number()).decode()

    def list(self, tag: int) -> range:
        found, count = self.number(4), self.number()
        assert (found, bool(count)) in ((tag, True), (0, False))
        return range(count)

    def attributes(self) -> Attributes:
        found: Attributes = {}
        for _ in self.list(12):
            name, nc_type = self.name(), self.number(4)
            found[name] = (nc_type, self.bytes(self.number() * SIZES[nc_type]))
        return found


def parse(data: bytes) -> ClassicFile:
    """The header at the beginning of a file."""
    reader = _Reader(data)
    records = reader.number()
    lengths: list[tuple[str, int]] = [(reader.name(), reader.number()) for _ in reader.list(10)]
    assert [length for _, length in lengths].count(0) <= 1
    found = ClassicFile(reader.version, records, dict(lengths), reader.attributes())
    for _ in reader.list(11):
        name = reader.name()
        ids = [reader.number() for _ in range(reader.number())]
        attributes, nc_type = reader.attributes(), reader.number(4)
        vsize = reader.number()
        found.begins.append((reader.at, reader.offset_bytes))
        begin = reader.number(reader.offset_bytes)
        shape = tuple(lengths[i][1] or records for i in ids)
        is_record = bool(ids) and lengths[ids[0]][1] == 0
        assert all(lengths[i][1] for i in ids[1:])
        found.variables[name] = ClassicVariable(
            name,
            shape,
            tuple(lengths[i][0] for i in ids),
            attributes,
            nc_type,
            vsize,
            begin,
            is_record,
        )
    found.size = reader.at
    return found
