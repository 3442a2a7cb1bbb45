"""The conformance suite of stores: what every backend and every wrapper must do.

A backend's own test class holds its fixture and its `peek`, nothing else::

    class TestMyZMap(ZMapSuite):
        @pytest.fixture
        def zmap(self, tmp_path: Path) -> Iterator[ZMap]: ...

        def peek(self, zmap: ZMap, key: Key) -> bytes | None: ...

A store that cannot be written to runs `ZMapReadSuite`, which asks for one fixture that makes a
store of given objects.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar

import pytest

from nczfs.errors import Conflict, NoSuchObject, ObjectExists, ReadOnlyStore
from nczfs.zmap.base import ABSENT, Blob, Entry, Part, Range, Version, ZMap
from nczfs.zmap.keys import ROOT, Key, Prefix, parse_key, parse_prefix

_T = TypeVar("_T")

Populate: TypeAlias = Callable[[Mapping[str, bytes]], ZMap]

K = parse_key("group/variable/0.0.0")
COPY = parse_key("group/copy")
DATA = bytes(range(256)) * 17
ODD_KEYS = (
    "blank in name/and here",
    "per%cent/100%25/%2F",
    ".zattrs",
    ".hidden/.zarray",
    "ünïcode/温度/δοκιμή",
    "e\u0301/decomposed",
    "\N{GRINNING FACE}",
    "plus+and&and=and?and#and;",
    "quote'and\"and`and$",
    "colon:star*less<greater>bar|",
    "~tilde/-dash/_under/@at",
    " leading and trailing ",
    "dots../..dots/a..b",
    "new\nline/tab\t",
    "long/" + "/".join(["n" * 200] * 5),
)

_THREADS = 8


class ZMapReadSuite:
    """What holds for every store, those that only read included."""

    key_beside_prefix: ClassVar[bool] = True
    """Whether ``a`` and ``a/b`` can both be objects of the store."""

    @pytest.fixture
    def populate(self) -> Populate:
        """Make a store of the objects given, and of nothing else; called once in a test."""
        raise NotImplementedError("override the fixture `populate`")

    def test_a_whole_object_reads_as_it_is(self, populate: Populate) -> None:
        blob = populate({K: DATA}).read(K)
        assert bytes(blob.data) == DATA
        assert blob.object_size == len(DATA)

    @pytest.mark.parametrize(
        ("start", "stop"),
        [
            (0, 1),
            (0, None),
            (1, None),
            (7, 4000),
            (len(DATA) - 1, None),
            (len(DATA) - 1, len(DATA)),
            (0, len(DATA) + 1),
            (100, 10**9),
            (50, 50),
        ],
    )
    def test_a_range_is_a_slice_cut_at_the_end(
        self, populate: Populate, start: int, stop: int | None
    ) -> None:
        blob = populate({K: DATA}).read(K, start, stop)
        assert bytes(blob.data) == DATA[start:stop]
        assert blob.object_size == len(DATA)

    @pytest.mark.parametrize("beyond", [0, 1, 10**9])
    def test_a_range_at_or_beyond_the_end_has_no_bytes(
        self, populate: Populate, beyond: int
    ) -> None:
        zmap = populate({K: DATA})
        start = len(DATA) + beyond
        for stop in (None, start + 10):
            blob = zmap.read(K, start, stop)
            assert bytes(blob.data) == b""
            assert blob.object_size == len(DATA)

    def test_an_empty_object_is_an_object(self, populate: Populate) -> None:
        zmap = populate({"empty": b""})
        key = parse_key("empty")
        assert bytes(zmap.read(key).data) == b""
        assert bytes(zmap.read(key, 5, 10).data) == b""
        assert zmap.stat(key).size == 0
        assert [entry.name for entry in zmap.search(ROOT)] == ["empty"]

    def test_an_absent_key_is_no_such_object(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        for absent in ("absent", "group/absent", "group/variable/0.0.0/below", "no/such/prefix"):
            with pytest.raises(NoSuchObject, match=absent):
                zmap.read(parse_key(absent))
            with pytest.raises(NoSuchObject, match=absent):
                zmap.stat(parse_key(absent))

    def test_a_prefix_is_no_such_object(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        for prefix in ("group", "group/variable"):
            with pytest.raises(NoSuchObject):
                zmap.read(parse_key(prefix))
            with pytest.raises(NoSuchObject):
                zmap.stat(parse_key(prefix))

    def test_one_version_comes_with_read_stat_search_and_list(self, populate: Populate) -> None:
        zmap = populate({K: DATA, "other": b"x"})
        version = zmap.read(K).version
        assert version != ABSENT
        assert zmap.read(K, 5, 10).version == version
        assert zmap.stat(K).version == version
        found = _entry(zmap, "group/variable", "0.0.0").stat
        [listed] = zmap.list(parse_prefix("group"))
        for stat in (found, listed):
            assert stat is not None
            assert (stat.key, stat.size, stat.version) == (K, len(DATA), version)

    def test_a_time_that_comes_with_a_read_is_that_of_stat(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        assert zmap.read(K).mtime_ns in {0, zmap.stat(K).mtime_ns}

    def test_a_read_of_another_version_is_a_conflict(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        version = zmap.read(K).version
        assert bytes(zmap.read(K, 1, 3, version=version).data) == DATA[1:3]
        with pytest.raises(Conflict):
            zmap.read(K, 1, 3, version=Version(_altered(version.token)))

    def test_search_gives_the_next_level_once_with_sizes(self, populate: Populate) -> None:
        zmap = populate(
            {
                ".zgroup": b"{}",
                "a/.zarray": b"[]",
                "a/0.0": b"1234",
                "a/0.1": b"12",
                "a/deep/er/0": b"1",
                "ab/0": b"",
                "a.b": b"7",
            }
        )
        assert _searched(zmap, "") == {
            ".zgroup": (2, False),
            "a": (None, True),
            "ab": (None, True),
            "a.b": (1, False),
        }
        assert _searched(zmap, "a") == {
            ".zarray": (2, False),
            "0.0": (4, False),
            "0.1": (2, False),
            "deep": (None, True),
        }
        assert _searched(zmap, "a/deep") == {"er": (None, True)}

    def test_search_below_what_has_no_keys_gives_nothing(self, populate: Populate) -> None:
        zmap = populate({K: DATA, "gro": b""})
        for prefix in ("absent", "grou", "group/var", K, "group/variable/0.0.0/below"):
            assert list(zmap.search(parse_prefix(prefix))) == []
            assert list(zmap.list(parse_prefix(prefix))) == []

    def test_an_empty_store_has_no_names(self, populate: Populate) -> None:
        zmap = populate({})
        assert list(zmap.search(ROOT)) == []
        assert list(zmap.list(ROOT)) == []

    def test_list_gives_every_object_below_a_prefix(self, populate: Populate) -> None:
        objects = {"a/x": b"1", "a/b/y": b"22", "a/b/c/d/z": b"333", "ab/x": b"4444", "a.": b"5"}
        zmap = populate(objects)
        everything = {stat.key: stat.size for stat in zmap.list(ROOT)}
        assert everything == {key: len(data) for key, data in objects.items()}
        assert sorted(stat.key for stat in zmap.list(Prefix("a"))) == ["a/b/c/d/z", "a/b/y", "a/x"]

    def test_an_object_may_stand_beside_a_prefix_where_the_store_can(
        self, populate: Populate
    ) -> None:
        if not self.key_beside_prefix:
            with pytest.raises(ObjectExists):
                populate({"a": b"object", "a/b": b"below"})
            return
        zmap = populate({"a": b"object", "a/b": b"below", "a.c": b"between in the order of bytes"})
        assert _searched(zmap, "") == {"a": (6, True), "a.c": (29, False)}
        assert _searched(zmap, "a") == {"b": (5, False)}
        assert bytes(zmap.read(Key("a")).data) == b"object"
        assert bytes(zmap.read(Key("a/b")).data) == b"below"

    @pytest.mark.parametrize("text", ODD_KEYS, ids=lambda text: ascii(text[:20]))
    def test_an_odd_key_is_a_key_like_others(self, populate: Populate, text: str) -> None:
        key = parse_key(text)
        zmap = populate({key: b"odd", "a/usual": b"usual"})
        assert bytes(zmap.read(key).data) == b"odd"
        assert zmap.stat(key).size == 3
        parent, _, name = key.rpartition("/")
        entry = _entry(zmap, parent, name)
        assert entry.stat is not None
        assert entry.stat.key == key
        assert key in {stat.key for stat in zmap.list(ROOT)}

    def test_names_that_differ_in_case_are_told_apart_where_the_store_says_so(
        self, populate: Populate
    ) -> None:
        zmap = populate({"Case": b"upper", "case": b"lower"})
        names = {entry.name for entry in zmap.search(ROOT)}
        assert (names == {"Case", "case"}) is zmap.features.case_sensitive

    def test_more_keys_than_a_page_are_all_found(self, populate: Populate) -> None:
        objects = {f"many/{index}.0": b"x" * (index % 7) for index in range(1100)}
        objects |= {f"wide/{index}/0": b"" for index in range(1010)}
        zmap = populate(objects)
        found = list(zmap.search(Prefix("many")))
        assert len(found) == 1100
        assert {entry.stat.key: entry.stat.size for entry in found if entry.stat is not None} == {
            key: len(data) for key, data in objects.items() if key.startswith("many/")
        }
        wide = [entry.name for entry in zmap.search(Prefix("wide"))]
        assert sorted(wide) == sorted(str(index) for index in range(1010))
        listed = [stat.key for stat in zmap.list(ROOT)]
        assert sorted(listed) == sorted(objects)

    def test_a_listing_may_be_left_before_its_end(self, populate: Populate) -> None:
        zmap = populate({f"a/{index}": b"" for index in range(5)})
        for items in (zmap.search(Prefix("a")), zmap.list(ROOT)):
            next(iter(items))
            del items
        assert len(list(zmap.search(Prefix("a")))) == 5

    def test_many_threads_read_the_right_bytes(self, populate: Populate) -> None:
        objects = {f"a/{index}": bytes([index]) * (1000 + index) for index in range(32)}
        zmap = populate(objects)

        def read_all(turn: int) -> list[bool]:
            keys = [*objects][turn:] + [*objects][:turn]
            return [bytes(zmap.read(Key(key), turn).data) == objects[key][turn:] for key in keys]

        with ThreadPoolExecutor(_THREADS) as pool:
            assert all(all(right) for right in pool.map(read_all, range(_THREADS)))

    def test_a_store_that_is_not_writable_refuses_and_changes_nothing(
        self, populate: Populate
    ) -> None:
        zmap = populate({K: DATA})
        if zmap.features.writable:
            zmap.delete(K)
            with pytest.raises(NoSuchObject):
                zmap.read(K)
            return
        assert not zmap.features.conditional_writes
        with pytest.raises(ReadOnlyStore):
            zmap.write(K, b"new")
        with pytest.raises(ReadOnlyStore):
            zmap.write(parse_key("new"), b"new", replaces=ABSENT)
        stat = zmap.stat(K)
        with pytest.raises(ReadOnlyStore):
            zmap.copy(stat, parse_key("new"))
        with pytest.raises(ReadOnlyStore):
            zmap.write_parts(parse_key("new"), [b"new", Range(stat, 0, 1)])
        assert not zmap.features.server_copies
        with pytest.raises(ReadOnlyStore):
            zmap.delete(K)
        assert bytes(zmap.read(K).data) == DATA
        assert _searched(zmap, "") == {"group": (None, True)}

    def test_the_name_is_there_for_messages(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        assert zmap.name
        with pytest.raises(NoSuchObject) as caught:
            zmap.read(parse_key("absent"))
        assert zmap.name.split("?")[0] in str(caught.value)

    def test_close_may_be_called_twice(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        zmap.close()
        zmap.close()


class ZMapSuite(ZMapReadSuite, ABC):
    """What holds for stores that can be written to as well."""

    @pytest.fixture
    def zmap(self) -> ZMap:
        """An empty store."""
        raise NotImplementedError("override the fixture `zmap`")

    @abstractmethod
    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        """Read an object behind the map's back; None where there is none."""

    @pytest.fixture
    def populate(self, zmap: ZMap) -> Populate:
        """Write the objects into the empty store."""

        def write_all(objects: Mapping[str, bytes]) -> ZMap:
            for key, data in objects.items():
                zmap.write(parse_key(key), data)
            return zmap

        return write_all

    def test_what_is_written_is_there_for_others(self, zmap: ZMap) -> None:
        assert zmap.features.writable
        for data in (b"one", b"", DATA, bytearray(b"two"), memoryview(DATA)[3:9]):
            zmap.write(K, data)
            assert self.peek(zmap, K) == bytes(data)

    def test_a_shorter_object_leaves_nothing_of_a_longer_one(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        zmap.write(K, b"{}")
        assert self.peek(zmap, K) == b"{}"
        assert zmap.stat(K).size == 2

    def test_later_changes_of_the_buffer_do_not_change_the_object(self, zmap: ZMap) -> None:
        buffer = bytearray(b"before")
        zmap.write(K, buffer)
        buffer[:] = b"after!"
        assert self.peek(zmap, K) == b"before"

    def test_write_gives_the_version_that_reads_find(self, zmap: ZMap) -> None:
        version = zmap.write(K, DATA)
        assert zmap.read(K).version == version
        assert zmap.stat(K).version == version

    def test_each_replacement_has_another_version_even_of_the_same_size(self, zmap: ZMap) -> None:
        versions = [zmap.write(K, b"%03d" % turn) for turn in range(50)]
        assert len(set(versions)) == len(versions)

    def test_a_pinned_read_of_a_replaced_object_is_a_conflict(self, zmap: ZMap) -> None:
        version = zmap.write(K, b"one")
        zmap.write(K, b"two")
        with pytest.raises(Conflict):
            zmap.read(K, version=version)

    def test_lost_race_is_a_conflict_and_changes_nothing(self, zmap: ZMap) -> None:
        seen = zmap.write(K, b"one")
        zmap.write(K, b"two")
        with pytest.raises(Conflict):
            zmap.write(K, b"three", replaces=seen)
        assert self.peek(zmap, K) == b"two"

    def test_the_version_that_was_seen_can_be_replaced(self, zmap: ZMap) -> None:
        seen = zmap.write(K, b"one")
        zmap.write(K, b"two", replaces=seen)
        assert self.peek(zmap, K) == b"two"

    def test_create_only_does_not_replace(self, zmap: ZMap) -> None:
        zmap.write(K, b"one", replaces=ABSENT)
        with pytest.raises(ObjectExists):
            zmap.write(K, b"two", replaces=ABSENT)
        assert self.peek(zmap, K) == b"one"

    def test_replacing_a_version_of_a_deleted_object_is_a_conflict(self, zmap: ZMap) -> None:
        seen = zmap.write(K, b"one")
        zmap.delete(K)
        with pytest.raises(Conflict):
            zmap.write(K, b"two", replaces=seen)
        assert self.peek(zmap, K) is None
        assert _searched(zmap, "") == {}

    def test_a_copy_has_the_bytes_and_the_version_that_reads_find(self, zmap: ZMap) -> None:
        for data in (DATA, b""):
            zmap.write(K, data)
            version = zmap.copy(zmap.stat(K), COPY)
            assert (self.peek(zmap, COPY), self.peek(zmap, K)) == (data, data)
            assert zmap.read(COPY).version == zmap.stat(COPY).version == version

    def test_an_object_may_be_copied_onto_itself(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        zmap.copy(zmap.stat(K), K)
        assert self.peek(zmap, K) == DATA

    @pytest.mark.parametrize("text", ODD_KEYS, ids=lambda text: ascii(text[:20]))
    def test_an_odd_key_is_copied_like_others(self, zmap: ZMap, text: str) -> None:
        key = parse_key(text)
        zmap.write(key, b"odd")
        zmap.copy(zmap.stat(key), COPY)
        assert self.peek(zmap, COPY) == b"odd"
        zmap.write(K, b"usual")
        zmap.copy(zmap.stat(K), key)
        assert self.peek(zmap, key) == b"usual"

    def test_an_object_is_put_together_of_bytes_and_ranges_of_others(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        zmap.write(parse_key("other"), b"other")
        old, other = zmap.stat(K), zmap.stat(parse_key("other"))
        parts: list[Part] = [
            Range(old, 7, 300),
            b"between",
            Range(other, 0, 5),
            Range(old, 3, 3),
            b"",
            memoryview(DATA)[1:2],
        ]
        data = DATA[7:300] + b"between" + b"other" + DATA[1:2]
        version = zmap.write_parts(COPY, parts)
        assert self.peek(zmap, COPY) == data
        assert zmap.stat(COPY).version == version
        zmap.write_parts(K, parts, replaces=old.version)
        assert self.peek(zmap, K) == data
        zmap.write_parts(K, [])
        assert self.peek(zmap, K) == b""

    def test_what_was_replaced_is_not_copied_and_nothing_is_changed(self, zmap: ZMap) -> None:
        zmap.write(K, b"one")
        zmap.write(COPY, b"stays")
        old = zmap.stat(K)
        zmap.write(K, b"two")
        for replaces in (None, zmap.stat(COPY).version):
            with pytest.raises(Conflict):
                zmap.copy(old, COPY, replaces=replaces)
            with pytest.raises(Conflict):
                zmap.write_parts(COPY, [b"new", Range(old, 0, 1)], replaces=replaces)
        with pytest.raises(Conflict):
            zmap.write_parts(COPY, [b"new", Range(old, 1, 1)])
        zmap.delete(K)
        with pytest.raises(NoSuchObject):
            zmap.copy(old, COPY)
        with pytest.raises(NoSuchObject):
            zmap.write_parts(COPY, [b"new", Range(old, 0, 1)])
        assert self.peek(zmap, COPY) == b"stays"

    def test_a_copy_replaces_only_what_it_is_told_to(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        source = zmap.stat(K)
        seen = zmap.copy(source, COPY, replaces=ABSENT)
        assert self.peek(zmap, COPY) == DATA
        current = zmap.write(COPY, b"another")
        parts: list[Part] = [b"new", Range(source, 0, 9)]
        for replaces, error in ((ABSENT, ObjectExists), (seen, Conflict)):
            with pytest.raises(error):
                zmap.copy(source, COPY, replaces=replaces)
            with pytest.raises(error):
                zmap.write_parts(COPY, parts, replaces=replaces)
        assert self.peek(zmap, COPY) == b"another"
        current = zmap.write_parts(COPY, parts, replaces=current)
        assert self.peek(zmap, COPY) == b"new" + DATA[:9]
        zmap.copy(source, COPY, replaces=current)
        assert self.peek(zmap, COPY) == DATA

    def test_a_deleted_object_is_gone_and_so_are_prefixes_without_keys(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        zmap.write(parse_key("group/other"), b"stays")
        zmap.delete(K)
        assert self.peek(zmap, K) is None
        with pytest.raises(NoSuchObject):
            zmap.read(K)
        assert _searched(zmap, "group") == {"other": (5, False)}
        zmap.delete(parse_key("group/other"))
        assert _searched(zmap, "") == {}

    def test_deleting_what_is_not_there_harms_nothing(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        for absent in ("absent", "group", "group/variable", f"{K}/below"):
            with contextlib.suppress(NoSuchObject):
                zmap.delete(parse_key(absent))
        assert self.peek(zmap, K) == DATA

    def test_many_keys_are_deleted_and_no_other(self, zmap: ZMap) -> None:
        keys = [*map(parse_key, ODD_KEYS), *(Key(f"many/{number}") for number in range(20))]
        for key in (*keys, K):
            zmap.write(key, b"data")
        zmap.delete_many(iter([*keys, Key("absent"), Key("many/absent")]))
        assert [stat.key for stat in zmap.list(ROOT)] == [K]
        zmap.delete_many([])
        assert self.peek(zmap, K) == b"data"

    def test_writing_can_be_prepared_at_any_time_and_leaves_nothing(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        assert zmap.prepare_writing() == zmap.features == zmap.prepare_writing()
        assert [stat.key for stat in zmap.list(ROOT)] == [K]

    def test_a_key_can_be_written_again_where_a_prefix_was(self, zmap: ZMap) -> None:
        zmap.write(Key("a/b/c"), b"deep")
        zmap.delete(Key("a/b/c"))
        zmap.write(Key("a"), b"flat")
        assert self.peek(zmap, Key("a")) == b"flat"
        zmap.delete(Key("a"))
        zmap.write(Key("a/b/c"), b"deep again")
        assert self.peek(zmap, Key("a/b/c")) == b"deep again"

    def test_one_of_many_creators_wins(self, zmap: ZMap) -> None:
        if not zmap.features.conditional_writes:
            pytest.skip("the store declares that conditions do not hold against races")
        for turn in range(10):
            key = parse_key(f"races/{turn}")
            won = _race(partial(_create, zmap, key))
            assert won.count(True) == 1
            assert self.peek(zmap, key) == b"%d" % won.index(True)

    def test_one_of_many_who_copy_to_a_new_key_wins(self, zmap: ZMap) -> None:
        if not zmap.features.conditional_writes:
            pytest.skip("the store declares that conditions do not hold against races")
        for number in range(_THREADS):
            zmap.write(parse_key(f"sources/{number}"), b"%d" % number)
        won = _race(partial(_create_copy, zmap, COPY))
        assert won.count(True) == 1
        assert self.peek(zmap, COPY) == b"%d" % won.index(True)

    def test_no_update_is_lost_among_racing_writers(self, zmap: ZMap) -> None:
        if not zmap.features.conditional_writes:
            pytest.skip("the store declares that conditions do not hold against races")
        zmap.write(K, b"0")

        def increment(_: int) -> None:
            for _ in range(10):
                _increment(zmap, K)

        _race(increment)
        assert self.peek(zmap, K) == b"%d" % (10 * _THREADS)

    def test_readers_see_an_old_or_a_new_object_and_nothing_else(self, zmap: ZMap) -> None:
        if not zmap.features.atomic_replace:
            pytest.skip("the store declares that readers may see parts")
        contents = [bytes([turn]) * (4096 * (1 + turn % 3)) for turn in range(40)]
        zmap.write(K, contents[0])
        done = threading.Event()

        def read_until_done(_: int) -> list[Blob]:
            seen = []
            while not done.is_set():
                seen.append(zmap.read(K))
            return seen

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read_until_done, number) for number in range(2)]
            try:
                for content in contents:
                    zmap.write(K, content)
            finally:
                done.set()
            blobs = [blob for reader in readers for blob in reader.result()]
        assert {bytes(blob.data) for blob in blobs} <= set(contents)
        by_version = {(blob.version, bytes(blob.data)) for blob in blobs}
        assert len(by_version) == len({version for version, _ in by_version})

    def test_writers_of_neighbours_do_not_disturb_each_other(self, zmap: ZMap) -> None:
        def write_and_delete(number: int) -> None:
            for turn in range(10):
                key = parse_key(f"shared/deep/{number}")
                zmap.write(key, b"%d" % turn)
                assert bytes(zmap.read(key).data) == b"%d" % turn
                zmap.delete(key)

        _race(write_and_delete)
        assert _searched(zmap, "") == {}

    def test_a_refused_write_leaves_no_names_behind(self, zmap: ZMap) -> None:
        with pytest.raises(Conflict):
            zmap.write(Key("new/prefix/key"), b"data", replaces=Version("never-seen"))
        assert _searched(zmap, "") == {}
        assert list(zmap.list(ROOT)) == []


def _searched(zmap: ZMap, prefix: str) -> dict[str, tuple[int | None, bool]]:
    """Sizes (None: no object) and whether there are keys below, by name; each name comes once."""
    entries = list(zmap.search(parse_prefix(prefix)))
    found = {
        entry.name: (entry.stat.size if entry.stat else None, entry.is_prefix) for entry in entries
    }
    assert len(found) == len(entries)
    return found


def _entry(zmap: ZMap, prefix: str, name: str) -> Entry:
    [entry] = [entry for entry in zmap.search(parse_prefix(prefix)) if entry.name == name]
    return entry


def _altered(token: str) -> str:
    """Another token of the same form: the last letter or digit that can differ does."""
    for position in range(len(token) - 1, -1, -1):
        if token[position].isalnum():
            other = "1" if token[position] != "1" else "2"
            return token[:position] + other + token[position + 1 :]
    return token + "1"


def _race(act: Callable[[int], _T]) -> list[_T]:
    """Call `act` with 0, 1, ... in as many threads, all let go at once."""
    together = threading.Barrier(_THREADS)

    def start(number: int) -> _T:
        together.wait(30)
        return act(number)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(start, range(_THREADS)))


def _create(zmap: ZMap, key: Key, number: int) -> bool:
    try:
        zmap.write(key, b"%d" % number, replaces=ABSENT)
    except (ObjectExists, Conflict):
        return False
    return True


def _create_copy(zmap: ZMap, key: Key, number: int) -> bool:
    try:
        zmap.copy(zmap.stat(parse_key(f"sources/{number}")), key, replaces=ABSENT)
    except (ObjectExists, Conflict):
        return False
    return True


def _increment(zmap: ZMap, key: Key) -> None:
    while True:
        blob = zmap.read(key)
        with contextlib.suppress(Conflict):
            zmap.write(key, b"%d" % (int(bytes(blob.data)) + 1), replaces=blob.version)
            return
