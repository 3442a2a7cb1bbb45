"""The wrappers round stores, where the conformance suite does not look."""

from __future__ import annotations

import itertools

import pytest

from nczfs.errors import DeadlinePassed, KeyTooLong, NoSuchObject, ReadOnlyStore, Unavailable
from nczfs.metrics import REGISTRY
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ABSENT
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Metered, Prefixed, ReadOnly

K = Key("a/b")


def test_prefixed_leads_below_the_prefix_and_sees_nothing_beside_it() -> None:
    outer = MemoryZMap()
    outer.write(Key("data.zarr"), b"beside")
    outer.write(Key("data"), b"the prefix itself")
    zmap = Prefixed(outer, Prefix("data"))
    zmap.write(K, b"below")
    assert bytes(outer.read(Key("data/a/b")).data) == b"below"
    assert [stat.key for stat in zmap.list(ROOT)] == ["a/b"]
    assert zmap.name == "memory:///data"
    with pytest.raises(NoSuchObject):
        zmap.read(Key("zarr"))


def test_prefixed_by_the_root_is_the_store_itself() -> None:
    outer = MemoryZMap()
    zmap = Prefixed(outer, ROOT)
    zmap.write(K, b"1")
    assert [entry.name for entry in zmap.search(ROOT)] == ["a"]
    assert zmap.stat(K) == outer.stat(K)
    assert zmap.name == outer.name


def test_a_key_that_gets_too_long_by_the_prefix_never_reaches_the_store() -> None:
    zmap = Prefixed(MemoryZMap(), Prefix("p" * 500))
    zmap.write(Key("k" * 523), b"fits")
    with pytest.raises(KeyTooLong):
        zmap.write(Key("k" * 524), b"does not")


def test_read_only_says_that_the_configuration_refuses() -> None:
    inner = MemoryZMap()
    inner.write(K, b"1")
    with pytest.raises(ReadOnlyStore, match="a/b: the store was opened read-only"):
        ReadOnly(inner).write(K, b"2")
    with pytest.raises(ReadOnlyStore):
        ReadOnly(inner).delete(K)
    assert not ReadOnly(inner).features.writable
    assert inner.features.writable


def _requests(label: str, operation: str) -> float:
    labels = {"store": label, "operation": operation}
    return REGISTRY.get_sample_value("nczfs_store_requests_total", labels) or 0


def test_metered_counts_calls_and_the_bytes_that_came() -> None:
    zmap = Metered(MemoryZMap(), "counted")
    zmap.write(K, b"0123456789")
    zmap.read(K)
    zmap.read(K, 2, 5)
    zmap.stat(K)
    list(zmap.search(ROOT))
    list(zmap.list(ROOT))
    zmap.delete(K)
    with pytest.raises(NoSuchObject):
        zmap.read(K)
    counted = {
        operation: _requests("counted", operation)
        for operation in ("read", "write", "stat", "search", "list", "delete")
    }
    assert counted == {"read": 3, "write": 1, "stat": 1, "search": 1, "list": 1, "delete": 1}
    assert REGISTRY.get_sample_value("nczfs_store_read_bytes_total", {"store": "counted"}) == 13


def test_a_fault_before_the_call_changes_nothing() -> None:
    inner = MemoryZMap()
    zmap = Faulty(inner, Fault(0))
    with pytest.raises(Unavailable, match="a/b: write failed on purpose"):
        zmap.write(K, b"1")
    assert list(inner.list(ROOT)) == []
    zmap.write(K, b"1")
    assert (zmap.calls, zmap.fired) == (2, 1)


def test_a_fault_after_the_call_loses_only_the_answer() -> None:
    inner = MemoryZMap()
    zmap = Faulty(inner, Fault(0, DeadlinePassed, after=True))
    with pytest.raises(DeadlinePassed):
        zmap.write(K, b"1", replaces=ABSENT)
    assert bytes(inner.read(K).data) == b"1"


def test_faults_count_the_calls_of_their_operations_alone() -> None:
    zmap = Faulty(MemoryZMap(), Fault(1, operations=frozenset({"read"}), repeats=2))
    zmap.write(K, b"1")
    zmap.read(K)
    zmap.stat(K)
    for _ in range(2):
        with pytest.raises(Unavailable):
            zmap.read(K)
    zmap.read(K)


def test_a_listing_can_fail_at_any_page() -> None:
    inner = MemoryZMap()
    for index in range(5):
        inner.write(Key(f"a/{index}"), b"")
    for call, seen in ((0, 0), (1, 2), (2, 4)):
        entries = Faulty(inner, Fault(call), page_entries=2).search(Prefix("a"))
        assert len(list(itertools.islice(entries, seen))) == seen
        with pytest.raises(Unavailable):
            next(entries)
    assert len(list(Faulty(inner, Fault(3), page_entries=2).search(Prefix("a")))) == 5


def test_a_faulty_store_tells_of_each_call_before_it_happens() -> None:
    told: list[tuple[str, str]] = []
    zmap = Faulty(MemoryZMap(), before_call=lambda operation, key: told.append((operation, key)))
    zmap.write(K, b"1")
    list(zmap.list(Prefix("a")))
    assert told == [("write", "a/b"), ("list", "a")]
