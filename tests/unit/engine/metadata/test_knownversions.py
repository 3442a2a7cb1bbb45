"""Documents that change while a request for them is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nczfs.engine.metadata.documents import USUAL_DOCUMENT_BYTES, MetadataCache
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.zmap.base import ABSENT, Blob, Features, Stat, Version
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap

KEY, OTHER = Key("a/zarr.json"), Key("b/zarr.json")
LARGE = 2 * USUAL_DOCUMENT_BYTES


def nothing() -> None:
    """Let nothing happen."""


class Slow(MemoryZMap):
    """A far store in which something happens between an answer and its arrival."""

    meanwhile: Callable[[], object] = staticmethod(nothing)

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def read(self, *args: Any, **options: Any) -> Blob:
        try:
            return super().read(*args, **options)
        finally:
            self._happens()

    def stat(self, key: Key) -> Stat:
        found = super().stat(key)
        self._happens()
        return found

    def write(self, *args: Any, **options: Any) -> Version:
        version = super().write(*args, **options)
        self._happens()
        return version

    def _happens(self) -> None:
        happens, self.meanwhile = self.meanwhile, nothing
        happens()


@pytest.fixture
def store() -> Slow:
    return Slow()


@pytest.fixture
def cache(store: Slow) -> Iterator[MetadataCache]:
    options = EngineOptions(metadata_ttl_s=60.0)
    pools = Pools(options)
    yield MetadataCache(store, options, pools)
    pools.close()


def content(cache: MetadataCache) -> bytes | None:
    return cache.get(KEY, 2 * LARGE).data


def replaced(store: Slow, cache: MetadataCache) -> None:
    cache.write(KEY, b"new", store.stat(KEY).version)


def deleted(store: Slow, cache: MetadataCache) -> None:
    store.delete(KEY)
    cache.deleted(KEY)


def removed(store: Slow, cache: MetadataCache) -> None:
    store.delete(KEY)
    cache.forget(Prefix("a"))


def stored(store: Slow, cache: MetadataCache) -> None:
    store.write(KEY, b"new")
    cache.stored(store.stat(KEY))


def changed(store: Slow, cache: MetadataCache) -> None:
    store.write(KEY, b"new")
    cache.changed(KEY)


def asked_again(store: Slow, cache: MetadataCache) -> None:
    store.write(KEY, b"new")
    cache.ask_again([KEY])


CHANGES = [replaced, deleted, removed, stored, changed, asked_again]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_answer_that_a_change_overtook_is_not_believed_afterwards(
    store: Slow, cache: MetadataCache, change: Callable[[Slow, MetadataCache], None]
) -> None:
    store.write(KEY, b"old")
    store.meanwhile = lambda: change(store, cache)
    assert content(cache) == b"old"  # as it was when it was asked for
    assert content(cache) == (None if change in (deleted, removed) else b"new")


def test_an_absence_that_a_new_document_overtook_is_not_believed_afterwards(
    store: Slow, cache: MetadataCache
) -> None:
    store.meanwhile = lambda: cache.write(KEY, b"new", ABSENT)
    assert content(cache) is None
    assert content(cache) == b"new"


def test_a_large_document_that_changes_while_it_is_compared_is_read_again(store: Slow) -> None:
    options = EngineOptions(metadata_ttl_s=60.0)
    pools, now = Pools(options), [0.0]
    cache = MetadataCache(store, options, pools, lambda: now[0])
    store.write(KEY, bytes(LARGE))
    assert content(cache) == bytes(LARGE)
    now[0] += 61
    store.meanwhile = lambda: stored(store, cache)
    content(cache)
    assert content(cache) == b"new"
    pools.close()


def test_of_two_writes_at_once_the_one_that_came_last_is_believed(
    store: Slow, cache: MetadataCache
) -> None:
    store.meanwhile = lambda: replaced(store, cache)
    cache.write(KEY, b"first", ABSENT)
    assert content(cache) == b"new"


def test_an_answer_is_kept_while_other_documents_change(store: Slow, cache: MetadataCache) -> None:
    store.write(KEY, b"old")
    store.meanwhile = lambda: cache.write(OTHER, b"new", ABSENT)
    assert content(cache) == b"old"
    store.meanwhile = lambda: pytest.fail("it was requested once more")
    assert content(cache) == b"old"


def test_a_document_that_was_written_is_not_requested(store: Slow, cache: MetadataCache) -> None:
    cache.write(KEY, b"new", ABSENT)
    store.meanwhile = lambda: pytest.fail("it was requested")
    assert content(cache) == b"new"
