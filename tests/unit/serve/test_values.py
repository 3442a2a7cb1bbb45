"""The blocks of an answer: every selected element once, in C order, none larger than allowed."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nczfs.serve.values import block_selections


@st.composite
def _selections(draw: st.DrawFn) -> tuple[tuple[int, ...], list[range]]:
    shape = draw(st.lists(st.integers(1, 6), max_size=3))
    ranges = []
    for length in shape:
        first = draw(st.integers(0, length - 1))
        last = draw(st.integers(first - 1, length - 1))
        step = draw(st.integers(1, 4))
        ranges.append(range(first, last + 1, step) if last >= first else range(0))
    return tuple(shape), ranges


@given(_selections(), st.integers(1, 40), st.data())
def test_blocks_are_the_selection_in_order(
    selected: tuple[tuple[int, ...], list[range]], elements: int, data: st.DataObject
) -> None:
    shape, ranges = selected
    chunks = [data.draw(st.integers(1, length)) for length in shape]
    everything = np.arange(prod(shape)).reshape(shape)
    blocks = list(block_selections(ranges, chunks, elements))
    assert all(prod(block.shape) <= elements for block in blocks)
    found = [everything[np.ix_(*block.axes)].reshape(-1) for block in blocks]
    expected = everything[np.ix_(*ranges)].reshape(-1)
    assert np.concatenate([np.empty(0, int), *found]).tolist() == expected.tolist()


def test_a_block_ends_with_a_chunk_where_one_ends_in_it() -> None:
    blocks = list(block_selections([range(1, 100, 3)], [10], 8))
    assert [block.axes[0][-1] // 10 for block in blocks[:3]] == [1, 3, 5]
    for block, following in pairwise(blocks):
        assert block.axes[0][-1] // 10 < following.axes[0][0] // 10
