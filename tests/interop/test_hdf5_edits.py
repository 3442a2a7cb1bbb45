"""Edits of a netCDF-4 file in place, as HDF5 makes them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

from nczfs.engine.options import Tally
from nczfs.errors import NotPermitted
from nczfs.views.layout import Layout
from nczfs.views.netcdf.hdf5.layout import hdf5_layout
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.reader import read_at
from nczfs.views.segments import Run
from nczfs.views.writer import write_at
from tests.support.netcdf_contents import Handmade, text

SIEVE_BYTES = 64 << 10  # HDF5 writes so much at least around values that it changes


class LayoutFile(io.RawIOBase):
    """A layout as a file, which refuses what the mount refuses: every byte behind its end."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._at = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._layout.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = read_at(self._layout, self._at, len(buffer), Tally())
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def write(self, data: Any) -> int:
        given = memoryview(data).cast("B")
        if self._at + len(given) > self._layout.size:
            raise NotPermitted("behind the end")
        write_at(self._layout, self._at, given)
        self._at += len(given)
        return len(given)

    def truncate(self, size: int | None = None) -> int:
        if size != self._layout.size:
            raise NotPermitted("another size")
        return size


def made() -> Handmade:
    found = Handmade()
    time, x = found.dimension("time", 10, unlimited=True), found.dimension("x", 40_000)
    found.attributes(text("title", "before"))
    found.variable("time", (time,), np.arange(10.0), text("units", "days since 2000-01-01"))
    found.variable("a", (time, x), np.arange(400_000, dtype="f4"))
    found.variable("b", (x,), np.arange(40_000, dtype="i2"))
    found.variable("s", (time,), tuple("abcdefghij"))
    return found


def layout_of(content: Handmade) -> Layout:
    return hdf5_layout(content.content(), content.elements, Templates())


def whole(layout: Layout) -> bytes:
    return bytes(read_at(layout, 0, layout.size, Tally()))


def offset_of(layout: Layout, name: str) -> int:
    at = 0
    for segment in layout.segments:
        if isinstance(segment, Run) and segment.source.name == name:
            return at
        at += segment.size
    raise AssertionError(name)


def test_h5py_edits_values_and_nothing_else_changes() -> None:
    given = made()
    layout = layout_of(given)
    before = whole(layout)
    with h5py.File(LayoutFile(layout), "r+") as file:
        file["a"][3, 5:9] = [1, 2, 3, 4]
        file["time"][2] = 99.5
        file["b"][-1] = -7
    assert given.sources["a"].written == [(120_005, 120_009)]
    assert given.sources["time"].written == [(2, 3)]
    assert given.sources["b"].written == [(39_999, 40_000)]
    assert given.sources["a"].values[120_004:120_010].tolist() == [120_004, 1, 2, 3, 4, 120_009]
    after = whole(layout)
    changed = np.flatnonzero(np.frombuffer(before, "u1") != np.frombuffer(after, "u1"))
    places = [
        (offset_of(layout, name), source.values.nbytes) for name, source in given.sources.items()
    ]
    assert all(any(at <= byte < at + size for at, size in places) for byte in changed.tolist())


def test_opening_for_writing_is_forgotten() -> None:
    given = made()
    layout = layout_of(given)
    before = whole(layout)
    opened = bytearray(before[:48])
    assert opened[:9] == b"\x89HDF\r\n\x1a\n\x02"
    opened[11], opened[44:48] = 1, b"\x12\x34\x56\x78"
    write_at(layout, 0, opened)
    assert whole(layout) == before
    assert not any(source.written for source in given.sources.values())


@pytest.mark.parametrize("byte", [8, 9, 10, 12, 20, 28, 43])
def test_no_other_byte_of_the_superblock_is_forgotten(byte: int) -> None:
    layout = layout_of(made())
    head = bytearray(whole(layout)[:48])
    head[byte] ^= 1
    with pytest.raises(NotPermitted):
        write_at(layout, 0, head)


def test_a_block_around_changed_values_writes_only_those() -> None:
    given = made()
    layout = layout_of(given)
    before = whole(layout)
    begin = offset_of(layout, "b") - SIEVE_BYTES // 2  # over the end of one variable and a gap
    block = bytearray(before[begin : begin + SIEVE_BYTES])
    at = SIEVE_BYTES // 2 + 2 * 100
    block[at : at + 4] = np.array([-1, -2], "i2").tobytes()
    write_at(layout, begin, block)
    assert given.sources["b"].written == [(100, 102)]
    assert given.sources["a"].written == given.sources["time"].written == []


def test_a_write_between_variables_must_be_zeros() -> None:
    given = made()
    layout = layout_of(given)
    at = offset_of(layout, "b")
    assert whole(layout)[at - 8 : at] == bytes(8)  # variables begin at pages
    write_at(layout, at - 8, bytes(8))
    with pytest.raises(NotPermitted):
        write_at(layout, at - 8, b"\0\0\0\1\0\0\0\0" + np.array([55], "i2").tobytes())
    assert given.sources["b"].values[0] == 0


class Recorded(io.BytesIO):
    """A file in memory, and what is written to it: offset and bytes, or a new size."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.writes: list[tuple[int, bytes]] = []

    def write(self, data: Any) -> int:
        self.writes.append((self.tell(), bytes(data)))
        return super().write(data)


EDITS: dict[str, Callable[[Any], object]] = {
    "attribute": lambda file: file.attrs.modify("title", np.bytes_("behind")),
    "new attribute": lambda file: file.attrs.create("new", "value"),
    "long attribute": lambda file: file["a"].attrs.create("long", "x" * 5000),
    "variable": lambda file: file.create_dataset("c", data=np.arange(10.0)),
    "record": lambda file: file["time"].resize((11,)),
    "name": lambda file: file.move("b", "c"),
    "string": lambda file: file["s"].__setitem__(0, "another text"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_every_other_edit_is_refused_and_changes_nothing(edit: Callable[[Any], object]) -> None:
    given = made()
    layout = layout_of(given)
    before = whole(layout)
    recorded = Recorded(before)
    with h5py.File(recorded, "r+") as file:
        edit(file)
    refused = 0
    for offset, data in recorded.writes:
        if offset + len(data) > layout.size:  # the mount refuses it before the layout
            refused += 1
            continue
        try:
            write_at(layout, offset, memoryview(data))
        except NotPermitted:
            refused += 1
    assert refused
    assert whole(layout) == before
    assert not any(source.written for source in given.sources.values())
