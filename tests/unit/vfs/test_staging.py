"""Staged files: sparse, fetched as far as needed, under a budget."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from nczfs.engine.spool.objects import KeptObject
from nczfs.engine.spool.space import LOCK, Spool, Survives
from nczfs.errors import NoSpace, ObjectTooLarge, OutOfDescriptors, Unavailable
from nczfs.tools import recovery
from nczfs.vfs.staging import Base, StagedFile, StagedSnapshot, stage
from nczfs.zmap.base import ABSENT, ByteRange, Piece, Stat, Version, Zeros, part_bytes
from nczfs.zmap.keys import Key
from tests.support.descriptors import descriptors_left
from tests.support.killed import object_of
from tests.support.refusing import small_disk

OLD = bytes(range(200))
STAT = Stat(Key("a/b"), len(OLD), Version("1"))


class Source:
    """A version of an object that notes what is fetched of it."""

    def __init__(self) -> None:
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, start: int, stop: int) -> bytes:
        self.fetched.append((start, stop))
        return OLD[start:stop]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path)
    yield spool
    spool.close()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def staged(spool: Spool, source: Source) -> StagedFile:
    return stage(spool, "a/b", len(OLD), Base(STAT, source.fetch, 10))


def fill(disk: Path) -> Path:
    """Take all that is free on a disk: the file that has it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def failing(*_: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def content(staged: StagedFile) -> bytes:
    return whole(staged.snapshot())


def whole(snapshot: StagedSnapshot) -> bytes:
    """What an object put together of a snapshot would hold."""
    with contextlib.closing(snapshot):
        pieces = (
            piece
            for part in snapshot.parts
            for piece in part_bytes(part, lambda found: OLD[found.start : found.stop])
        )
        return b"".join(pieces)


def seen(staged: StagedFile, offset: int, size: int) -> bytes:
    """Bytes of the file, fetched where they must be."""
    fetched = None
    while (found := staged.read(offset, size, fetched)) is None:
        fetch = staged.missing(offset, size)
        assert fetch is not None
        fetched = fetch()
        staged.take(fetched)
    return found


def test_only_what_is_read_is_fetched_in_whole_steps_and_once(
    staged: StagedFile, source: Source
) -> None:
    assert seen(staged, 23, 5) == OLD[23:28]
    assert seen(staged, 20, 10) == OLD[20:30]
    assert source.fetched == [(20, 30)]


def test_what_was_written_stands_before_what_is_fetched(staged: StagedFile, source: Source) -> None:
    staged.write(15, b"new")
    assert seen(staged, 10, 10) == OLD[10:15] + b"new" + OLD[18:20]
    assert source.fetched == [(10, 20)]
    assert content(staged) == OLD[:15] + b"new" + OLD[18:]


def test_what_was_written_whole_fetches_nothing(staged: StagedFile, source: Source) -> None:
    staged.write(0, b"x" * len(OLD))
    assert content(staged) == b"x" * len(OLD)
    staged.truncate(0)
    staged.truncate(7)
    assert content(staged) == bytes(7)
    assert source.fetched == []


def test_where_the_store_can_copy_what_was_not_touched_is_not_fetched(
    staged: StagedFile, source: Source
) -> None:
    staged.write(20, b"new")
    staged.write(len(OLD) + 5, b"end")
    with contextlib.closing(staged.snapshot()) as snapshot:
        found = [part.read() if isinstance(part, Piece) else part for part in snapshot.parts]
    assert found == [ByteRange(STAT, 0, 20), b"new", ByteRange(STAT, 23, 200), Zeros(5), b"end"]
    assert source.fetched == []
    newer = Source()
    staged.rebase(
        Base(STAT._replace(size=208, version=Version("2")), newer.fetch, 10), is_all=False
    )
    assert seen(staged, 100, 10) == OLD[100:110]
    assert (newer.fetched, source.fetched) == ([(100, 110)], [])


def test_bytes_cut_off_do_not_come_back(staged: StagedFile) -> None:
    staged.truncate(50)
    staged.truncate(100)
    staged.write(120, b"end")
    assert content(staged) == OLD[:50] + bytes(70) + b"end"


def test_the_budget_counts_what_is_on_the_disk(tmp_path: Path) -> None:
    """SEMANTICS O13."""
    spool = Spool(tmp_path, bytes_max=100)
    staged = stage(spool, "a", STAT.size, Base(STAT, Source().fetch, 10))
    assert spool.bytes_used == 0
    staged.write(STAT.size + 30, b"x" * 10)
    staged.truncate(1 << 40)
    staged.write((1 << 39) - 90, b"x" * 90)
    assert spool.bytes_used == 100
    with pytest.raises(NoSpace, match="--max-spool-size"):
        staged.write(STAT.size + 100, b"x")
    assert (spool.bytes_used, staged.size) == (100, 1 << 40)
    staged.truncate(STAT.size + 35)
    assert spool.bytes_used == 5
    staged.discard()
    assert spool.bytes_used == 0


def test_holes_cost_no_disk_and_a_full_disk_refuses_the_write_that_needs_it(tmp_path: Path) -> None:
    """SEMANTICS O13."""
    with small_disk(tmp_path / "disk", 1):
        spool = Spool(tmp_path / "disk")
        staged = stage(spool, "a")
        staged.write(0, b"x" * 10)
        staged.truncate(1 << 30)
        staged.write(1 << 31, b"end")
        assert staged.size == (1 << 31) + 3
        assert seen(staged, (1 << 30) + 5, 7) == bytes(7)
        assert (spool.bytes_used, os.stat(staged.path).st_blocks < 64) == (13, True)
        staged.write(1 << 20, b"y" * (1 << 16))
        with pytest.raises(NoSpace, match="--spool-dir"):
            staged.write(4 << 20, b"y" * (1 << 20))
        assert seen(staged, 1 << 20, 10) == b"y" * 10
        staged.truncate(20)
        assert content(staged) == b"x" * 10 + bytes(10)
        staged.discard()
        assert spool.bytes_used == 0
        spool.close()


def test_a_snapshot_stays_what_it_was(staged: StagedFile, spool: Spool) -> None:
    """SEMANTICS O6."""
    staged.write(10, b"first")
    staged.truncate(300)
    snapshot = staged.snapshot()
    staged.write(8, b"SECOND")
    second = staged.snapshot()
    staged.write(12, b"third")
    staged.truncate(11)
    staged.truncate(40)
    assert content(staged) == OLD[:8] + b"SEC" + bytes(29)
    assert whole(second) == OLD[:8] + b"SECONDt" + OLD[15:] + bytes(100)
    assert whole(snapshot) == OLD[:10] + b"first" + OLD[15:] + bytes(100)
    assert spool.bytes_used == 3
    staged.discard()


def test_a_snapshot_is_read_while_the_file_is_written(staged: StagedFile) -> None:
    """SEMANTICS O6."""
    size = 3 << 20
    staged.write(0, b"a" * size)
    snapshot = staged.snapshot()
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(whole(snapshot)))
    reader.start()
    for offset in range(0, size, 1 << 15):
        staged.write(size - offset - (1 << 15), b"b" * (1 << 15))
    reader.join()
    assert found == [b"a" * size]
    assert content(staged) == b"b" * size
    staged.discard()


def test_what_is_kept_counts_until_somebody_has_removed_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=100)
    staged = stage(spool, "a")
    staged.write(0, b"x" * 60)
    kept = staged.keep("a", ABSENT, "for no reason")
    assert (spool.kept_count, spool.bytes_used) == (1, 60)
    another = stage(spool, "b")
    with pytest.raises(NoSpace, match="could not be stored"):
        another.write(0, b"x" * 41)
    kept.unlink()
    another.write(0, b"x" * 41)
    assert (spool.kept_count, spool.bytes_used) == (0, 41)
    another.discard()


@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_what_is_on_a_full_disk_is_kept(tmp_path: Path, survives: Survives) -> None:
    """SEMANTICS O17: there is room in reserve for what entries end in."""
    with small_disk(tmp_path / "disk", 1):
        spool = Spool(tmp_path / "disk/spool", survives=survives)
        written = [stage(spool, f"f{number}") for number in range(20)]
        for staged in written:
            staged.write(0, bytes(4096))
            staged.note_unsaved(staged.path.name, ABSENT)
        fill(tmp_path / "disk")
        with pytest.raises(NoSpace):
            written[0].write(4096, bytes(4096))
        with contextlib.suppress(NoSpace):
            written.extend(stage(spool, "empty") for _ in range(80))
        kept = [staged.keep("a", ABSENT, "the store is full too") for staged in written]
        sizes = [object_of(path).data.size for path in kept]
        assert sizes == [4096] * 20 + [0] * (len(written) - 20)
        assert spool.kept_count == len(written) < 100
        spool.close()
        names = [LOCK, "log.1", *(path.name for path in kept)]
        assert sorted(os.listdir(spool.directory)) == sorted(names)


def test_a_spool_that_is_full_is_told_of_what_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing)  # there are disks that hold no room
    with small_disk(tmp_path / "disk", 1):
        spool = Spool(tmp_path / "disk/spool")
        staged = stage(spool, "a")
        staged.write(0, b"x" * 4096)
        fill(tmp_path / "disk")
        with pytest.raises(NoSpace):
            staged.keep("a", ABSENT, "for no reason")
        assert staged.path.read_bytes() == b"x" * 4096
        assert (spool.kept_count, spool.bytes_used) == (0, 0)
        spool.close()


def test_what_has_become_an_entry_is_kept_although_its_directory_was_not_synced(
    staged: StagedFile, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS O17: nothing is called lost that can be put back."""
    staged.write(0, b"new")
    monkeypatch.setattr(spool, "sync", mock.Mock(side_effect=Unavailable("the disk fails")))
    kept = staged.keep("a/b", Version("1"), "the store was full")
    assert object_of(kept).key == "a/b"
    assert spool.kept_count == 1


def test_a_full_disk_gives_the_reservation_back(
    staged: StagedFile, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: object, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(NoSpace, match="--spool-dir"):
        staged.write(0, b"abc")
    assert spool.bytes_used == 0
    assert staged.size == len(OLD)


def test_more_than_an_object_may_have_is_refused(staged: StagedFile) -> None:
    with pytest.raises(ObjectTooLarge):
        staged.truncate((5 << 40) + 1)


def test_the_name_tells_the_key_and_the_directory_goes_at_the_end(
    staged: StagedFile, spool: Spool
) -> None:
    assert staged.path.name.endswith("a%2Fb")
    staged.discard()
    spool.close()
    assert not spool.directory.exists()


def test_what_is_kept_says_what_it_is_and_what_is_missing(staged: StagedFile, spool: Spool) -> None:
    staged.write(5, b"new")
    kept = staged.keep("a/b", Version("1"), "the store was full")
    spool.close()
    assert kept.read_bytes()[5:8] == b"new"
    entry = object_of(kept)
    assert (entry.key, entry.reason) == ("a/b", "the store was full")
    assert (entry.replaces, entry.missing, entry.sent) == ("1", ((0, 5), (8, len(OLD))), ())
    assert entry.data.size == len(OLD)


def test_a_long_key_fits_into_a_name(spool: Spool) -> None:
    staged = stage(spool, "ü/" * 340 + "z")
    assert staged.path.name.endswith("z")
    staged.discard()


@pytest.mark.parametrize("survives", Survives)
def test_without_descriptors_nothing_is_begun_and_what_is_there_is_kept(
    tmp_path: Path, survives: Survives
) -> None:
    spool = Spool(tmp_path / "spool", survives=survives)
    staged = stage(spool, "a")
    staged.write(0, b"data")
    staged.note_unsaved("a", ABSENT)
    count = len(os.listdir("/proc/self/fd"))
    with descriptors_left(0), pytest.raises(OutOfDescriptors):
        stage(spool, "b")
    assert len(os.listdir("/proc/self/fd")) == count
    with descriptors_left(0):
        kept = staged.keep("a", ABSENT, "")
    spool.close()
    assert object_of(kept).data.size == 4
    assert [path.name for path in spool.directory.glob("[0-9]*")] == [kept.name]


def test_what_no_entry_can_be_made_of_on_a_full_disk_is_recovered_from_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing)  # there are disks that hold no room
    with small_disk(tmp_path / "disk", 1):
        spool = Spool(tmp_path / "disk/spool", survives=Survives.KILL)
        staged = stage(spool, "a")
        staged.write(0, bytes(4096))
        staged.note_unsaved("a", ABSENT)
        filler = fill(tmp_path / "disk")
        assert staged.keep("a", ABSENT, "the store is full too" * 500) == staged.path
        assert spool.kept_count == 1
        spool.close()
        filler.unlink()
        (found,) = recovery.entries(spool.directory.parent)
        assert isinstance(found.entry, KeptObject)
        assert (found.entry.key, found.entry.data.size) == ("a", 4096)
