"""Compressed members: every method, and ranges of large ones that do not begin from the start."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from nczfs.errors import CorruptStore
from nczfs.testing.archives import CRC, METHOD, SIZE, patched, u16, u32, zipped
from nczfs.zmap.base import Blob, Features, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.zip import ZipZMap
from nczfs.zmap.zip.points import AccessPoints, InflatingMember

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ARCHIVE = Key("data.zip")
A = Key("a")
MIB = 1 << 20


class Store(MemoryZMap):
    """Counts the bytes that are read."""

    bytes_read = 0
    near = True

    @property
    def features(self) -> Features:
        return Features(near=self.near)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        blob = super().read(key, start, stop, version=version)
        self.bytes_read += len(blob.data)
        return blob


def words(size: int, seed: int = 1) -> bytes:
    """Bytes that compress to about a third."""
    source = random.Random(seed)
    vocabulary = [source.randbytes(source.randint(2, 12)) for _ in range(2000)]
    parts = b"".join(source.choices(vocabulary, k=size // 6))
    return (parts * (size // len(parts) + 1))[:size]


def zstandard(content: bytes, declared: int | None = None) -> bytes:
    data = zipped(("a", zstd.compress(content)))
    size = len(content) if declared is None else declared
    return patched(data, {METHOD: u16(93), SIZE: u32(size), CRC: u32(zlib.crc32(content))})


def opened(data: bytes, *, near: bool = True) -> tuple[ZipZMap, Store]:
    store = Store()
    store.near = near
    store.write(ARCHIVE, data)
    zmap = ZipZMap(store, ARCHIVE, top="")
    store.bytes_read = 0
    return zmap, store


@cache
def large() -> bytes:
    return words(24 * MIB)


@cache
def deflated() -> bytes:
    return zipped(("a", large()), method=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("near", [True, False])
def test_random_ranges_of_a_large_deflated_member_fetch_little(near: bool) -> None:
    zmap, store = opened(deflated(), near=near)
    assert bytes(zmap.read(A, len(large()) - 10).data) == large()[-10:]  # the first has to
    store.bytes_read = 0
    places = random.Random(2)
    for _ in range(50):
        start = places.randrange(len(large()) - 65536)
        assert bytes(zmap.read(A, start, start + 65536).data) == large()[start : start + 65536]
    # From the nearest point, every 4 MiB, and not from the beginning: half of it on average.
    assert store.bytes_read < 50 * len(deflated()) / 24 * 4.5


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 93])
def test_reading_in_pieces_inflates_once(method: int) -> None:
    content = large()[: 2 * MIB]
    data = zstandard(content) if method == 93 else zipped(("a", content), method=method)
    zmap, store = opened(data)
    step = 64 << 10
    for start in range(0, len(content), step):
        assert bytes(zmap.read(A, start, start + step).data) == content[start : start + step]
    # What is fetched ahead of a small range is fetched again with the next.
    assert store.bytes_read < 6 * len(data)


@pytest.mark.parametrize("near", [True, False])
def test_any_range_is_the_right_bytes_whatever_was_read_before(near: bool) -> None:
    content = large()[: 10 * MIB]
    zmap, _ = opened(zipped(("a", content), method=zipfile.ZIP_DEFLATED), near=near)
    archive = vars(zmap)["_kept"].get(None)
    vars(vars(archive)["_reader"])["_points"] = AccessPoints(1 * MIB, 1 * MIB)

    def read_some(seed: int) -> bool:
        places = random.Random(seed)
        right = True
        for _ in range(12):
            start = places.randrange(len(content))
            stop = start + places.choice([1, 1000, 70_000, 3 * MIB])
            right &= bytes(zmap.read(A, start, stop).data) == content[start:stop]
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read_some, range(8)))


def test_places_are_kept_within_the_budget_and_the_oldest_go() -> None:
    points = AccessPoints(budget_bytes=10 * MIB, spacing_bytes=64 << 10)
    compressed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = compressed.compress(large()[: 4 * MIB]) + compressed.flush()
    for member in range(10):
        inflating = InflatingMember.begun(8, 4 * MIB)
        feed = (data[at : at + 4096] for at in range(0, len(data), 4096))
        for _ in inflating.blocks(feed, 4 * MIB, MIB):
            points.add(member, 4 * MIB, inflating)
        assert points.used_bytes <= 10 * MIB
    assert points.take(0, 3 * MIB) is None
    taken = points.take(9, 3 * MIB)
    assert taken is not None
    assert 3 * MIB - (128 << 10) < taken.given <= 3 * MIB
    assert points.spacing(1 << 40) > 1 << 30  # a huge member gets half of the budget


def test_a_member_larger_than_a_read_may_be_is_read_by_ranges() -> None:
    store = Store()
    store.write(ARCHIVE, deflated())
    zmap = ZipZMap(store, ARCHIVE, max_inflated_bytes=MIB)
    start = len(large()) - MIB
    assert bytes(zmap.read(A, start).data) == large()[start:]


def test_zstandard_members_are_read() -> None:
    zmap, _ = opened(zstandard(large()[:MIB]))
    assert bytes(zmap.read(A).data) == large()[:MIB]
    assert bytes(zmap.read(A, 1000, 2000).data) == large()[1000:2000]
    zmap, _ = opened(zstandard(large()[:MIB], declared=1000))
    with pytest.raises(CorruptStore, match="more than the 1000 bytes"):
        zmap.read(A)
    zmap, _ = opened(zstandard(large()[:MIB], declared=2 * MIB))
    with pytest.raises(CorruptStore, match="of the 2097152 it declares"):
        zmap.read(A)
    broken = bytearray(zstandard(large()[:MIB]))
    broken[5000:5100] = bytes(100)
    with pytest.raises(CorruptStore):
        opened(bytes(broken))[0].read(A)


@pytest.mark.parametrize("method", ["store", "deflate", "bzip2"])
def test_what_info_zip_writes_is_read(method: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for name, content in {"d/a": large()[:MIB], "d/empty": b"", "d/ä": b"small"}.items():
        (tmp_path / name).write_bytes(content)
    subprocess.run(["zip", "-q", "-r", "-Z", method, "d.zip", "d"], cwd=tmp_path, check=True)
    zmap, _ = opened((tmp_path / "d.zip").read_bytes())
    assert bytes(zmap.read(Key("d/a")).data) == large()[:MIB]
    assert bytes(zmap.read(Key("d/a"), 5000, 9000).data) == large()[5000:9000]
    assert bytes(zmap.read(Key("d/empty")).data) == b""
    assert bytes(zmap.read(Key("d/ä")).data) == b"small"


def test_what_was_written_to_a_pipe_is_read(tmp_path: Path) -> None:
    """Its local headers have no sizes: they stand behind the data."""
    (tmp_path / "a").write_bytes(large()[:MIB])
    done = subprocess.run(
        "zip -q - a | cat", shell=True, cwd=tmp_path, check=True, capture_output=True
    )
    zmap, _ = opened(done.stdout)
    assert bytes(zmap.read(A).data) == large()[:MIB]
