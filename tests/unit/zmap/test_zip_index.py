"""Indexes of large archives on disk: used where they are right, made anew where not."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
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


def test_a_damaged_database_is_made_anew(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    path = tmp_path / indexcache.FILE
    good = path.read_bytes()
    places = random.Random(1).sample(range(len(good)), 40)
    for damaged in (
        b"",
        good[:5],
        good[: len(good) // 2],
        good + b"x",
        *(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :] for at in (*range(0, 99, 3), *places)),
    ):
        path.write_bytes(damaged)
        assert opened(store, cache)[0] == KEYS
        assert opened(store, cache)[0] == KEYS
        keys, size = opened(store, cache)
        assert keys == KEYS
        assert size < 2000


@pytest.mark.parametrize(
    "change",
    [
        "checksum = checksum + 1",
        "keys = zeroblob(length(keys))",
        "keys = substr(keys, 2)",
        "key_ends = zeroblob(length(key_ends) + 8)",
        "members = substr(members, 2)",
        "shadowed = x'00'",
    ],
)
def test_a_changed_index_is_not_believed(store: Store, tmp_path: Path, change: str) -> None:
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    with closing(sqlite3.connect(tmp_path / indexcache.FILE, isolation_level=None)) as database:
        database.execute(f"UPDATE indexes SET {change}")
    keys, size = opened(store, cache)
    assert keys == KEYS
    assert size > 50 * COUNT
    assert opened(store, cache)[1] < 2000


def test_an_index_with_lying_places_is_not_believed(store: Store, tmp_path: Path) -> None:
    """Checksums are no secret: the columns are checked against each other."""
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    with closing(sqlite3.connect(tmp_path / indexcache.FILE, isolation_level=None)) as database:
        [good] = database.execute("SELECT keys, key_ends, members, shadowed FROM indexes")
        for column, data in [
            (1, good[1][:8] + b"\xff" * 8 + good[1][16:]),
            (1, good[1][:-8] + bytes(8)),
            (2, b"\xff" * 4 + good[2][4:]),
        ]:
            parts = [*good[:column], data, *good[column + 1 :]]
            database.execute(
                "UPDATE indexes"
                " SET checksum = ?, keys = ?, key_ends = ?, members = ?, shadowed = ?",
                (indexcache._checksum(parts), *parts),
            )
            keys, size = opened(store, cache)
            assert keys == KEYS
            assert size > 50 * COUNT


def test_a_locked_database_is_not_waited_for_long(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexcache, "_LOCKED_S", 0.01)
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    with closing(sqlite3.connect(tmp_path / indexcache.FILE, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        assert opened(store, cache)[0] == KEYS
        database.execute("ROLLBACK")
    assert opened(store, cache)[1] < 2000


def test_what_others_may_have_written_is_not_believed(store: Store, tmp_path: Path) -> None:
    cache = IndexCache(str(tmp_path))
    opened(store, cache)
    path = tmp_path / indexcache.FILE
    path.chmod(0o666)
    assert opened(store, cache)[1] > 50 * COUNT
    assert path.stat().st_mode & 0o777 == 0o600
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    assert opened(store, cache)[1] > 50 * COUNT
    path.unlink()
    tmp_path.chmod(0o777)
    opened(store, cache)
    assert not path.exists()


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    store = Store()
    cache = IndexCache(str(tmp_path), limit_bytes=400_000)
    versions = []
    for number in range(8):
        names = [f"{number}/{index}" for index in range(COUNT)]
        versions.append(zipped_many(COUNT, names.__getitem__))
        store.write(ARCHIVE, versions[-1])
        opened(store, cache)
    with closing(sqlite3.connect(tmp_path / indexcache.FILE)) as database:
        [(count, used)] = database.execute("SELECT count(*), sum(bytes) FROM indexes")
    assert 2 < count < 8
    assert used <= 400_000
    assert (tmp_path / indexcache.FILE).stat().st_size <= 1_000_000
    assert opened(store, cache)[1] < 2000


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
        with closing(sqlite3.connect(tmp_path / "cache" / indexcache.FILE)) as database:
            assert database.execute("SELECT count(*) FROM indexes").fetchone() == (turn + 1,)
        zmap.write(Key("8"), b"new")
        zmap.close()


def test_indexes_are_kept_where_xdg_has_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert default_directory() == "/some/cache/nczfs/zip-index"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory() == "/home/me/.cache/nczfs/zip-index"
