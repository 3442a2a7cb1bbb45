"""What is not shown: numbers in runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nczfs.vfs.datasets.hiding import NumberRuns


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=100))
def test_numbers_are_a_set(changes: list[tuple[bool, int]]) -> None:
    numbers, expected = NumberRuns(), set[int]()
    for is_added, number in changes:
        for each in (numbers, expected):
            (each.add if is_added else each.discard)(number)
        assert [n for n in range(32) if n in numbers] == sorted(expected)
        assert len(numbers) == sum(n - 1 not in expected for n in expected)


def test_a_million_numbers_in_order_are_one_run() -> None:
    numbers = NumberRuns()
    for number in range(1_000_000):
        numbers.add(number)
    assert len(numbers) == 1
