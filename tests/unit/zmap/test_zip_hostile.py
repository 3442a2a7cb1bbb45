"""Archives as nobody should write them: cut off, damaged, lying about their sizes."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import pytest

from nczfs.errors import AccessDenied, CorruptStore, NoSuchObject, ObjectTooLarge, StoreError
from nczfs.testing.archives import (
    COMPRESSED_SIZE,
    CRC,
    FLAGS,
    METHOD,
    OFFSET,
    SIZE,
    deflate64_run,
    patched,
    u16,
    u32,
    zipped,
    zipped_deflate64,
)
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.zip import ZipZMap
from tests.conftest import ExpectedWarnings

ARCHIVE = Key("data.zip")


def _opened(data: bytes, **options: int | str) -> ZipZMap:
    source = MemoryZMap()
    source.write(ARCHIVE, data)
    return ZipZMap(source, ARCHIVE, **options)  # type: ignore[arg-type]


def _keys(zmap: ZipZMap) -> list[str]:
    return sorted(stat.key for stat in zmap.list(ROOT))


def _bytes(zmap: ZipZMap, key: str, start: int = 0, stop: int | None = None) -> bytes:
    return bytes(zmap.read(Key(key), start, stop).data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"no archive at all" * 100, "not a zip archive"),
        (b"PK\3\4" + bytes(1000), "truncated"),
    ],
)
def test_what_is_no_archive_is_a_corrupt_store_that_says_so(data: bytes, says: str) -> None:
    with pytest.raises(CorruptStore, match=f"memory:///data.zip: .*{says}"):
        _opened(data)


def test_a_truncated_archive_is_a_corrupt_store_wherever_it_is_cut() -> None:
    data = zipped(("a", b"1" * 50), ("b/c", b"2" * 50), method=zipfile.ZIP_DEFLATED)
    for size in range(len(data)):
        with pytest.raises(CorruptStore):
            _opened(data[:size])


def test_a_flipped_byte_gives_a_store_error_or_the_right_bytes(
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("left out")
    members = {"a": b"11 " * 30, "b/c": bytes(range(100))}
    data = zipped(*members.items(), method=zipfile.ZIP_DEFLATED)
    for position in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[position] ^= flip
            try:
                zmap = _opened(bytes(broken), max_inflated_bytes=1 << 20)
            except CorruptStore:
                continue
            for key in _keys(zmap):
                try:
                    content = _bytes(zmap, key)
                except StoreError as error:
                    assert not isinstance(error, NoSuchObject)  # noqa: PT017 - either is right
                    continue
                assert content in members.values()


def test_a_damaged_central_directory_is_a_corrupt_store() -> None:
    data = bytearray(zipped(("a", b""), ("b", b"")))
    data[data.rindex(b"PK\1\2")] = 0
    with pytest.raises(CorruptStore, match="central directory is damaged"):
        _opened(bytes(data))
    data = bytearray(zipped(("a", b""), ("b", b"")))
    data[data.index(b"PK\5\6") + 10] = 7
    with pytest.raises(CorruptStore, match="has 2 members and should have 7"):
        _opened(bytes(data))


def test_a_directory_larger_than_the_archive_is_refused_unread() -> None:
    data = bytearray(zipped(("a", b"")))
    end = data.index(b"PK\5\6")
    data[end + 12 : end + 16] = u32(2**31)
    with pytest.raises(CorruptStore, match="would not fit"):
        _opened(bytes(data))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 12, 14])
def test_a_wrong_checksum_is_a_corrupt_store_that_names_the_member(method: int) -> None:
    zmap = _opened(patched(zipped(("a/b", b"1" * 50), method=method), {CRC: bytes(4)}), top="")
    with pytest.raises(CorruptStore, match=r"data.zip/a/b: its checksum"):
        zmap.read(Key("a/b"))
    assert _bytes(zmap, "a/b", 5, 10) == b"11111"


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 12, 14])
def test_a_member_that_inflates_to_more_than_it_declares_is_stopped_there(method: int) -> None:
    bomb = patched(zipped(("a", bytes(64 << 20)), method=method), {SIZE: u32(1000)})
    zmap = _opened(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStore, match="more than the 1000 bytes it declares"):
            zmap.read(Key("a"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert _bytes(zmap, "a", 0, 100) == bytes(100)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 12, 14])
def test_a_member_that_declares_more_than_it_has_costs_nothing(method: int) -> None:
    zmap = _opened(patched(zipped(("a", b"1" * 99), method=method), {SIZE: u32(2**31 - 1)}))
    assert zmap.stat(Key("a")).size == 2**31 - 1
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStore, match="inflates to 99 bytes of the 2147483647"):
            zmap.read(Key("a"))
        # LZMA allocates the dictionary that its header asks for, here 8 MiB.
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def test_a_compressed_member_above_the_limit_is_refused_and_a_stored_one_is_not() -> None:
    members = (("a", bytes(1001)),)
    with pytest.raises(ObjectTooLarge, match=r"data.zip/a: .*1001"):
        _opened(zipped(*members, method=8), max_inflated_bytes=1000).read(Key("a"))
    assert len(_bytes(_opened(zipped(*members), max_inflated_bytes=1000), "a")) == 1001


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({FLAGS: u16(1)}, AccessDenied, "encrypted"),
        ({METHOD: u16(97)}, CorruptStore, "method 97"),
        ({METHOD: u16(8)}, CorruptStore, "data.zip/a: "),
        ({SIZE: u32(49)}, CorruptStore, "two different sizes"),
        ({OFFSET: u32(1)}, CorruptStore, "no member begins"),
        ({OFFSET: u32(2**31)}, CorruptStore, "no member begins"),
        ({COMPRESSED_SIZE: u32(500), SIZE: u32(500)}, CorruptStore, "central directory"),
        ({COMPRESSED_SIZE: u32(2**32 - 2), SIZE: u32(2**32 - 2)}, CorruptStore, "central"),
    ],
)
def test_a_broken_member_breaks_itself_alone(
    fields: dict[int, bytes], error: type[StoreError], says: str
) -> None:
    zmap = _opened(patched(zipped(("a", b"1" * 50), ("b", b"22")), fields))
    for start in (0, 10):
        with pytest.raises(error, match=says):
            zmap.read(Key("a"), start)
    assert _bytes(zmap, "b") == b"22"
    assert _keys(zmap) == ["a", "b"]


ZIP64_CUT = struct.pack("<2HL", 1, 4, 0)
ZIP64_ABSURD = struct.pack("<2HQ", 1, 8, 1 << 63)


@pytest.mark.parametrize("extra", [ZIP64_CUT, ZIP64_ABSURD])
@pytest.mark.parametrize("full", [SIZE, COMPRESSED_SIZE, OFFSET])
def test_a_member_whose_size_or_place_cannot_be_is_left_out_alone(
    extra: bytes, full: int, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("left out 1 ")
    zmap = _opened(_with_zip64(extra, full, "good", "dir/also"))
    assert _keys(zmap) == ["dir/also", "good"]
    assert _bytes(zmap, "dir/also") == b"1"
    with pytest.raises(NoSuchObject):
        zmap.read(Key("bad"))


@pytest.mark.parametrize("extra", [ZIP64_CUT, ZIP64_ABSURD])
def test_an_archive_of_such_members_alone_is_a_corrupt_store(extra: bytes) -> None:
    with pytest.raises(CorruptStore, match="zip64"):
        _opened(_with_zip64(extra, SIZE))


def _with_zip64(extra: bytes, full: int, *others: str) -> bytes:
    """An archive whose first member has a full field, and this for it among its extra fields."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("bad")
        info.extra = extra
        archive.writestr(info, b"1")
        for name in others:
            archive.writestr(name, b"1")
    return patched(file.getvalue(), {full: u32(0xFFFFFFFF)})


def test_a_deflate64_member_that_inflates_to_more_than_it_declares_is_stopped() -> None:
    zmap = _opened(zipped_deflate64(deflate64_run(ord("x"), lengths=[65_538] * 5000), 1000, 0))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStore, match="more than the 1000 bytes"):
            zmap.read(Key("a"))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_damaged_deflate64_is_a_corrupt_store() -> None:
    zmap = _opened(zipped_deflate64(b"\xff" * 100, 1000, 0))
    with pytest.raises(CorruptStore, match=r"data.zip/a: "):
        zmap.read(Key("a"))
