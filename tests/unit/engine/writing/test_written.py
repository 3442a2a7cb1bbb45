"""Masks: exactly the elements that were written, in little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.writing.written import BOXES_MAX, Region, WrittenMask
from nczfs.model.boxes import Box

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


@given(st.lists(regions(), max_size=50), st.lists(regions(), max_size=5), boxes())
def test_a_parked_mask_takes_no_memory_and_holds_what_it_held(
    parts: list[Region], more: list[Region], asked: Box
) -> None:
    mask, model = WrittenMask(SHAPE), np.zeros(SHAPE, bool)
    for region in parts:
        mask.add(region)
        model[indexer(region)] = True
    flags = model.copy()
    mask.park(lambda: flags.copy())
    assert mask.nbytes == 0
    assert mask.is_empty <= (not model.any())
    np.testing.assert_array_equal(flags_of(mask), model)
    assert mask.nbytes == 0, "copying needs them for a moment only"
    other = WrittenMask(SHAPE)
    other.update(mask)
    for region in more:
        mask.add(region)
        model[indexer(region)] = True
    np.testing.assert_array_equal(flags_of(mask), model)
    np.testing.assert_array_equal(mask.flags(), model)
    assert mask.covers(asked) == model[asked.slices()].all()
    np.testing.assert_array_equal(flags_of(other), flags)
