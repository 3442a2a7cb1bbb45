"""What is not shown: numbers in runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nczfs.vfs.datasets.hiding import NumberRuns


@given(st.lists(st.integers(0, 30)))
def test_numbers_are_a_set(added: list[int]) -> None:
    numbers = NumberRuns()
    for number in added:
        numbers.add(number)
    assert [n for n in range(32) if n in numbers] == sorted(set(added))
    assert len(numbers) == sum(n - 1 not in added for n in set(added))


def test_a_million_numbers_in_order_are_one_run() -> None:
    numbers = NumberRuns()
    for number in range(1_000_000):
        numbers.add(number)
    assert len(numbers) == 1
