"""Writing and deleting by one writer."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from nczfs.errors import Conflict, KeyNotText, KeyTooLong, NoSuchObject, ObjectExists
from nczfs.testing.zmap.base import WritableStoreTests
from nczfs.testing.zmap.samples import DATA, ODD_KEYS, K, searched
from nczfs.zmap.base import ABSENT, Version, ZMap
from nczfs.zmap.keys import ROOT, Key, parse_key
from nczfs.zmap.storable import storable


class WritingTests(WritableStoreTests):
    """Objects are replaced whole, as conditions allow it, and deleted."""

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

    def test_no_object_is_newer_than_its_time_and_the_resolution_say(self, zmap: ZMap) -> None:
        before_ns = time.time_ns()
        zmap.write(K, DATA)
        zmap.flush()
        for stat in (zmap.stat(K), *zmap.list(ROOT)):
            if stat.stored_ns is not None:
                assert stat.stored_ns + zmap.features.time_resolution_ns > before_ns

    def test_a_key_that_is_no_text_is_kept_or_refused_as_the_store_says(self, zmap: ZMap) -> None:
        key = parse_key("dir/\udcff\udcfe")
        if zmap.features.text_keys:
            for call in (storable, lambda zmap, key: zmap.write(key, DATA)):
                with pytest.raises(KeyNotText):
                    call(zmap, key)
        else:
            assert storable(zmap, key) == key
            zmap.write(key, DATA)
        assert [stat.key for stat in zmap.list(ROOT)] == ([] if zmap.features.text_keys else [key])

    def test_a_name_is_as_long_as_the_store_says(self, zmap: ZMap) -> None:
        most = zmap.features.name_bytes_max
        for length in (1000,) if most is None else (most, most + 1):
            key = parse_key(f"d/{'n' * length}")
            if most is None or length <= most:
                assert storable(zmap, key) == key
                zmap.write(key, DATA)
                assert self.peek(zmap, key) == DATA
            else:
                for call in (storable, lambda zmap, key: zmap.write(key, DATA)):
                    with pytest.raises(KeyTooLong):
                        call(zmap, key)

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

    def test_an_option_that_is_misspelt_is_an_error_and_writes_nothing(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        source = zmap.stat(K)
        options: Any = {"replace": ABSENT}
        with pytest.raises(TypeError):
            zmap.write(K, b"x", **options)
        with pytest.raises(TypeError):
            zmap.write_parts(K, [b"x"], **options)
        with pytest.raises(TypeError):
            zmap.copy(source, parse_key("copy"), **options)
        assert [(stat.key, stat.version) for stat in zmap.list(ROOT)] == [(K, source.version)]

    def test_replacing_a_version_of_a_deleted_object_is_a_conflict(self, zmap: ZMap) -> None:
        seen = zmap.write(K, b"one")
        zmap.delete(K)
        with pytest.raises(Conflict):
            zmap.write(K, b"two", replaces=seen)
        assert self.peek(zmap, K) is None
        assert searched(zmap, "") == {}

    def test_a_deleted_object_is_gone_and_so_are_prefixes_without_keys(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        zmap.write(parse_key("group/other"), b"stays")
        zmap.delete(K)
        assert self.peek(zmap, K) is None
        with pytest.raises(NoSuchObject):
            zmap.read(K)
        assert searched(zmap, "group") == {"other": (5, False)}
        zmap.delete(parse_key("group/other"))
        assert searched(zmap, "") == {}

    def test_deleting_what_is_not_there_harms_nothing(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        for absent in ("absent", "group", "group/variable", f"{K}/below"):
            with contextlib.suppress(NoSuchObject):
                zmap.delete(parse_key(absent))
        assert self.peek(zmap, K) == DATA

    def test_only_the_version_that_is_named_is_deleted(self, zmap: ZMap) -> None:
        old = zmap.write(K, b"one")
        new = zmap.write(K, b"another")
        with pytest.raises(Conflict):
            zmap.delete(K, version=old)
        assert self.peek(zmap, K) == b"another"
        zmap.delete(K, version=new)
        assert self.peek(zmap, K) is None
        with pytest.raises(NoSuchObject):
            zmap.delete(K, version=new)

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

    def test_a_refused_write_leaves_no_names_behind(self, zmap: ZMap) -> None:
        with pytest.raises(Conflict):
            zmap.write(Key("new/prefix/key"), b"data", replaces=Version("never-seen"))
        assert searched(zmap, "") == {}
        assert list(zmap.list(ROOT)) == []
