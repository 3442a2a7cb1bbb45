"""Archives as other programs write them, and what reading them costs."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from nczfs.errors import (
    Conflict,
    NoSuchObject,
    Unavailable,
)
from nczfs.testing.archives import (
    FLAGS,
    deflate64_run,
    patched,
    u16,
    u32,
    zipped,
    zipped_deflate64,
    zipped_many,
)
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import Blob, Features, Version
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.zip import ZipZMap
from tests.conftest import ExpectedWarnings

ARCHIVE = Key("data.zip")


class _Recorder(MemoryZMap):
    """Notes which ranges were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int | None]] = []

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        assert version is not None
        self.ranges.append((start, stop))
        return super().read(key, start, stop, version=version)


class _FarRecorder(_Recorder):
    @property
    def features(self) -> Features:
        return Features(near=False)


def _opened(data: bytes, **options: int | str) -> ZipZMap:
    source = _Recorder()
    source.write(ARCHIVE, data)
    return ZipZMap(source, ARCHIVE, **options)  # type: ignore[arg-type]


def _keys(zmap: ZipZMap) -> list[str]:
    return sorted(stat.key for stat in zmap.list(ROOT))


def _bytes(zmap: ZipZMap, key: str, start: int = 0, stop: int | None = None) -> bytes:
    return bytes(zmap.read(Key(key), start, stop).data)


# Layouts


def test_everything_in_one_directory_is_netcdf_c_s_form() -> None:
    zmap = _opened(
        zipped(("m/", b""), ("m/.zgroup", b"{}"), ("m/g1/", b""), ("m/g1/.zgroup", b"{}"))
    )
    assert zmap.top == "m"
    assert _keys(zmap) == [".zgroup", "g1/.zgroup"]


def test_keys_at_the_root_are_zarr_python_s_form() -> None:
    for names in (
        (".zgroup", "a/.zarray"),
        ("a/.zarray", "a/0", ".zgroup", ".zattrs"),
        ("c/0", "zarr.json"),
        ("zarr.json",),
    ):
        zmap = _opened(zipped(*((name, b"") for name in names)))
        assert zmap.top == ""
        assert _keys(zmap) == sorted(names)


def test_a_group_document_beside_the_one_directory_does_not_count() -> None:
    data = zipped(("m/", b""), ("m/v/.zarray", b"[]"), (".zgroup", b"{}"), ("m/.zgroup", b"{ }"))
    zmap = _opened(data)
    assert _keys(zmap) == [".zgroup", "v/.zarray"]
    assert _bytes(zmap, ".zgroup") == b"{ }"
    assert _keys(_opened(data, top="")) == [".zgroup", "m/.zgroup", "m/v/.zarray"]
    assert _keys(_opened(data, top="m/v")) == [".zarray"]


def test_of_members_with_one_name_the_last_counts() -> None:
    zmap = _opened(zipped(("a", b"first"), ("b", b""), ("a", b"second"), ("a", b"third")))
    assert _keys(zmap) == ["a", "b"]
    assert _bytes(zmap, "a") == b"third"
    assert [entry.name for entry in zmap.search(ROOT)] == ["a", "b"]


def test_members_whose_names_are_no_keys_are_dropped_and_logged_once(
    caplog: pytest.LogCaptureFixture, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("left out 8 members")
    bad = ("../up", "/absolute", "a/../../up", "C:\\windows", "a//b", ".nczfs-tmp-1", "x" * 1025)
    data = zipped(("good", b"1"), *((name, b"evil") for name in bad), ("nulX", b""))
    data = data.replace(b"nulX", b"nul\0")
    zmap = _opened(data)
    assert _keys(zmap) == ["good"]
    assert zmap.dropped == len(bad) + 1
    assert [record.getMessage() for record in caplog.records] == [
        "memory:///data.zip: left out 8 members whose names are not keys"
    ]


def test_names_are_utf8_with_or_without_saying_so_and_else_of_the_ibm_pc() -> None:
    flagged = zipped(("温度", b""))
    assert _keys(_opened(flagged)) == ["温度"]
    unflagged = patched(flagged, {FLAGS: u16(0)})
    assert _keys(_opened(unflagged)) == ["温度"]
    assert _keys(_opened(zipped(("ZZ", b"")).replace(b"ZZ", b"\x81\x84"))) == ["üä"]


def test_a_comment_may_hold_the_signature_of_an_end_record() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"1")
        archive.comment = b"PK\5\6" + bytes(18) + b" and so on, PK\5\6"
    assert _bytes(_opened(file.getvalue()), "a") == b"1"


def test_something_may_stand_before_and_after_the_archive() -> None:
    data = zipped(("a", b"1"), ("b", b"22"))
    assert _bytes(_opened(b"#!/bin/sh\n" + data), "b") == b"22"
    assert _bytes(_opened(data + b"\n"), "b") == b"22"


@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\n"])
def test_zip64_fields_are_used_where_the_others_are_full(
    monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 20)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    data = zipped(("a", b"x" * 100), ("b", b"y" * 200), ("c", b""), method=zipfile.ZIP_DEFLATED)
    assert b"PK\6\6" in data
    zmap = _opened(before + data)
    assert _bytes(zmap, "b") == b"y" * 200
    assert _bytes(zmap, "c") == b""
    assert zmap.stat(Key("a")).size == 100


def test_an_archive_without_members_is_an_empty_store() -> None:
    assert _keys(_opened(zipped())) == []


# Requests


def test_a_small_archive_opens_with_one_read_and_each_member_takes_one() -> None:
    source = _Recorder()
    source.write(ARCHIVE, zipped(*((f"a/{index}", b"x" * index) for index in range(1, 100))))
    zmap = ZipZMap(source, ARCHIVE)
    assert len(source.ranges) == 1
    for index in range(1, 100):
        assert _bytes(zmap, str(index)) == b"x" * index
    assert len(source.ranges) == 100


def test_a_range_of_a_stored_member_is_a_range_of_the_archive() -> None:
    source = _Recorder()
    content = bytes(range(256)) * 40_000
    source.write(ARCHIVE, zipped(("a", content)))
    zmap = ZipZMap(source, ARCHIVE)
    source.ranges.clear()
    for start, stop in ((5_000_000, 5_000_100), (7, 20), (9_999_000, None)):
        assert _bytes(zmap, "a", start, stop) == content[start:stop]
    fetched = sum((stop or 0) - start for start, stop in source.ranges)
    assert len(source.ranges) == 4  # one of them for the local header
    assert fetched < 250_000


def test_a_local_header_with_longer_extra_fields_than_expected_is_read_on() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("a")
        info.extra = struct.pack("<2H", 0xCAFE, 5000) + bytes(5000)
        archive.writestr(info, b"content")
    data = bytearray(file.getvalue())
    at = data.index(b"PK\1\2")
    shorter = data[: at + 46 + 1] + data[at + 46 + 1 + 5004 :]
    shorter[at + 30 : at + 32] = u16(0)
    end = shorter.index(b"PK\5\6")
    shorter[end + 12 : end + 16] = u32(47)
    assert _bytes(_opened(bytes(shorter)), "a") == b"content"
    assert _bytes(_opened(bytes(shorter)), "a", 2, 4) == b"nt"


def test_a_range_of_a_deflated_member_is_inflated_no_further() -> None:
    source = _Recorder()
    content = b"".join(zlib.crc32(b"%d" % index).to_bytes(4, "little") for index in range(2**20))
    source.write(ARCHIVE, zipped(("a", content), method=zipfile.ZIP_DEFLATED))
    zmap = ZipZMap(source, ARCHIVE)
    source.ranges.clear()
    for start, stop in ((100, 200), (2**20, 2**20 + 5), (2**22 - 3, None), (0, None)):
        assert _bytes(zmap, "a", start, stop) == content[start:stop]
    assert source.ranges[0][1] is not None
    assert source.ranges[0][1] < 2 * 2**20


def test_a_far_archive_is_read_in_larger_pieces() -> None:
    content = os.urandom(10 << 20)
    requests = {}
    for source in (_Recorder(), _FarRecorder()):
        source.write(ARCHIVE, zipped(("a", content), method=zipfile.ZIP_DEFLATED))
        zmap = ZipZMap(source, ARCHIVE)
        source.ranges.clear()
        assert _bytes(zmap, "a") == content
        requests[zmap.features.near] = len(source.ranges)
    assert requests == {True: 11, False: 2}


# Replaced, removed, closed


def test_a_replaced_archive_is_a_conflict_and_so_is_a_removed_one() -> None:
    source = MemoryZMap()
    source.write(ARCHIVE, zipped(("a", b"old")))
    zmap = ZipZMap(source, ARCHIVE)
    seen = zmap.stat(Key("a")).version
    source.write(ARCHIVE, zipped(("a", b"new")))
    with pytest.raises(Conflict):
        zmap.read(Key("a"))
    assert ZipZMap(source, ARCHIVE).stat(Key("a")).version != seen
    source.delete(ARCHIVE)
    with pytest.raises(Conflict, match="removed"):
        zmap.read(Key("a"))
    with pytest.raises(NoSuchObject):
        ZipZMap(source, ARCHIVE)


def test_what_the_source_cannot_answer_is_no_broken_archive() -> None:
    inner = MemoryZMap()
    inner.write(ARCHIVE, zipped(("a", b"1" * 100)))
    for call in range(2):
        with pytest.raises(Unavailable):
            ZipZMap(Faulty(inner, Fault(call)), ARCHIVE)
    zmap = ZipZMap(Faulty(inner, Fault(2)), ARCHIVE)
    with pytest.raises(Unavailable):
        zmap.read(Key("a"))
    assert _bytes(zmap, "a") == b"1" * 100


def test_the_source_is_closed_only_where_it_is_owned(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(zipped(("a", b"1")))
    for owned in (False, True):
        source = DirectoryZMap(tmp_path)
        ZipZMap(source, ARCHIVE, owns_source=owned).close()
        if owned:
            with pytest.raises(Unavailable):
                source.stat(ARCHIVE)
        else:
            source.stat(ARCHIVE)
            source.close()


# Deflate64


def test_deflate64_members_are_read() -> None:
    content = b"x" * (1 + 65_538 + 1000)
    compressed = deflate64_run(ord("x"), lengths=[65_538, 1000])
    zmap = _opened(zipped_deflate64(compressed, len(content), zlib.crc32(content)))
    assert _bytes(zmap, "a") == content
    assert _bytes(zmap, "a", 65_530, 65_550) == b"x" * 20
    assert _bytes(zmap, "a", len(content) - 1) == b"x"


# Many members


def test_a_member_costs_less_than_two_hundred_bytes() -> None:
    count = 20_000
    data = zipped_many(count, lambda index: f"group/temperature/{index // 100}.{index % 100}.0")
    source = MemoryZMap()
    source.write(ARCHIVE, data)
    tracemalloc.start()
    try:
        zmap = ZipZMap(source, ARCHIVE)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 200 * count
    assert peak < held + 2 * len(data)
    assert zmap.stat(Key("temperature/0.0.0")).size == 1


def test_two_hundred_thousand_members_open_and_are_found() -> None:
    count = 200_000
    source = _Recorder()
    source.write(
        ARCHIVE,
        zipped_many(count, lambda index: f"top/group/temperature/{index // 1000}.{index % 1000}.0"),
    )
    zmap = ZipZMap(source, ARCHIVE)
    assert len(source.ranges) < 6
    assert zmap.top == "top"
    assert sum(1 for _ in zmap.search(Prefix("group/temperature"))) == count
    assert [entry.name for entry in zmap.search(ROOT)] == ["group"]
    assert _bytes(zmap, "group/temperature/123.456.0") == b"x"
    with pytest.raises(NoSuchObject):
        zmap.stat(Key("group/temperature/123.456"))
