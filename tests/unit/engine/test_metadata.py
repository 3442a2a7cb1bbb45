"""What is believed of a far store, and how little is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nczfs.engine.metadata import MetadataCache
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.errors import BadMetadata
from nczfs.testing.datasets import put_group
from nczfs.zmap.base import Entry, Features
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap

A, B = Prefix("a"), Prefix("a/b")
TTL_S = 60.0


class Far(MemoryZMap):
    """A store that counts how often it lists."""

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[str] = []

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        self.searches.append(prefix)
        return super().search(prefix)


class Time:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Far:
    return Far()


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def cache(store: Far, clock: Time) -> Iterator[MetadataCache]:
    options = EngineOptions(metadata_ttl_s=TTL_S)
    pools = Pools(options)
    yield MetadataCache(store, options, pools, clock)
    pools.close()


def put(store: Far, cache: MetadataCache, key: str) -> None:
    store.write(Key(key), b"some")
    cache.stored(store.stat(Key(key)))


def delete(store: Far, cache: MetadataCache, key: str) -> None:
    store.delete(Key(key))
    cache.deleted(Key(key))


def shown(cache: MetadataCache, prefix: Prefix) -> dict[str, Entry]:
    return {entry.name: entry for entry in cache.entries(prefix)}


def listed(store: Far, prefix: Prefix) -> dict[str, Entry]:
    return {entry.name: entry for entry in MemoryZMap.search(store, prefix)}


def test_what_is_stored_here_is_listed_without_a_question(store: Far, cache: MetadataCache) -> None:
    store.write(Key("x"), b"")
    for prefix in (ROOT, A, B):
        shown(cache, prefix)
    store.searches.clear()
    for key in ("a", "a/c", "a/b/d", "a/c/e", "x", "y"):
        put(store, cache, key)
        for prefix in (ROOT, A, B):
            assert shown(cache, prefix) == listed(store, prefix)
    assert store.searches == []


def test_what_is_deleted_here_is_gone_and_so_are_empty_prefixes(
    store: Far, cache: MetadataCache
) -> None:
    keys = ["a", "a/b", "a/b/c", "a/b/d", "x"]
    for key in keys:
        store.write(Key(key), b"")
    for prefix in (ROOT, A, B):
        shown(cache, prefix)
    for key in ("a/b/c", "a/b", "a/b/d", "a", "x"):
        delete(store, cache, key)
        for prefix in (ROOT, A, B):
            assert shown(cache, prefix) == listed(store, prefix), key


def test_deleting_one_of_many_asks_for_nothing(store: Far, cache: MetadataCache) -> None:
    for key in ("a/1", "a/2"):
        store.write(Key(key), b"")
    shown(cache, ROOT)
    shown(cache, A)
    store.searches.clear()
    delete(store, cache, "a/1")
    assert list(shown(cache, A)) == ["2"]
    assert list(shown(cache, ROOT)) == ["a"]
    assert store.searches == []


def test_a_listing_may_be_read_while_it_changes(store: Far, cache: MetadataCache) -> None:
    put(store, cache, "a/1")
    shown(cache, A)
    entries = cache.entries(A)
    next(entries)
    put(store, cache, "a/2")
    assert list(entries) == []


def test_a_listing_that_was_under_way_when_something_was_stored_is_not_kept(
    store: Far, cache: MetadataCache
) -> None:
    store.write(Key("a/1"), b"")
    under_way = cache.entries(A)
    next(under_way)
    put(store, cache, "a/0")
    list(under_way)
    assert cache.known_entry(A, "0") == (False, None)


def test_what_may_have_changed_is_asked_for_again(store: Far, cache: MetadataCache) -> None:
    shown(cache, A)
    store.write(Key("a/1"), b"")
    cache.changed(Key("a/1"))
    assert list(shown(cache, A)) == ["1"]


@pytest.mark.parametrize(("count", "requests"), [(3, 1), (1000, 0)])
def test_a_short_listing_is_made_again_when_it_is_too_old(
    store: Far, cache: MetadataCache, clock: Time, count: int, requests: int
) -> None:
    for number in range(count):
        store.write(Key(f"a/{number}"), b"")
    cache.list_again(A)
    assert store.searches == []  # nobody has listed it
    shown(cache, A)
    clock.now += TTL_S
    store.searches.clear()
    cache.list_again(A)
    assert len(store.searches) == requests
    assert cache.known_entry(A, "1")[0] is bool(requests)


def test_a_document_above_the_limit_is_refused_by_name(store: Far, cache: MetadataCache) -> None:
    put_group(store, "", {"big": "x" * 1000})
    with pytest.raises(BadMetadata, match=r"\.zattrs: a document of 1\d\d\d bytes"):
        cache.get(Key(".zattrs"), 500)
