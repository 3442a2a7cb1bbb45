"""Which elements of a long dimension are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.model.grid import EvenCuts, UnevenCuts
from nczfs.pictures.sampling import chunks_touched, positions, shares


def test_a_short_dimension_is_drawn_whole() -> None:
    found = positions(range(7), EvenCuts(3), count_max=10, chunks_max=3)
    assert found.tolist() == list(range(7))


def test_a_long_dimension_is_decimated_from_its_first_to_its_last_element() -> None:
    found = positions(range(1001), EvenCuts(1001), count_max=11, chunks_max=1)
    assert found.tolist() == list(range(0, 1001, 100))


def test_of_many_chunks_evenly_spread_ones_are_read_with_both_ends() -> None:
    found = positions(range(100), EvenCuts(10), count_max=100, chunks_max=4)
    assert sorted({int(p) // 10 for p in found}) == [0, 3, 6, 9]
    assert len(found) == 40


def test_chunks_of_listed_lengths_count_as_they_are() -> None:
    cuts = UnevenCuts(((1, 50), (50, 1)))
    found = positions(range(100), cuts, count_max=100, chunks_max=3)
    assert found.tolist() == [0, 25, *range(50, 100)]


@pytest.mark.parametrize("length", [10**12, 2**62])
def test_lengths_of_any_size_are_exact_and_cheap(length: int) -> None:
    found = positions(range(length), EvenCuts(1), count_max=1000, chunks_max=8)
    assert len(found) == 8
    assert (found[0], found[-1]) == (0, length - 1)
    assert (np.diff(found) > 0).all()


def test_a_part_with_steps_is_sampled_in_its_steps() -> None:
    found = positions(range(5, 100, 10), EvenCuts(20), count_max=100, chunks_max=2)
    assert found.tolist() == [5, 15, 85, 95]


@pytest.mark.parametrize(
    ("counts", "most", "expected"),
    [
        ((3, 4), 12, (3, 4)),
        ((1000, 1), 10, (10, 1)),
        ((1000, 1000), 49, (7, 7)),
        ((400, 100), 16, (8, 2)),
        ((5, 5), 1, (1, 1)),
    ],
)
def test_two_dimensions_share_the_chunks_in_proportion(
    counts: tuple[int, int], most: int, expected: tuple[int, int]
) -> None:
    assert shares(counts, most) == expected


def test_chunks_of_all_combinations_are_counted() -> None:
    axes = [np.array([0, 1, 9]), np.array([0, 5, 10, 15])]
    assert chunks_touched(axes, (EvenCuts(2), EvenCuts(10))) == 2 * 2
