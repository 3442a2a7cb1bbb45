"""Indexing means what numpy means by it, or is refused clearly."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.selection import select
from nczfs.errors import BadSelection


@st.composite
def selections(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[object, ...]]:
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=3)))
    index: list[object] = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        if length and draw(st.booleans()):
            index.append(draw(st.integers(-length, length - 1)))
        else:
            index.append(draw(st.slices(length)))
    if draw(st.booleans()):
        # Before the end an ellipsis moves the indices behind it, unless all dimensions have one.
        full = len(index) == len(shape)
        index.insert(draw(st.integers(0, len(index))) if full else len(index), Ellipsis)
    return shape, tuple(index)


@given(selections())
def test_a_selection_gives_what_numpy_gives(
    case: tuple[tuple[int, ...], tuple[object, ...]],
) -> None:
    shape, index = case
    array = np.arange(prod(shape)).reshape(shape)
    found = select(index, shape)
    np.testing.assert_array_equal(array[found.box.slices()][found.cut], array[index])  # type: ignore[index]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (None, "newaxis"),
        (3, "out of range"),
        (-4, "out of range"),
        ((0, 0, 0), "too many"),
        ((..., ...), "one ellipsis"),
        (True, "not an index"),
        (1.5, "not an index"),
        (slice(None, None, 0), "zero"),
    ],
)
def test_what_is_no_index_is_refused_with_the_reason(index: object, message: str) -> None:
    with pytest.raises(BadSelection, match=message):
        select(index, (3, 2))
