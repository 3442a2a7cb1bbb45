from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.keysets import UNKNOWN, KeySet
from nczfs.model.overlaps import below, shared
from tests.support.calls import counted_calls
from tests.unit.model.test_keysets import keysets


@given(st.lists(keysets, max_size=8))
def test_each_set_that_shares_a_text_is_found_with_another_one(sets: list[KeySet]) -> None:
    found = shared(sets)
    for (one, other), text in found.items():
        assert one < other
        assert text in sets[one]
        assert text in sets[other]
    listed = [set(keys) for keys in sets]
    pairs = itertools.combinations(range(len(sets)), 2)
    meeting = [pair for pair in pairs if listed[pair[0]] & listed[pair[1]]]
    assert {n for pair in found for n in pair} == {n for pair in meeting for n in pair}


@given(st.lists(keysets, max_size=8))
def test_each_set_with_a_text_below_one_of_another_is_found(sets: list[KeySet]) -> None:
    found = below(sets)
    above = [
        {text[:n] for text in keys for n, c in enumerate(text) if c == "/" and n} for keys in sets
    ]
    for (one, other), text in found.items():
        assert text in sets[one]
        assert text in above[other]
    pairs = itertools.permutations(range(len(sets)), 2)
    meeting = [pair for pair in pairs if set(sets[pair[0]]) & above[pair[1]]]
    assert {one for one, _ in found} == {one for one, _ in meeting}
    assert {other for _, other in found} == {other for _, other in meeting}


def many(count: int) -> list[KeySet]:
    """Sets apart from each other, and some that are not."""
    each = range(count)
    counts = (1000, 1000)
    return [
        *(KeySet(f"s{n}/c/", "/", counts) for n in each),
        *(KeySet("", ".", counts, f".{n}.tif") for n in each),
        *(KeySet("c/", "/", (1 + n, 1)) for n in each),
        *(KeySet(f"s{n}", "", ()) for n in each),
    ]


def test_many_sets_are_compared_in_linear_time() -> None:
    for compare in (shared, below):
        calls = []
        for count in (50, 100, 200):
            with counted_calls() as made:
                found = compare(many(count))
            calls.append(made.total())
            assert len(found) == count - (compare is shared)
            assert UNKNOWN not in found.values()
        assert calls[2] - calls[1] <= 2.2 * (calls[1] - calls[0])
