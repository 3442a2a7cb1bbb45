"""Indexing means what numpy means by it, each part along its own dimension, or is refused."""

from __future__ import annotations

from itertools import product, starmap
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.arrays.selection import Selection, select, select_for_writing
from nczfs.errors import BadSelection
from nczfs.model.grid import ChunkGrid, ChunkIndex, RegularGrid
from nczfs.testing import indexing
from tests.support.grids import grids

shapes = st.lists(st.integers(0, 6), max_size=4).map(tuple)


BOUNDS = (None, *range(-6, 7))
SLICES = list(starmap(slice, product(BOUNDS, BOUNDS, (None, -3, -2, -1, 1, 2, 3))))
SHORT = pytest.mark.parametrize("length", [0, 1, 4])


@given(shapes, st.data())
def test_what_the_picks_collect_from_the_chunks_is_what_numpy_selects(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    index = data.draw(indexing.indices(shape))
    array = np.arange(prod(shape)).reshape(shape)
    grid = data.draw(grids(shape))
    selection = select(index, shape)
    collected = np.full(selection.shape, -1)
    chunks = []
    selections = selection.by_chunk(grid)
    for selected in selections:
        chunks.append(selected.chunk)
        collected[selected.target] = chunk_of(array, grid, selected.chunk)[selected.source]
    assert indexing.same_bits(selection.result(collected), indexing.read(array, index))
    assert selection.result_shape == indexing.result_shape(shape, index)
    assert chunks == sorted(set(chunks)), "each chunk once, in order of the grid"
    assert len(selections) == len(chunks)


@given(shapes, st.data())
def test_values_spread_over_a_selection_reach_the_elements_that_numpy_assigns(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    index = data.draw(indexing.indices(shape))
    wanted = np.full(shape, -1)
    given_shape = data.draw(indexing.narrowed(indexing.result_shape(shape, index)))
    values = np.arange(prod(given_shape)).reshape(given_shape)
    indexing.write(wanted, index, values)

    written = np.full(shape, -1)
    selection = select(index, shape)
    spread = selection.spread(values)
    grid = data.draw(grids(shape))
    for selected in selection.by_chunk(grid):
        part = chunk_of(written, grid, selected.chunk)
        part[selected.source] = spread[selected.target]
    np.testing.assert_array_equal(written, wanted)


@SHORT
def test_every_slice_reads_and_writes_the_elements_that_it_does_in_numpy(length: int) -> None:
    array = np.arange(length)
    for index, size in product(SLICES, (1, 2, 5)):
        selection = select(index, (length,))
        values = np.arange(len(array[index]))
        spread = selection.spread(values)
        found, written, wanted = (np.full(each, -1) for each in (len(values), length, length))
        wanted[index] = values
        grid = RegularGrid((length,), (size,))
        for selected in selection.by_chunk(grid):
            found[selected.target] = chunk_of(array, grid, selected.chunk)[selected.source]
            part = chunk_of(written, grid, selected.chunk)
            part[selected.source] = spread[selected.target]
        assert selection.result(found).tolist() == array[index].tolist(), (index, size)
        assert written.tolist() == wanted.tolist(), (index, size)


def test_the_last_value_stays_where_a_position_is_given_many_times() -> None:
    written, values = np.full(4, -1), np.arange(200)
    grid = RegularGrid((4,), (2,))
    for selected in select([0, 1, 3, 1] * 50, (4,)).by_chunk(grid):
        part = chunk_of(written, grid, selected.chunk)
        part[selected.source] = values[selected.target]
    assert written.tolist() == [196, 199, -1, 198]


@pytest.mark.parametrize("index", [np.s_[:, :], np.s_[6:0:-1, 1:4], np.s_[[5, 0, 3, 4], 2:]])
def test_chunks_of_a_unit_follow_each_other_and_are_those_of_the_selection(index: object) -> None:
    found = select(index, (7, 5)).by_chunk(RegularGrid((7, 5), (2, 1)))
    wanted = sorted(found, key=lambda s: (s.chunk[0] // 2, s.chunk[1] // 2, s.chunk))
    assert list(map(repr, found.by_unit(RegularGrid((7, 5), (4, 2))))) == list(map(repr, wanted))


@given(shapes, st.data())
def test_a_selection_without_gaps_is_a_box_of_the_same_elements(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    index = data.draw(indexing.indices(shape))
    array = np.arange(prod(shape)).reshape(shape)
    selection = select(index, shape)
    if selection.box is None:
        assert any(not isinstance(axis, range) or axis.step != 1 for axis in selection.axes)
    else:
        found = selection.result(array[selection.box.slices()])
        assert indexing.same_bits(found, indexing.read(array, index))


def test_the_usual_selections_are_boxes() -> None:
    def box(*index: object) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        found = select(index, (10, 20)).box
        return None if found is None else (found.start, found.stop)

    assert box() == ((0, 0), (10, 20))
    assert box(3) == ((3, 0), (4, 20))
    assert box(slice(None, None, -1), slice(2, 5)) == ((0, 2), (10, 5))
    assert box(slice(None, None, 2)) is None
    assert box([1, 2]) is None


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (None, "newaxis"),
        (3, "index 3 is out of range for length 3"),
        (-4, "out of range"),
        ([0, 3], "index 3 is out of range"),
        ([0, -4], "index -4 is out of range"),
        ((0, 0, 0), "too many"),
        ((..., ...), "one ellipsis"),
        (True, "not an index"),
        (np.True_, "not an index"),
        (1.5, "not an index"),
        ("x", "not an index"),
        ([0.5], "not a type for positions"),
        (["x"], "not a type for positions"),
        ([[0, 1]], "2 dimensions"),
        (np.array(0.5), "not an index"),
        ([True, False], "a mask of length 2 for a dimension of length 3"),
        (slice(None, None, 0), "dimension 0: .* zero"),
        ((0, slice("a", None)), "dimension 1: slice"),
    ],
)
def test_what_is_no_index_is_refused_with_the_reason(index: object, message: str) -> None:
    with pytest.raises(BadSelection, match=message):
        select(index, (3, 2))
    is_beyond = message.startswith("index 3")
    for unlimited in (False,) if is_beyond else (False, True):
        with pytest.raises(BadSelection, match=message):
            select_for_writing(index, (3, 2), (unlimited, unlimited), ())


@pytest.mark.parametrize(
    ("index", "shape", "message"),
    [
        ((), (2, 2), r"\(2, 2\) do not fit a selection of shape \(3, 2\)"),
        ((0,), (3, 2), r"do not fit a selection of shape \(2,\)"),
        (([0, 1],), (3, 2), "do not fit"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    index: tuple[object, ...], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(BadSelection, match=message):
        select(index, (3, 2)).spread(np.zeros(shape))


def test_leading_dimensions_of_length_1_are_surplus_as_for_numpy() -> None:
    assert select((0,), (3, 2)).spread(np.zeros((1, 1, 2))).shape == (1, 2)


LENGTH = 4


def reached(index: slice, length: int, count: int) -> range:
    """The positions to which values of a count are written, from the first one to the last."""
    step = index.step or 1
    start, stop = (
        None if bound is None else bound + length if bound < 0 else bound
        for bound in (index.start, index.stop)
    )
    if step < 0:
        first = length - 1 if start is None else start
        last = -1 if stop is None else max(stop, -1)
        return range(first, last, step) if first >= 0 else range(0)
    first = max(start or 0, 0)
    end = max(length, first + (count - 1) * step + 1) if stop is None else max(stop, 0)
    return range(first, end, step)


@SHORT
def test_every_slice_of_an_unlimited_dimension_counts_from_its_present_end(length: int) -> None:
    for index, values in product(SLICES, ((), (0,), (1,), (7,))):
        found = select_for_writing(index, (length,), (True,), values)
        wanted = reached(index, length, sum(values) if values else 1)
        assert list(found.axes[0]) == sorted(wanted), (index, values)


@pytest.mark.parametrize(
    ("index", "values", "positions"),
    [
        (slice(None), (6,), range(6)),
        (slice(None), (4,), range(4)),
        (slice(None), (1,), range(4)),
        (slice(None), (), range(4)),
        (slice(2, None), (5,), range(2, 7)),
        (slice(6, None), (2,), range(6, 8)),
        (slice(6, None), (), range(6, 7)),
        (slice(-1, None), (3,), range(3, 6)),
        (slice(2, 9), (), range(2, 9)),
        (slice(0, 9, 3), (3,), range(0, 9, 3)),
        (slice(1, None, 2), (4,), range(1, 9, 2)),
        (slice(None, -1), (3,), range(3)),
        (slice(6, 2, -1), (4,), range(3, 7)),
        (slice(6, -3, -1), (5,), range(2, 7)),
        (slice(6, -5, -1), (7,), range(7)),
        (slice(-1, None, -1), (4,), range(4)),
        (slice(-5, None, -1), (0,), []),
        (9, (), range(9, 10)),
        (-1, (), range(3, 4)),
        ([8, 1], (2,), [8, 1]),
        ([8, -1], (2,), [8, 3]),
        ([8, -4], (2,), [8, 0]),
        (np.array([5]), (1,), [5]),
        (np.array([True, False, True, False]), (2,), [0, 2]),
        ([], (0,), []),
        (slice(4, None), (0,), []),
        (slice(9, 6), (0,), []),
    ],
)
def test_writing_reaches_beyond_the_end_of_an_unlimited_dimension(
    index: object, values: tuple[int, ...], positions: range | list[int]
) -> None:
    found = select_for_writing((index, slice(None)), (LENGTH, 2), (True, False), (*values, 1))
    assert list(found.axes[0]) == list(positions)
    assert list(found.axes[1]) == [0, 1]


@pytest.mark.parametrize("index", [4, slice(0, 9), [4]])
def test_a_fixed_dimension_ends_where_it_ends(index: object) -> None:
    def found() -> Selection:
        return select_for_writing(index, (LENGTH,), (False,), (LENGTH,))

    if isinstance(index, slice):
        assert list(found().axes[0]) == list(range(LENGTH))
    else:
        with pytest.raises(BadSelection, match="out of range"):
            found()


def test_an_integer_or_a_mask_does_not_shift_which_length_belongs_to_which_dimension() -> None:
    unlimited = (True, True, True)
    found = select_for_writing((0, slice(None), [0, 1]), (1, 0, 2), unlimited, (5, 2))
    assert found.shape == (1, 5, 2)
    mask = np.array([True, True])
    found = select_for_writing((slice(None), 7, mask), (0, 1, 2), unlimited, (5, 2))
    assert found.shape == (5, 1, 2)


@given(shapes, st.data())
def test_an_index_within_the_array_means_the_same_for_writing_as_for_reading(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    index = data.draw(indexing.indices(shape))
    selection = select(index, shape)
    unlimited = tuple(data.draw(st.booleans()) for _ in shape)
    found = select_for_writing(index, shape, unlimited, selection.result_shape)
    if max(shape, default=0) and all(selection.shape):
        assert [list(axis) for axis in found.axes] == [list(axis) for axis in selection.axes]
        assert (found.flipped, found.dropped) == (selection.flipped, selection.dropped)


def chunk_of(
    array: np.ndarray[tuple[int, ...], np.dtype[np.int64]], grid: ChunkGrid, chunk: ChunkIndex
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    found: list[Any] = [*grid.box(chunk).slices()]
    return array[(*found, ...)]
