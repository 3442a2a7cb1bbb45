"""Arrays whose values are computed from others: they follow them, and cannot be written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.codecs.base import TooLong
from nczfs.engine.arrays.array import Array
from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.arrays.selection import select
from nczfs.engine.chunks.base import ChunkSource, Fetched
from nczfs.engine.chunks.loaded import LoadedChunk
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.options import Tally
from nczfs.errors import NotWritable
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box, whole
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.keys import Prefix
from nczfs.zmap.memory import MemoryZMap

LENGTH, CHUNK = 10, 4


class Sum(ChunkSource):
    """The sum of two arrays of one shape and chunk shape."""

    def __init__(self, one: Array, other: Array) -> None:
        self.array = one.description
        self.inputs = (one.stored, other.stored)
        self.computed: list[ChunkIndex] = []
        self._summands = (one, other)

    @property
    def is_cheap(self) -> bool:
        return False

    def require(self) -> None:
        for array in self._summands:
            array.require_codecs()

    def fetch(self, chunk: ChunkIndex, known: LoadedChunk | None) -> Fetched:
        def compute() -> LoadedChunk:
            self.computed.append(chunk)
            box = self.array.grid.box(chunk)
            total = np.zeros(self.array.chunk_shape, self.array.dtype.native)
            for array in self._summands:
                part = np.empty(box.shape, total.dtype)
                array.read_box(box, part, Tally())
                total[tuple(map(slice, box.shape))] += part
            return LoadedChunk(total, total.nbytes, None)

        return compute

    def resized(self, array: ArrayDescription) -> Sum:
        return self

    def reporting(self, too_long: TooLong) -> Sum:
        return self


class Open:
    """A dataset with the arrays ``a`` and ``b``, and their sum."""

    def __init__(self, memory: MemoryZMap) -> None:
        self.dataset = open_zmap(memory, "w")
        for name in ("a", "b"):
            self.dataset.create_variable(name, (LENGTH,), "i4", chunks=(CHUNK,), fillvalue=0)
        self.dataset.sync()
        inner = self.dataset._dataset
        engine = inner.engine
        self.a, self.b = self.dataset.variables["a"], self.dataset.variables["b"]
        self.source = Sum(*(inner.array(each.description) for each in (self.a, self.b)))
        stored = StoredArray(memory, ArrayPlace(Prefix("sum")))
        chunks = ArrayChunks(self.source, stored, engine.cache, engine.writeback, engine.pools)
        self.total = Array(chunks, engine.options, far=False)

    def values(self) -> list[int]:
        out = np.empty(LENGTH, np.int32)
        self.total.read_run(0, out, Tally())
        return [int(value) for value in out]


@pytest.fixture
def opened() -> Iterator[Open]:
    opened = Open(MemoryZMap())
    with opened.dataset:
        yield opened


def test_a_computed_array_shows_what_its_inputs_are_and_what_they_become(opened: Open) -> None:
    assert opened.values() == [0] * LENGTH
    opened.a[...] = np.arange(LENGTH)
    opened.b[3] = 100
    wanted = [*range(3), 103, *range(4, LENGTH)]
    assert opened.values() == wanted, "although nothing of it is stored yet"
    opened.dataset.sync()
    assert opened.values() == wanted
    out = np.empty(3, np.int32)
    assert opened.total.peek_run(2, out, 0.0)
    assert out.tolist() == wanted[2:5]
    opened.a[2] = -2
    assert not opened.total.peek_run(2, out, 0.0), "it must be computed anew"
    assert opened.values() == [0, 1, -2, *wanted[3:]]


def test_a_computed_chunk_is_kept_as_long_as_its_inputs_do_not_change(opened: Open) -> None:
    opened.a[...] = 1
    opened.values()
    opened.source.computed.clear()
    assert opened.values() == [1] * LENGTH
    selected = np.empty((2,), np.int32)
    selection = select(slice(1, 9, 7), (LENGTH,))
    opened.total.read_selection(selection, selected, Tally())
    assert selected.tolist() == [1, 1]
    assert opened.source.computed == []


def test_a_computed_array_cannot_be_written(opened: Open) -> None:
    values: Values = np.ones(LENGTH, np.int32)
    for box in (whole((LENGTH,)), Box((1,), (2,))):
        with pytest.raises(NotWritable, match="computed"):
            opened.total.write_box(box, values[: box.size])
    with pytest.raises(NotWritable, match="computed"):
        opened.total.writer()
    assert opened.values() == [0] * LENGTH
