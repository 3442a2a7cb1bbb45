"""What is believed of a far store, and how little is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from nczfs.engine.metadata.documents import USUAL_DOCUMENT_BYTES, MetadataCache, StoreDocuments
from nczfs.engine.metadata.ledger import LIMIT_BYTES_LEAST, Ledger, Shelf
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.errors import BadMetadata, Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.testing.datasets import put_group
from nczfs.zmap.base import ABSENT, Blob, Entry, Features
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.between import take_once
from tests.support.settime import SetTime

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


@pytest.fixture
def store() -> Far:
    return Far()


@pytest.fixture
def clock() -> SetTime:
    return SetTime()


@pytest.fixture
def cache(store: Far, clock: SetTime) -> Iterator[MetadataCache]:
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


def written(_: Far, cache: MetadataCache, key: str) -> None:
    cache.write(Key(key), b"", ABSENT)


def changed(store: Far, cache: MetadataCache, key: str) -> None:
    store.write(Key(key), b"")
    cache.changed(Key(key))


def forgotten(store: Far, cache: MetadataCache, key: str) -> None:
    store.write(Key(key), b"")
    cache.forget(A)


@pytest.mark.parametrize("change", [put, written, changed, forgotten])
def test_a_listing_that_was_under_way_when_something_was_stored_is_not_kept(
    store: Far, cache: MetadataCache, change: Callable[[Far, MetadataCache, str], None]
) -> None:
    store.write(Key("a/1"), b"")
    under_way = cache.entries(A)
    next(under_way)
    change(store, cache, "a/0")
    list(under_way)
    assert cache.known_entry(A, "0") == (False, None)


def test_a_new_document_is_listed_though_somebody_reads_it_before_that_is_noted(
    clock: SetTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, options = MemoryZMap(), EngineOptions()  # a far one is not asked for what is not listed
    pools = Pools(options)
    cache = MetadataCache(store, options, pools, clock)
    key, read = Key("a/b/0"), list[bytes | None]()

    def look() -> None:
        read.append(cache.get(key, USUAL_DOCUMENT_BYTES).data)

    assert list(shown(cache, A)) == []
    taken = take_once(monkeypatch, store, "write", look, after=True)
    cache.write(key, b"some", ABSENT)
    pools.close()
    assert taken
    assert read == [b"some"]
    assert list(shown(cache, A)) == ["b"]


def test_a_new_document_is_listed_though_the_answer_of_the_store_was_lost(
    store: Far, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose() -> None:
        raise Unavailable("no answer")

    assert list(shown(cache, A)) == []
    take_once(monkeypatch, store, "write", lose, after=True)
    with pytest.raises(Unavailable):
        cache.write(Key("a/b/0"), b"some", ABSENT)
    assert list(shown(cache, A)) == ["b"]


def test_nothing_is_stored_between_the_last_look_at_changes_and_keeping_a_listing(
    store: Far, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(Key("a/1"), b"")
    put_in, storing = Shelf.put, Thread(target=put, args=(store, cache, "a/0"))

    def slow(shelf: Shelf[Any, Any], *answer: Any) -> None:
        if not storing.ident:
            storing.start()
            storing.join(0.2)  # it waits for the listing, or would be over by then
        put_in(shelf, *answer)

    with monkeypatch.context() as patched:
        patched.setattr(Shelf, "put", slow)
        assert list(shown(cache, A)) == ["1"]
        storing.join()
    assert list(shown(cache, A)) == ["1", "0"]


def test_what_may_have_changed_is_asked_for_again(store: Far, cache: MetadataCache) -> None:
    shown(cache, A)
    store.write(Key("a/1"), b"")
    cache.changed(Key("a/1"))
    assert list(shown(cache, A)) == ["1"]


@pytest.mark.parametrize(("count", "requests"), [(3, 1), (1000, 0)])
def test_a_short_listing_is_made_again_when_it_is_too_old(
    store: Far, cache: MetadataCache, clock: SetTime, count: int, requests: int
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


def reads(store: Far, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that are asked for from now on."""
    asked: list[str] = []
    read = store.read

    def noted(key: Key, *arguments: Any, **options: Any) -> Blob:
        asked.append(key)
        return read(key, *arguments, **options)

    monkeypatch.setattr(store, "read", noted)
    return asked


def test_a_level_that_was_looked_at_tells_which_documents_are_not_there(
    store: Far, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch, clock: SetTime
) -> None:
    put_group(store, "a", {"title": "t"})
    store.write(Key("a/b/0"), b"")
    asked = reads(store, monkeypatch)
    cache.fetch({Key("a/.zmetadata"): 1000}, A)
    assert store.searches == ["a"]
    assert asked in ([], ["a/.zmetadata"])  # the one, or the other, comes first
    asked.clear()
    for name in (".zarray", ".nczarr", "zarr.json", "b/.zarray"):
        key = Key(f"a/{name}")
        assert cache.lacks(key) is (name != "b/.zarray")
    assert cache.lacks(Key("a/none/.zarray"))
    assert cache.get(Key("a/.zarray"), 1000).data is None
    assert cache.get(Key("a/.zattrs"), 1000).data is not None
    assert asked == ["a/.zattrs"]
    clock.now += TTL_S
    assert not cache.lacks(Key("a/.zarray"))
    cache.get(Key("a/.zarray"), 1000)
    assert asked[1:] == ["a/.zarray"]


@pytest.mark.parametrize("how", ["asked again", "stored", "written", "forgotten"])
def test_a_listing_does_not_hide_what_came_later(
    store: Far, cache: MetadataCache, how: str
) -> None:
    put_group(store, "a", {})
    cache.fetch({}, A)
    key = Key("a/.zarray")
    assert cache.lacks(key)
    match how:
        case "asked again":
            store.write(key, b"{}")
            cache.ask_again([key])
        case "stored":
            store.write(key, b"{}")
            cache.stored(store.stat(key))
        case "written":
            cache.write(key, b"{}", ABSENT)
        case _:
            store.write(key, b"{}")
            cache.forget(A)
    assert cache.get(key, 1000).data == b"{}"


def test_a_listing_above_does_not_hide_a_document_that_is_asked_for_again(
    store: Far, cache: MetadataCache
) -> None:
    """Another client has made its directory since."""
    put_group(store, "a", {})
    cache.fetch({}, ROOT)
    cache.fetch({}, A)
    key = Key("b/c/.zgroup")
    assert cache.lacks(key)
    store.write(key, b"{}")
    cache.ask_again([key])
    assert cache.get(key, 1000).data == b"{}"
    assert cache.lacks(Key("a/.zarray")), "what says nothing about it is still known"


def test_a_large_document_is_compared_before_it_is_read_again(
    store: Far, cache: MetadataCache, clock: SetTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = bytes(USUAL_DOCUMENT_BYTES + 1)
    store.write(Key("a/.zattrs"), large)
    assert cache.get(Key("a/.zattrs"), 1 << 30).data == large
    clock.now += TTL_S
    asked = reads(store, monkeypatch)
    assert cache.get(Key("a/.zattrs"), 1 << 30).data == large
    assert asked == []
    store.write(Key("a/.zattrs"), b"new")
    clock.now += TTL_S
    assert cache.get(Key("a/.zattrs"), 1 << 30).data == b"new"
    store.delete(Key("a/.zattrs"))
    clock.now += TTL_S
    assert cache.get(Key("a/.zattrs"), 1 << 30).data is None


def test_what_is_remembered_of_documents_is_made_again_when_one_changes(
    store: Far, cache: MetadataCache
) -> None:
    put_group(store, "a", {"x": 1})
    made: list[int] = []

    def derived() -> int:
        documents = StoreDocuments(cache, A, FormatOptions())

        def make() -> tuple[int, int]:
            made.append(len(documents.get(".zattrs") or b""))
            return made[-1], 10

        found = documents.derived("size", [".zattrs", ".zgroup"], make)
        assert set(documents.used) == {"a/.zattrs", "a/.zgroup"}
        return found

    assert derived() == derived()
    assert len(made) == 1
    cache.write(Key("a/.zattrs"), b'{"x": 100}', cache.version(Key("a/.zattrs")) or ABSENT)
    assert derived() == 10
    assert len(made) == 2


def test_documents_take_no_more_memory_than_they_may(store: Far, clock: SetTime) -> None:
    options = EngineOptions(metadata_ttl_s=TTL_S)
    pools = Pools(options)
    ledger = Ledger(LIMIT_BYTES_LEAST)
    cache = MetadataCache(store, options, pools, clock, ledger)
    for number in range(100):
        store.write(Key(f"v{number}/.zattrs"), bytes(1 << 20))
        assert cache.get(Key(f"v{number}/.zattrs"), 1 << 30).data == bytes(1 << 20)
        assert ledger.used_bytes <= LIMIT_BYTES_LEAST
    # That it is the same still is known of each.
    assert cache.is_fresh(Key("v3/.zattrs"), store.stat(Key("v3/.zattrs")).version)
    for number in range(40_000):
        store.write(Key(f"many/{number}"), b"")
    assert len(list(cache.entries(Prefix("many")))) == 40_000
    assert ledger.used_bytes <= LIMIT_BYTES_LEAST + 400 * 40_000 + 1000
    pools.close()


def test_what_is_made_where_nothing_was_is_all_that_is_there(
    store: Far, cache: MetadataCache
) -> None:
    store.write(Key("a"), b"")
    cache.fetch({}, ROOT)
    assert cache.known_entry(Prefix("new/deep"), "x") == (True, None)
    put(store, cache, "new/deep/one")
    put(store, cache, "a/two")
    assert list(shown(cache, Prefix("new"))) == ["deep"]
    assert list(shown(cache, Prefix("new/deep"))) == ["one"]
    assert list(shown(cache, A)) == ["two"]
    assert cache.lacks(Key("new/deep/.zgroup"))
    delete(store, cache, "new/deep/one")
    assert not cache.has_keys(Prefix("new"))
    assert store.searches[:1] == [""]
