"""Runs of elements as boxes."""

from __future__ import annotations

from itertools import islice, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.boxes import Box, boxes_of_run, index_of, whole

shapes = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, int, tuple[int, ...]]:
    shape = draw(shapes)
    first = draw(st.integers(0, prod(shape)))
    count = draw(st.integers(0, prod(shape) - first))
    return first, count, shape


def elements(box: Box, shape: tuple[int, ...]) -> list[int]:
    """Positions in C order of the elements of a box, in C order of the box."""
    positions = []
    for index in product(*(range(a, b) for a, b in zip(box.start, box.stop, strict=True))):
        position = 0
        for i, n in zip(index, shape, strict=True):
            position = position * n + i
        positions.append(position)
    return positions


@given(runs())
def test_the_boxes_of_a_run_hold_its_elements_once_and_in_order(
    run: tuple[int, int, tuple[int, ...]],
) -> None:
    first, count, shape = run
    boxes = list(boxes_of_run(first, count, shape))
    found = [element for box in boxes for element in elements(box, shape)]
    assert found == list(range(first, first + count))
    assert len(boxes) <= max(1, 2 * len(shape) - 1)


def test_a_run_in_an_array_of_petabytes_is_found_without_counting() -> None:
    shape = (10**6, 10**5, 10**4)
    boxes = list(boxes_of_run(9 * 10**14 + 7, 3 * 10**9, shape))
    assert sum(box.size for box in boxes) == 3 * 10**9


def test_an_array_of_length_zero_has_no_boxes() -> None:
    assert list(boxes_of_run(0, 0, (3, 0, 2))) == []


def test_a_scalar_is_one_box_without_dimensions() -> None:
    assert list(boxes_of_run(0, 1, ())) == [Box((), ())]


@pytest.mark.parametrize(("element", "index"), [(0, (0, 0)), (5, (1, 2)), (2, (0, 2))])
def test_the_index_of_an_element_counts_the_last_dimension_fastest(
    element: int, index: tuple[int, ...]
) -> None:
    assert index_of(element, (2, 3)) == index


def test_a_box_knows_itself_relative_to_an_origin() -> None:
    box = whole((4, 5)).relative_to((-1, 2))
    assert box == Box((1, -2), (5, 3))
    assert box.shape == (4, 5)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4))
def test_the_indexes_of_a_box_are_those_of_its_elements_in_c_order(
    sides: list[tuple[int, int]],
) -> None:
    box = Box(tuple(a for a, _ in sides), tuple(a + n for a, n in sides))
    assert list(box.indexes()) == list(product(*(range(a, a + n) for a, n in sides)))


def test_the_indexes_of_exabytes_come_one_at_a_time() -> None:
    found = whole((2, 1 << 60, 3)).indexes()
    assert list(islice(found, 4)) == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)]
