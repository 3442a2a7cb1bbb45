"""Indexes of large archives on disk: used where they are right, made anew where not."""

from __future__ import annotations

import json
import os
import random
import zlib
from pathlib import Path

import pytest

from nczfs.testing.archives import zipped, zipped_many
from nczfs.zmap.base import Blob, Version
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.zip import ZipZMap, indexcache
from nczfs.zmap.zip.indexcache import IndexCache, default_directory

ARCHIVE = Key("data.zip")
COUNT = 2000


class Store(MemoryZMap):
    """Counts the bytes that are read."""

    bytes_read = 0

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        blob = super().read(key, start, stop, version=version)
        self.bytes_read += len(blob.data)
        return blob


@pytest.fixture(autouse=True)
def _small_archives_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexcache, "WORTH_BYTES", 1000)
    monkeypatch.setattr("nczfs.zmap.zip.ends.TAIL_BYTES", 1000)


@pytest.fixture
def store() -> Store:
    store = Store()
    store.write(ARCHIVE, zipped_many(COUNT, lambda number: f"top/v/{number}.0"))
    return store


def opened(store: Store, cache: IndexCache, top: str | None = None) -> tuple[list[str], int]:
    """All keys, and how many bytes were read to know them."""
    before = store.bytes_read
    zmap = ZipZMap(store, ARCHIVE, index_cache=cache, top=top)
    return sorted(stat.key for stat in zmap.list(ROOT)), store.bytes_read - before


KEYS = sorted(f"v/{number}.0" for number in range(COUNT))


def test_a_second_opening_reads_only_the_end_of_the_archive(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path / "made" / "here"))
    keys, first = opened(store, cache)
    assert keys == KEYS
    again, second = opened(store, cache)
    assert again == KEYS
    assert first > 50 * COUNT
    assert second < 2000
    zmap = ZipZMap(store, ARCHIVE, index_cache=cache)
    assert bytes(zmap.read(Key("v/17.0")).data) == b"x"
    assert (zmap.top, zmap.dropped) == ("top", 0)


def test_each_root_has_an_index_of_its_own(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path))
    for _ in range(2):
        assert opened(store, cache)[0] == KEYS
        assert opened(store, cache, "")[0] == [f"top/{key}" for key in KEYS]


def test_another_version_of_the_archive_is_read_anew(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    store.write(ARCHIVE, zipped_many(COUNT, lambda number: f"top/w/{number}.0"))
    keys, size = opened(store, cache)
    assert keys == sorted(f"w/{number}.0" for number in range(COUNT))
    assert size > 50 * COUNT


def test_an_index_is_not_believed_when_the_archive_ends_otherwise(tmp_path: Path) -> None:
    """Where time and size of a changed archive are the same by chance."""
    path = tmp_path / "data.zip"
    options = StoreOptions(zip_index_dir=str(tmp_path / "cache"))
    for name in "vw":
        names = [f"top/{name}/{number}.0" for number in range(COUNT)]
        data = zipped_many(COUNT, names.__getitem__)
        path.touch()
        with open(path, "r+b") as file:  # the same inode
            file.write(data)
        os.utime(path, (1, 1))
        zmap = open_store(str(path), options)
        assert [entry.name for entry in zmap.search(ROOT)] == [name]
        zmap.close()


def test_a_damaged_index_is_made_anew(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    [path] = tmp_path.iterdir()
    good = path.read_bytes()
    places = random.Random(1).sample(range(len(good)), 40)
    for damaged in (
        b"",
        good[:5],
        good[:-1],
        good + b"x",
        *(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :] for at in (*range(0, 60, 3), *places)),
    ):
        path.write_bytes(damaged)
        keys, size = opened(store, cache)
        assert keys == KEYS
        assert size > 50 * COUNT
        assert path.read_bytes() == good


def test_an_index_with_lying_lengths_is_not_believed(store: Store, tmp_path: Path) -> None:
    """Checksums are no secret: what the header says is checked against what is there."""
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    [path] = tmp_path.iterdir()
    good = path.read_bytes()
    header, body_at = indexcache._header(good)
    keys_size, ends_size, members_size, shadowed_size = header["sizes"]
    for sizes in (
        [1 << 40, ends_size, members_size, shadowed_size],
        [keys_size + 8, ends_size - 8, members_size, shadowed_size],
        [keys_size, ends_size, members_size - 40, 40],
        [-1, 0, 0, 0],
        [keys_size],
        "none",
    ):
        text = json.dumps(header | {"sizes": sizes}).encode()
        lead = good[: len(indexcache._MAGIC)] + len(text).to_bytes(4, "little")
        crc = zlib.crc32(text).to_bytes(4, "little")
        path.write_bytes(lead + crc + text + good[body_at:])
        keys, size = opened(store, cache)
        assert keys == KEYS
        assert size > 50 * COUNT


def test_what_others_may_have_written_is_not_believed(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    [path] = tmp_path.iterdir()
    path.chmod(0o666)
    assert opened(store, cache)[1] > 50 * COUNT
    assert path.stat().st_mode & 0o777 == 0o600
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    assert opened(store, cache)[1] > 50 * COUNT
    assert not path.is_symlink()


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    store = Store()
    cache = IndexCache(str(tmp_path), limit_bytes=400_000)
    used = []
    for number in range(8):
        names = [f"{number}/{index}" for index in range(COUNT)]
        store.write(ARCHIVE, zipped_many(COUNT, names.__getitem__))
        opened(store, cache)
        newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_ctime_ns)
        os.utime(newest, (number, number))
        used.append(newest)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 400_000
    assert sorted(tmp_path.iterdir()) == sorted(used[-len(list(tmp_path.iterdir())) :])


def test_a_cache_that_cannot_be_written_is_none(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = IndexCache(str(tmp_path / "file" / "below"))
    for _ in range(2):
        assert opened(store, cache)[0] == KEYS


def test_duplicates_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    path.write_bytes(zipped(*((f"m/{number % 50}", b"%d" % number) for number in range(100))))
    options = StoreOptions(zip_index_dir=str(tmp_path / "cache"))
    for turn in range(2):
        zmap = open_store(str(path), options)
        assert bytes(zmap.read(Key("7")).data) == b"57"
        assert len(list((tmp_path / "cache").iterdir())) == turn + 1
        zmap.write(Key("8"), b"new")
        zmap.close()


def test_indexes_are_kept_where_xdg_has_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert default_directory() == "/some/cache/nczfs/zip-index"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory() == "/home/me/.cache/nczfs/zip-index"
