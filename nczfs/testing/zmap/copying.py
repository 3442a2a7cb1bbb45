"""Copies of objects, and objects that are assembled from parts."""

from __future__ import annotations

import pytest

from nczfs.errors import Conflict, NoSuchObject, ObjectExists
from nczfs.testing.zmap.base import WritableStoreTests
from nczfs.testing.zmap.samples import COPY, DATA, ODD_KEYS, K
from nczfs.zmap import base
from nczfs.zmap.base import ABSENT, ByteRange, Part, ZMap
from nczfs.zmap.keys import Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Metered, Prefixed


class CopyingTests(WritableStoreTests):
    """Copies, and objects assembled from bytes and ranges."""

    def test_a_copy_has_the_bytes_and_the_version_that_reads_find(self, zmap: ZMap) -> None:
        for data in (DATA, b""):
            zmap.write(K, data)
            version = zmap.copy(zmap.stat(K), COPY)
            assert (self.peek(zmap, COPY), self.peek(zmap, K)) == (data, data)
            assert zmap.read(COPY).version == zmap.stat(COPY).version == version

    def test_a_copy_of_an_object_of_another_store_has_its_bytes(self, zmap: ZMap) -> None:
        origin = Prefixed(MemoryZMap(), Prefix("some/place"))
        for data in (DATA, b""):
            origin.write(K, data)
            zmap.write(COPY, b"another")
            version = zmap.copy_from(Metered(origin, "test"), K, COPY)
            assert self.peek(zmap, COPY) == data
            assert zmap.stat(COPY).version == version
        origin.delete(K)
        with pytest.raises(NoSuchObject):
            zmap.copy_from(origin, K, COPY)
        assert self.peek(zmap, COPY) == b""

    def test_a_long_object_of_another_store_is_copied_step_by_step(
        self, zmap: ZMap, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(base, "RANGE_STEP_BYTES", 4)
        origin = MemoryZMap()
        for size in (4, 5, 8, 11):
            data = bytes(range(size))
            origin.write(K, data)
            zmap.copy_from(origin, K, COPY)
            assert self.peek(zmap, COPY) == data

    def test_a_store_copies_from_itself_under_another_name(self, zmap: ZMap) -> None:
        key = parse_key("dir/källa")
        zmap.write(key, DATA)
        zmap.copy_from(Prefixed(zmap, Prefix("dir")), parse_key("källa"), COPY)
        assert self.peek(zmap, COPY) == DATA

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
            ByteRange(old, 7, 300),
            b"between",
            ByteRange(other, 0, 5),
            ByteRange(old, 3, 3),
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
                zmap.write_parts(COPY, [b"new", ByteRange(old, 0, 1)], replaces=replaces)
        with pytest.raises(Conflict):
            zmap.write_parts(COPY, [b"new", ByteRange(old, 1, 1)])
        zmap.delete(K)
        with pytest.raises(NoSuchObject):
            zmap.copy(old, COPY)
        with pytest.raises(NoSuchObject):
            zmap.write_parts(COPY, [b"new", ByteRange(old, 0, 1)])
        assert self.peek(zmap, COPY) == b"stays"

    def test_a_copy_replaces_only_what_it_is_told_to(self, zmap: ZMap) -> None:
        zmap.write(K, DATA)
        source = zmap.stat(K)
        seen = zmap.copy(source, COPY, replaces=ABSENT)
        assert self.peek(zmap, COPY) == DATA
        current = zmap.write(COPY, b"another")
        parts: list[Part] = [b"new", ByteRange(source, 0, 9)]
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
