from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.keysets import LISTED_MAX, UNKNOWN, KeySet, common

counts = st.lists(st.integers(0, 12), max_size=3).map(tuple)
heads = st.sampled_from(["", "c", "c/", "c.", "0", "1", "10", "s1/", "s1/c/", "c/1", "c/0/"])
tails = st.sampled_from(["", "0", "1", "/1", ".tif", "/0", "/c", "1/2"])
keysets = st.builds(KeySet, heads, st.sampled_from([".", "/"]), counts, tails)


@given(keysets, keysets)
def test_common_keys_are_found_without_listing_all(one: KeySet, other: KeySet) -> None:
    shared = set(one) & set(other)
    found = common(one, other)
    assert (found in shared) if shared else found is None


@given(keysets, st.text("c./0123456789st", max_size=8))
def test_a_set_contains_what_it_lists(keys: KeySet, text: str) -> None:
    listed = list(keys)
    assert len(set(listed)) == keys.size == len(listed)
    assert (text in keys) == (text in listed)
    assert all(key in keys for key in listed)


@given(keysets)
def test_the_directories_of_keys_are_found(keys: KeySet) -> None:
    above = {key[:place] for key in keys for place, c in enumerate(key) if c == "/" and place}
    found = {text for places in keys.directories() for text in places}
    assert found == above or (not keys.size and not above)


def test_large_sets_are_compared_by_their_form() -> None:
    many = (10**9, 10**9)
    assert common(KeySet("c/", "/", many), KeySet("c/", "/", many)) == "c/0/0"
    assert common(KeySet("c/", "/", many), KeySet("c.", ".", many)) is None
    assert common(KeySet("s0/c/", "/", many), KeySet("s1/c/", "/", many)) is None
    assert common(KeySet("", ".", many, ".mask"), KeySet("", ".", many)) is None
    assert common(KeySet("c/", "/", many), KeySet("c/", "/", (1, 0))) is None


def test_what_only_a_list_could_tell_is_unknown_beyond_its_limit() -> None:
    numbers, longer = KeySet("", ".", (10 * LISTED_MAX,)), KeySet("1", ".", (LISTED_MAX + 1,))
    assert common(numbers, longer) == UNKNOWN
    assert common(numbers, KeySet("1", ".", (LISTED_MAX,))) == "10"


@pytest.mark.parametrize("text", ["00", "01", "", "-1", "+1", "1_0", "\u0661", "9" * 5000])
def test_no_other_spelling_of_a_number_is_a_key(text: str) -> None:
    assert text not in KeySet("", ".", (10**9,))
