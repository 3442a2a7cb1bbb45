"""Ranges against sets of integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.ranges import Ranges

at = st.integers(0, 30)
steps = st.lists(st.tuples(st.sampled_from(["add", "cut"]), at, at))


@given(steps, at, at)
def test_ranges_are_the_set_of_what_was_added_and_not_cut(
    steps: list[tuple[str, int, int]], start: int, stop: int
) -> None:
    ranges, model = Ranges(), set[int]()
    for step, a, b in steps:
        if step == "add":
            ranges.add(a, b)
            model |= set(range(a, b))
        else:
            ranges.cut(a)
            model = {x for x in model if x < a}
        assert ranges.total == len(model)
    gaps = [set(range(*gap)) for gap in ranges.gaps(start, stop)]
    assert set().union(*gaps) == set(range(start, stop)) - model
    assert sum(map(len, gaps)) == len(set().union(*gaps))
    assert all(gaps)
