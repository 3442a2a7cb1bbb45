"""Which names below a prefix are believed, since when, and what is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nczfs.engine.metadata import listings
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.errors import StoreError, Unavailable
from nczfs.zmap.base import Entry, Features
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.settime import SetTime

A, OTHER = Prefix("a"), Prefix("b")
TTL_S = 60.0
PAGE = 5
NAMES = [f"{number:02}" for number in range(2 * PAGE + 1)]


class Paged(MemoryZMap):
    """A far store whose glance has a page of names, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.failure: StoreError | None = None

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        self.asked.append(f"search {prefix}")
        return super().search(prefix)

    def glance(self, prefix: Prefix) -> tuple[list[Entry], Callable[[], Iterator[Entry]] | None]:
        self.asked.append(f"glance {prefix}")
        found = sorted(super().search(prefix))
        first, last = found[:PAGE], found[PAGE - 1].name if found[PAGE:] else ""

        def others() -> Iterator[Entry]:
            self.asked.append(f"rest {prefix}")
            if self.failure is not None:
                raise self.failure
            yield from sorted(e for e in MemoryZMap.search(self, prefix) if e.name > last)

        return first, others if last else None


@pytest.fixture
def store() -> Paged:
    store = Paged()
    for name in NAMES:
        store.write(Key(f"a/{name}"), b"")
    store.write(Key("b/1"), b"")
    return store


@pytest.fixture
def clock() -> SetTime:
    return SetTime()


@pytest.fixture
def cache(store: Paged, clock: SetTime) -> Iterator[MetadataCache]:
    options = EngineOptions(metadata_ttl_s=TTL_S)
    pools = Pools(options)
    yield MetadataCache(store, options, pools, clock)
    pools.close()


def names(cache: MetadataCache) -> list[str]:
    return [entry.name for entry in cache.entries(A)]


def knows(cache: MetadataCache, name: str) -> bool | None:
    """Whether there is a name, without a request; None: that is not known."""
    is_known, entry = cache.known_entry(A, name)
    return entry is not None if is_known else None


def test_a_long_level_is_looked_at_with_one_request_and_listed_with_one_more(
    store: Paged, cache: MetadataCache
) -> None:
    cache.fetch({}, A)
    assert knows(cache, "03")
    assert knows(cache, "none") is None
    assert not cache.lacks(Key("a/.zarray"))
    assert cache.has_keys(A)
    assert next(cache.entries(A)).name == "00"
    assert store.asked == ["glance a"]
    for _ in range(2):
        assert names(cache) == NAMES
        assert store.asked == ["glance a", "rest a"]
    assert knows(cache, "none") is False


def test_what_goes_on_after_a_glance_is_believed_for_as_long_as_the_glance(
    cache: MetadataCache, clock: SetTime
) -> None:
    cache.fetch({}, A)
    clock.now += TTL_S - 1
    assert names(cache) == NAMES
    assert knows(cache, "03")
    clock.now += 1
    assert knows(cache, "03") is None


def test_a_level_that_comes_with_one_request_is_known_whole(
    store: Paged, cache: MetadataCache
) -> None:
    cache.fetch({}, OTHER)
    assert [entry.name for entry in cache.entries(OTHER)] == ["1"]
    assert store.asked == ["glance b"]


@pytest.mark.parametrize("known", [True, False], ids=["of which one knows", "of others"])
def test_a_listing_goes_on_only_where_nothing_has_changed_since(
    store: Paged, cache: MetadataCache, clock: SetTime, known: bool
) -> None:
    cache.fetch({}, A)
    last, new = Key(f"a/{NAMES[-1]}"), Key("a/01-new")
    store.write(new, b"")
    store.delete(last)
    if known:
        cache.stored(store.stat(new))
        cache.deleted(last)
    else:
        clock.now += TTL_S
    assert sorted(names(cache)) == sorted([*NAMES[:-1], "01-new"])
    assert store.asked == ["glance a", "search a"]


def test_a_change_during_a_listing_that_goes_on_is_not_hidden_by_it(
    store: Paged, cache: MetadataCache
) -> None:
    cache.fetch({}, A)
    under_way = cache.entries(A)
    for _ in range(PAGE + 1):
        next(under_way)
    store.write(Key("a/00-new"), b"")
    cache.stored(store.stat(Key("a/00-new")))
    list(under_way)
    assert "00-new" in names(cache)


def test_a_listing_begins_again_where_the_store_cannot_go_on(
    store: Paged, cache: MetadataCache, clock: SetTime
) -> None:
    """A server has restarted, and does not know its token any more."""
    cache.fetch({}, A)
    store.failure = StoreError("no such token")
    clock.now += TTL_S / 2
    assert names(cache) == NAMES
    assert store.asked == ["glance a", "rest a", "search a"]
    clock.now += TTL_S - 1
    assert knows(cache, "none") is False, "it is as new as the search"


def test_a_store_that_does_not_answer_is_not_asked_again_at_once(
    store: Paged, cache: MetadataCache
) -> None:
    cache.fetch({}, A)
    store.failure = Unavailable("503")
    with pytest.raises(Unavailable):
        names(cache)
    assert store.asked == ["glance a", "rest a"]
    store.failure = None
    assert names(cache) == NAMES


def test_a_glance_that_fails_is_left_to_those_who_need_the_names(
    store: Paged, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(prefix: Prefix) -> None:
        raise Unavailable(prefix)

    monkeypatch.setattr(store, "glance", refuse)
    cache.fetch({}, A)
    assert knows(cache, "03") is None
    assert sorted(names(cache)) == NAMES


def test_two_who_go_on_from_one_glance_get_all_names_and_what_either_found_is_known(
    store: Paged, cache: MetadataCache
) -> None:
    cache.fetch({}, A)
    one = cache.entries(A)
    begun = [next(one).name for _ in range(PAGE + 1)]
    store.write(Key("a/99"), b"")  # by another client
    assert names(cache) == [*NAMES, "99"]
    assert begun + [entry.name for entry in one] == NAMES
    assert knows(cache, "99")


def test_an_older_listing_does_not_replace_a_newer_one(
    store: Paged, cache: MetadataCache, clock: SetTime
) -> None:
    older = cache.entries(A)
    next(older)
    clock.now += 1
    store.write(Key("a/99"), b"")  # by another client
    assert "99" in names(cache)
    list(older)
    assert knows(cache, "99")


def test_what_is_to_be_asked_for_again_is_not_denied_by_a_listing_under_way(
    store: Paged, cache: MetadataCache
) -> None:
    key = Key("a/.zgroup")
    under_way = cache.entries(A)
    next(under_way)
    store.write(key, b"{}")  # by another client
    cache.ask_again([key])
    list(under_way)
    assert cache.get(key, 1000).data == b"{}"


def test_a_level_of_very_many_names_is_listed_and_not_kept(
    store: Paged, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "LISTED_ENTRIES_MAX", len(NAMES))
    for _ in range(2):
        assert sorted(names(cache)) == NAMES
    assert store.asked == ["search a", "search a"]
    monkeypatch.setattr(listings, "LISTED_ENTRIES_MAX", len(NAMES) + 1)
    for _ in range(2):
        assert sorted(names(cache)) == NAMES
    assert store.asked == ["search a"] * 3


def below(cache: MetadataCache, prefix: str) -> list[str]:
    return [entry.name for entry in cache.entries(Prefix(prefix))]


@pytest.fixture
def older(store: Paged, cache: MetadataCache, clock: SetTime) -> Iterator[Entry]:
    """A listing of the root that is under way while another client makes `aa/x`, which is shown."""
    older = cache.entries(ROOT)
    next(older)
    clock.now += 1
    store.write(Key("aa/x"), b"")
    assert below(cache, "aa") == ["x"]
    return older


def test_an_older_listing_denies_nothing_that_a_newer_one_below_it_has_shown(
    cache: MetadataCache, older: Iterator[Entry]
) -> None:
    assert "aa" not in [entry.name for entry in older]
    assert cache.has_keys(Prefix("aa"))
    assert "aa" in below(cache, "")
    assert below(cache, "aa") == ["x"]


def test_a_listing_names_what_has_names_in_older_ones_above_it(
    store: Paged, cache: MetadataCache, older: Iterator[Entry], clock: SetTime
) -> None:
    list(older)
    clock.now += 1
    store.write(Key("ab/c/d/x"), b"")
    cache._listings._listings.pop(Prefix("ab/c"))
    begun = cache._listings._begun()
    begun.entries["d"] = Entry("d", None, is_prefix=True)
    cache._listings._keep(Prefix("ab/c"), begun)
    assert cache.known_entry(ROOT, "ab")[1] == Entry("ab", None, is_prefix=True)


def test_what_this_mount_stores_beside_a_name_that_was_shown_hides_it_not(
    store: Paged, cache: MetadataCache, older: Iterator[Entry]
) -> None:
    list(older)
    store.write(Key("aa/y"), b"")
    cache.stored(store.stat(Key("aa/y")))
    assert sorted(below(cache, "aa")) == ["x", "y"]


def test_what_is_forgotten_below_an_absent_level_is_looked_for_again(
    store: Paged, cache: MetadataCache
) -> None:
    """SEMANTICS N2."""
    below(cache, "")
    store.write(Key("new/b/x"), b"")
    cache.forget(Prefix("new/b"))
    assert below(cache, "new/b") == ["x"]


def test_a_prefix_beside_an_object_that_is_deleted_is_never_denied(
    store: Paged, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks up a name takes no lock, so that no step may deny it."""
    store.write(Key("b/1/x"), b"")
    below(cache, "b")
    found = []

    class Watched(dict[str, Entry]):
        def pop(self, *given: Any) -> Any:
            try:
                return super().pop(*given)
            finally:
                found.append(cache.known_entry(OTHER, "1")[1])

    listing = cache._listings._listings.get(OTHER)
    assert listing is not None
    watched = replace(listing, entries=Watched(listing.entries))
    cache._listings._listings.put(OTHER, watched, 0)
    cache.deleted(Key("b/1"))
    assert None not in found
    assert cache.known_entry(OTHER, "1")[1] == Entry("1", None, is_prefix=True)


def test_a_name_that_a_store_gives_twice_is_shown_once_and_is_both(
    store: Paged, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS O4: some servers list in another order."""
    stat = store.stat(Key("b/1"))
    twice = [
        Entry("1", None, is_prefix=True),
        Entry("2", stat, is_prefix=False),
        Entry("1", stat, is_prefix=False),
    ]
    monkeypatch.setattr(store, "search", lambda prefix: iter(twice))
    assert below(cache, "b") == ["1", "2"]
    assert cache.known_entry(OTHER, "1")[1] == Entry("1", stat, is_prefix=True)


def test_of_a_level_with_too_many_names_none_is_held(
    cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "LISTED_ENTRIES_MAX", 4)
    going = cache.entries(A)
    for _ in range(8):
        next(going)
    held = going.gi_frame.f_locals["names"]  # type: ignore[attr-defined]
    assert not held
    assert len(list(going)) == len(NAMES) - 8
    assert not cache._listings.is_known(A)
