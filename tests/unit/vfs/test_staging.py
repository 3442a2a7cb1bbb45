"""Staged files: sparse, fetched as far as needed, under a budget."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nczfs.errors import NoSpace, ObjectTooLarge, StaleHandle
from nczfs.vfs.staging import Base, Spool, StagedFile, default_spool_dir

OLD = bytes(range(200))


class Source:
    """A version of an object that notes what is fetched of it."""

    def __init__(self) -> None:
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, start: int, stop: int) -> bytes:
        self.fetched.append((start, stop))
        return OLD[start:stop]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def staged(spool: Spool, source: Source) -> StagedFile:
    return spool.open("a/b", len(OLD), Base(len(OLD), source.fetch, 10))


def content(staged: StagedFile) -> bytes:
    with staged.content() as data:
        return bytes(data)


def test_only_what_is_read_is_fetched_in_whole_steps_and_once(
    staged: StagedFile, source: Source
) -> None:
    assert staged.read(23, 5) == OLD[23:28]
    assert staged.read(20, 10) == OLD[20:30]
    assert source.fetched == [(20, 30)]


def test_what_was_written_stands_before_what_is_fetched(staged: StagedFile, source: Source) -> None:
    staged.write(15, b"new")
    assert staged.read(10, 10) == OLD[10:15] + b"new" + OLD[18:20]
    assert source.fetched == [(10, 15), (18, 20)]
    assert content(staged) == OLD[:15] + b"new" + OLD[18:]


def test_what_was_written_whole_fetches_nothing(staged: StagedFile, source: Source) -> None:
    staged.write(0, b"x" * len(OLD))
    assert content(staged) == b"x" * len(OLD)
    staged.truncate(0)
    staged.truncate(7)
    assert content(staged) == bytes(7)
    assert source.fetched == []


def test_bytes_cut_off_do_not_come_back(staged: StagedFile) -> None:
    staged.truncate(50)
    staged.truncate(100)
    staged.write(120, b"end")
    assert content(staged) == OLD[:50] + bytes(70) + b"end"


def test_the_budget_counts_bytes_and_not_holes(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 100)
    staged = spool.open("a")
    staged.write(1 << 30, b"x" * 60)
    with pytest.raises(NoSpace, match="--max-spool-size"):
        staged.write(0, b"x" * 41)
    staged.write((1 << 30) + 10, b"y" * 50)
    assert spool.bytes_used == 60
    assert staged.size == (1 << 30) + 60
    staged.truncate((1 << 30) + 5)
    assert spool.bytes_used == 5
    staged.discard()
    assert spool.bytes_used == 0


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


def test_what_is_kept_is_whole_and_stays(staged: StagedFile, spool: Spool) -> None:
    staged.write(5, b"new")
    kept = staged.keep()
    spool.close()
    assert kept.name.startswith("unsaved-")
    assert kept.read_bytes() == OLD[:5] + b"new" + OLD[8:]


def test_what_was_written_is_kept_though_the_rest_cannot_be_fetched(spool: Spool) -> None:
    def gone(start: int, stop: int) -> bytes:
        raise StaleHandle("gone")

    staged = spool.open("a", 10, Base(10, gone, 10))
    staged.write(0, b"new")
    with pytest.raises(StaleHandle):
        content(staged)
    assert staged.keep().read_bytes()[:3] == b"new"


def test_a_long_key_fits_into_a_name(spool: Spool) -> None:
    staged = spool.open("ü/" * 340 + "z")
    assert staged.path.name.endswith("z")
    staged.discard()


def test_files_are_staged_in_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_spool_dir() == Path("/state/nczfs/spool")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_spool_dir() == Path("/home/me/.local/state/nczfs/spool")
    monkeypatch.delenv("HOME")
    assert default_spool_dir() == Path(f"/var/tmp/nczfs-{os.getuid()}/nczfs/spool")
