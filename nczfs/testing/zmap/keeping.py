"""What some stores keep besides objects: given times, and markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from nczfs.errors import Conflict, NoSuchObject, ReadOnlyStore
from nczfs.testing.zmap.base import WritableStoreTests
from nczfs.testing.zmap.samples import COPY, DATA, K, searched
from nczfs.zmap.aside import Aside
from nczfs.zmap.base import ByteRange, Stat, ZMap
from nczfs.zmap.keys import ROOT, Key, Prefix, parse_key, parse_prefix

TIME_NS = 1_354_040_105_123_123_123
MARKED = parse_prefix("group/empty")


def _written(zmap: ZMap) -> None:
    zmap.write(K, DATA, mtime_ns=TIME_NS)


def _put_together(zmap: ZMap) -> None:
    zmap.write(COPY, DATA)
    zmap.write_parts(K, [ByteRange(zmap.stat(COPY), 1, 5), b"more"], mtime_ns=TIME_NS)


def _copied(zmap: ZMap) -> None:
    zmap.write(COPY, DATA, mtime_ns=1)
    zmap.copy(zmap.stat(COPY), K, mtime_ns=TIME_NS)


def _copied_with_it(zmap: ZMap) -> None:
    zmap.write(COPY, DATA, mtime_ns=TIME_NS)
    zmap.copy(zmap.stat(COPY), K, mtime_ns=TIME_NS)


def _replaced(zmap: ZMap) -> None:
    old = zmap.write(K, DATA, mtime_ns=1)
    zmap.write(K, b"new", replaces=old, mtime_ns=TIME_NS)


def _set(zmap: ZMap) -> None:
    zmap.write(K, DATA, mtime_ns=1)
    zmap.set_mtime(zmap.stat(K), TIME_NS)


def _exchange(zmap: ZMap, aside: Aside, old: Mapping[Key, bytes]) -> None:
    """Write to a place aside, look at it, and exchange what is at `n/w` there."""
    zmap.write(Key(f"{aside.prefix}/beside"), b"replaces nothing")
    zmap.write(Key(f"{aside.prefix}/n/w/b/d"), b"first")
    version = zmap.write(Key(f"{aside.prefix}/n/w/b/d"), b"new")
    zmap.write(Key(f"{aside.prefix}/n/w/b/e"), b"deleted")
    zmap.flush()
    zmap.delete(Key(f"{aside.prefix}/n/w/b/e"))
    assert {stat.key for stat in zmap.list(ROOT)} == set(old)
    assert all(zmap.read(key).data == data for key, data in old.items())
    assert {each.name for each in zmap.search(aside.prefix)} == {"beside", "n"}
    [entry] = zmap.search(Prefix(f"{aside.prefix}/n/w"))
    assert (entry.name, entry.stat, entry.is_prefix) == ("b", None, True)
    [listed] = zmap.list(Prefix(f"{aside.prefix}/n"))
    assert (listed.key, listed.size) == (f"{aside.prefix}/n/w/b/d", 3)
    found = zmap.stat(Key(f"{aside.prefix}/n/w/b/d"))
    assert (found.size, found.version) == (3, version)
    assert zmap.read(found.key).data == b"new"
    aside.exchange()


_WAYS: Mapping[str, Callable[[ZMap], None]] = {
    "written": _written,
    "put together": _put_together,
    "copied": _copied,
    "copied with it": _copied_with_it,
    "replaced": _replaced,
    "set": _set,
}


class KeepingTests(WritableStoreTests):
    """`Features.keeps_times`, `gathers_writes` and `markers`, as they say."""

    @pytest.mark.parametrize("way", _WAYS.values(), ids=_WAYS.keys())
    def test_a_time_that_was_given_is_kept_where_the_store_says_so(
        self, zmap: ZMap, way: Callable[[ZMap], None]
    ) -> None:
        way(zmap)
        expected = TIME_NS if zmap.features.keeps_times else None
        assert zmap.stat(K).kept_mtime_ns == expected

    def test_an_object_of_no_given_time_has_none(self, zmap: ZMap) -> None:
        zmap.write(K, DATA, mtime_ns=TIME_NS)
        zmap.write(K, DATA)
        assert zmap.stat(K).kept_mtime_ns is None

    @pytest.mark.parametrize("time_ns", [0, 10**18, 10**18 + 1, 10**17 * 7, -1, -5 * 10**17])
    def test_every_time_is_kept_to_the_nanosecond(self, zmap: ZMap, time_ns: int) -> None:
        zmap.write(K, DATA, mtime_ns=time_ns)
        assert zmap.stat(K).kept_mtime_ns == (time_ns if zmap.features.keeps_times else None)

    def test_setting_a_time_gives_the_version_and_changes_no_byte(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        version = zmap.set_mtime(zmap.stat(K), TIME_NS)
        assert zmap.stat(K).version == version
        assert self.peek(zmap, K) == DATA

    def test_setting_the_time_of_what_was_replaced_or_deleted_is_refused(self, zmap: ZMap) -> None:
        zmap.write(K, b"one")
        seen = zmap.stat(K)
        zmap.write(K, b"another")
        if zmap.features.keeps_times:
            with pytest.raises(Conflict):
                zmap.set_mtime(seen, TIME_NS)
            zmap.delete(K)
            with pytest.raises(NoSuchObject):
                zmap.set_mtime(seen, TIME_NS)
        else:
            assert zmap.set_mtime(seen, TIME_NS) == seen.version

    def test_writes_are_gathered_until_a_flush_where_the_store_says_so(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        seen = self.peek_unflushed(zmap, K)
        assert seen == (None if zmap.features.gathers_writes else DATA)
        zmap.flush()
        assert self.peek(zmap, K) == DATA

    def test_a_marker_is_a_directory_where_the_store_says_so(self, zmap: ZMap) -> None:
        zmap.mark(MARKED)
        there = zmap.features.markers
        assert zmap.exists(MARKED) == zmap.exists(Prefix("group")) == there
        assert searched(zmap, "group") == ({"empty": (None, True)} if there else {})
        assert list(zmap.markers(ROOT)) == ([MARKED] if there else [])
        assert list(zmap.search(MARKED)) == []
        assert list(zmap.list(ROOT)) == []
        zmap.unmark(MARKED)
        zmap.unmark(MARKED)
        assert not zmap.exists(MARKED)
        assert list(zmap.search(ROOT)) == []

    def test_markers_are_found_however_deep_and_not_beside(self, zmap: ZMap) -> None:
        marked = [Prefix(text) for text in ("a", "a/b/ü c", "a-b", "a/b", "b")]
        for prefix in marked:
            zmap.mark(prefix)
        zmap.write(parse_key("a/b/object"), DATA)
        found = set(zmap.markers(Prefix("a")))
        assert found == ({"a", "a/b", "a/b/ü c"} if zmap.features.markers else set())
        for prefix in marked:
            zmap.unmark(prefix)
        assert [stat.key for stat in zmap.list(ROOT)] == ["a/b/object"]
        assert not list(zmap.markers(ROOT))

    def test_a_prefix_is_replaced_in_one_step_where_the_store_says_so(self, zmap: ZMap) -> None:
        old = {parse_key(f"group/{name}"): b"old" for name in ("a", "b/c")}
        for key, data in old.items():
            zmap.write(key, data)
        if not zmap.features.exchanges.covers(Prefix("group")):
            with pytest.raises(ReadOnlyStore):
                zmap.aside(Prefix("group")).__enter__()
            return
        with zmap.aside(Prefix("group"), "n/w") as aside:
            _exchange(zmap, aside, old)
            assert [stat.key for stat in zmap.list(ROOT)] == ["group/b/d"]
            assert self.peek(zmap, Key("group/b/d")) == b"new"
        assert [stat.key for stat in zmap.list(ROOT)] == ["group/b/d"]
        assert searched(zmap, "group") == {"b": (None, True)}
        with zmap.aside(Prefix("group")) as aside:
            zmap.write(Key(f"{aside.prefix}/e"), b"given up")
        assert [stat.key for stat in zmap.list(ROOT)] == ["group/b/d"]
        with pytest.raises(NoSuchObject):
            zmap.aside(Prefix("missing")).__enter__()

    def test_the_whole_store_is_replaced_in_one_step_where_the_store_says_so(
        self, zmap: ZMap
    ) -> None:
        old = {parse_key(name): b"old" for name in ("group/a", "b")}
        for key, data in old.items():
            zmap.write(key, data)
        if not zmap.features.exchanges.covers(ROOT):
            with pytest.raises(ReadOnlyStore):
                zmap.aside(ROOT).__enter__()
            return
        with zmap.aside(ROOT, "n/w") as aside:
            _exchange(zmap, aside, old)
        assert [stat.key for stat in zmap.list(ROOT)] == ["b/d"]
        assert self.peek(zmap, Key("b/d")) == b"new"

    def test_a_prefix_exists_while_it_has_keys(self, zmap: ZMap) -> None:
        assert not zmap.exists(Prefix("group"))
        zmap.write(K, DATA)
        assert zmap.exists(Prefix("group"))
        assert zmap.exists(Prefix("group/variable"))
        assert not zmap.exists(Prefix("grou"))
        assert not zmap.exists(Prefix(K))

    def test_a_listing_and_the_object_itself_agree_on_all_else(self, zmap: ZMap) -> None:
        zmap.write(K, DATA, mtime_ns=TIME_NS)
        [listed] = zmap.list(ROOT)
        found = zmap.stat(K)
        assert Stat(listed.key, listed.size, listed.version) == Stat(
            found.key, found.size, found.version
        )
        assert listed.kept_mtime_ns is None
