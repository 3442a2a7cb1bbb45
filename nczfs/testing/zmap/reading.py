"""What every store answers to reads of one object."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nczfs.errors import Conflict, CorruptStore, NoSuchObject, ReadOnlyStore
from nczfs.testing.zmap.base import Populate, StoreTests
from nczfs.testing.zmap.samples import DATA, K, entry_of, searched
from nczfs.zmap.base import ABSENT, ByteRange, Version
from nczfs.zmap.keys import ROOT, Key, parse_key, parse_prefix

_THREADS = 8


class ReadingTests(StoreTests):
    """Objects, their ranges and versions, and missing objects."""

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

    @pytest.mark.parametrize("size", [1, 5000, len(DATA) - 1, len(DATA), len(DATA) + 1, 10**9])
    def test_a_negative_start_counts_from_the_end(self, populate: Populate, size: int) -> None:
        zmap = populate({K: DATA})
        blob = zmap.read(K, -size)
        assert bytes(blob.data) == DATA[-size:]
        assert blob.object_size == len(DATA)
        assert blob.version == zmap.stat(K).version
        assert bytes(zmap.read(K, -size, version=blob.version).data) == DATA[-size:]

    def test_the_end_of_an_empty_object_has_no_bytes(self, populate: Populate) -> None:
        blob = populate({"empty": b""}).read(parse_key("empty"), -8)
        assert (bytes(blob.data), blob.object_size) == (b"", 0)

    def test_the_end_of_another_version_is_a_conflict(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        with pytest.raises(Conflict):
            zmap.read(K, -10, version=Version(_altered(zmap.stat(K).version)))

    def test_several_ranges_come_in_their_order(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        size = len(DATA)
        ranges = [(size - 7, size), (0, 10), (5, 20), (4000, 4000), (12, 13), (0, size)]
        found = zmap.read_ranges(K, ranges, version=zmap.stat(K).version)
        assert [bytes(data) for data in found] == [DATA[start:stop] for start, stop in ranges]

    def test_ranges_of_another_version_are_a_conflict(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        version = Version(_altered(zmap.stat(K).version))
        with pytest.raises(Conflict):
            zmap.read_ranges(K, [(0, 1), (5, 10)], version=version)

    def test_ranges_that_end_beyond_the_object_are_refused(self, populate: Populate) -> None:
        zmap = populate({K: DATA})
        ranges = [(0, 1), (len(DATA) - 5, len(DATA) + 5)]
        with pytest.raises(CorruptStore):
            zmap.read_ranges(K, ranges, version=zmap.stat(K).version)

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
        found = entry_of(zmap, "group/variable", "0.0.0").stat
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
            zmap.read(K, 1, 3, version=Version(_altered(version)))

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
            zmap.write_parts(parse_key("new"), [b"new", ByteRange(stat, 0, 1)])
        assert not zmap.features.server_copies
        with pytest.raises(ReadOnlyStore):
            zmap.delete(K)
        assert bytes(zmap.read(K).data) == DATA
        assert searched(zmap, "") == {"group": (None, True)}

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


def _altered(token: str) -> str:
    """Return another token of the same form: its last letter or digit differs."""
    for position in range(len(token) - 1, -1, -1):
        if token[position].isalnum():
            other = "1" if token[position] != "1" else "2"
            return token[:position] + other + token[position + 1 :]
    return token + "1"
