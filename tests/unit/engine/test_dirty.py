"""What was written of a chunk: masks, copy on write, and what a flush takes and gives back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.dirty import BOXES_MAX, DirtyChunk, Region, WrittenMask
from nczfs.engine.options import MissingChunks
from nczfs.errors import Unavailable
from nczfs.model.boxes import Box
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, CodecChain
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

SHAPE = (4, 6)
WHOLE = Box((0, 0), SHAPE)


def boxes() -> st.SearchStrategy[Box]:
    def box(ends: tuple[tuple[int, int], ...]) -> Box:
        pairs = [sorted(pair) for pair in ends]
        return Box(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))

    axes = [st.tuples(st.integers(0, n), st.integers(0, n)) for n in SHAPE]
    return st.tuples(*axes).map(box)


def regions() -> st.SearchStrategy[Region]:
    lists = [st.lists(st.integers(0, n - 1), max_size=3) for n in SHAPE]
    arrays = st.tuples(*lists).map(lambda p: np.ix_(*(np.array(part, int) for part in p)))
    steps = st.tuples(*(st.slices(n) for n in SHAPE))
    return st.one_of(boxes(), boxes(), arrays, steps)


def indexer(region: Region) -> Any:
    return region.slices() if isinstance(region, Box) else region


def flags_of(mask: WrittenMask) -> np.ndarray[Any, np.dtype[Any]]:
    """Which elements a mask holds, seen from outside."""
    found = np.zeros(SHAPE, bool)
    mask.copy_onto(found, np.ones(SHAPE, bool))
    return found


@given(st.lists(regions(), max_size=50), boxes())
def test_a_mask_holds_exactly_what_was_added(parts: list[Region], asked: Box) -> None:
    mask, model = WrittenMask(SHAPE), np.zeros(SHAPE, bool)
    for region in parts:
        mask.add(region)
        model[indexer(region)] = True
    np.testing.assert_array_equal(flags_of(mask), model)
    assert mask.covers(asked) == model[asked.slices()].all()
    if model.any():
        assert not mask.is_empty


@given(st.lists(regions(), max_size=40), st.lists(regions(), max_size=40))
def test_two_masks_united_hold_what_either_holds(one: list[Region], other: list[Region]) -> None:
    masks, model = (WrittenMask(SHAPE), WrittenMask(SHAPE)), np.zeros(SHAPE, bool)
    for mask, parts in zip(masks, (one, other), strict=True):
        for region in parts:
            mask.add(region)
            model[indexer(region)] = True
    masks[0].update(masks[1])
    np.testing.assert_array_equal(flags_of(masks[0]), model)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chunk_filled_row_by_row_is_known_to_be_whole_without_a_flag_an_element(
    backwards: bool,
) -> None:
    mask = WrittenMask((100, 6))
    for row in reversed(range(100)) if backwards else range(100):
        assert not mask.covers(Box((0, 0), (100, 6)))
        mask.add(Box((row, 0), (row + 1, 6)))
    assert mask.covers(Box((0, 0), (100, 6)))
    assert mask.nbytes == 0


def test_a_chunk_filled_element_by_element_is_known_to_be_whole() -> None:
    mask = WrittenMask(SHAPE)
    order = [(row, column) for row in range(SHAPE[0]) for column in range(SHAPE[1])]
    for row, column in order[::2] + order[1::2]:
        mask.add(Box((row, column), (row + 1, column + 1)))
    assert mask.covers(WHOLE)


def test_scattered_writes_take_a_byte_an_element_and_no_more() -> None:
    mask = WrittenMask((1000,))
    for position in range(0, 4 * BOXES_MAX, 2):
        mask.add(Box((position,), (position + 1,)))
    assert mask.nbytes == 1000


def chunk(clip: Box = WHOLE, fill: int = -1) -> DirtyChunk:
    dtype = np.dtype("<i4")
    array = ArrayDescription(SHAPE, SHAPE, DataType("<i4", dtype), fill, CodecChain(2))
    io = ChunkIO(MemoryZMap(), ROOT, "v", array, MissingChunks.FILL)
    return DirtyChunk(io, (0, 0), clip)


def full(value: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.full(SHAPE, value, np.int32)


ROW0, ROW1 = Box((0, 0), (1, 6)), Box((1, 0), (2, 6))


def test_a_chunk_of_which_a_part_was_written_cannot_be_read_before_it_has_a_base() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    assert dirty.readable() is None
    values = dirty.complete_with(full(5))
    assert values is not None
    assert values[:, 0].tolist() == [1, 5, 5, 5]
    assert dirty.readable() is values


def test_the_base_is_not_changed_by_what_is_written() -> None:
    dirty, base = chunk(), full(5)
    dirty.write(ROW0, full(1)[:1])
    dirty.complete_with(base)
    dirty.write(ROW1, full(2)[:1])
    assert (base == 5).all()


def test_what_is_written_during_a_flush_does_not_change_what_flies() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    flying = dirty.take()
    assert flying is not None
    dirty.write(ROW0, full(2)[:1])
    assert (flying.values[0] == 1).all()
    assert dirty.take() is None, "one flush of a chunk at a time"
    assert not dirty.settle(full(1), Version("1")), "something is left to write"
    again = dirty.take()
    assert again is not None
    assert (again.values[0] == 2).all()
    assert again.version == Version("1")
    assert dirty.settle(again.values, Version("2"))
    assert dirty.gone


def test_a_read_during_a_flush_sees_the_base_what_flies_and_what_came_since() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    dirty.take()
    dirty.write(ROW1, full(2)[:1])
    values = dirty.complete_with(full(5))
    assert values is not None
    assert values[:, 0].tolist() == [1, 2, 5, 5]


def test_after_a_failure_all_is_dirty_and_newer_values_win() -> None:
    dirty = chunk()
    dirty.write(Box((0, 0), (2, 6)), full(1)[:2])
    dirty.take()
    dirty.write(ROW1, full(2)[:1])
    dirty.fail(Unavailable("down"))
    assert isinstance(dirty.error, Unavailable)
    again = dirty.take()
    assert again is not None
    target = full(5)
    again.written.copy_onto(target, again.values)
    assert target[:, 0].tolist() == [1, 2, 5, 5]


def test_a_failure_without_later_writes_keeps_what_flew() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    first = dirty.take()
    dirty.fail(Unavailable("down"))
    again = dirty.take()
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(again.values, first.values)
    assert flags_of(again.written)[0].all()
    assert not flags_of(again.written)[1:].any()


def test_after_a_flush_the_rest_is_what_the_store_has() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    dirty.take()
    dirty.write(ROW1, full(2)[:1])
    stored = full(7)
    stored[0] = 1
    dirty.settle(stored, Version("1"))
    values = dirty.readable()
    assert values is not None
    assert values[:, 0].tolist() == [1, 2, 7, 7]


def test_a_chunk_at_the_edge_is_whole_when_all_that_lies_in_the_array_was_written() -> None:
    clip = Box((0, 0), (2, 6))
    dirty = chunk(clip)
    dirty.write(ROW0, full(1)[:1])
    dirty.write(ROW1, full(1)[:1])
    snapshot = dirty.take()
    assert snapshot is not None
    assert snapshot.is_whole
    assert (snapshot.values[2:] == -1).all(), "fill beyond the edge"


def test_what_was_lent_is_copied_before_it_is_changed() -> None:
    dirty, own = chunk(), full(1)
    dirty.lend(own)
    assert dirty.readable() is own
    dirty.take()
    dirty.write(ROW0, full(2)[:1])
    assert (own == 1).all()


def test_a_chunk_that_is_gone_gives_nothing() -> None:
    dirty = chunk()
    dirty.write(ROW0, full(1)[:1])
    dirty.take()
    dirty.settle(full(1), Version("1"))
    assert dirty.complete_with(full(5)) is None
    assert dirty.take() is None
