"""A directory store is opened, asked and closed, and says what went wrong."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from nczfs.errors import (
    AccessDenied,
    Conflict,
    KeyTooLong,
    NoContent,
    NoSpace,
    OutOfDescriptors,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)
from nczfs.zmap.capacity import Capacity
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.fileio import read_at
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.wrappers import Prefixed
from tests.support.directories import names_in

K = Key("a/b/0.0")


def test_a_root_that_is_missing_or_a_file_has_no_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("missing", "file"):
        with pytest.raises(NoContent, match=name):
            DirectoryZMap(tmp_path / name)


def test_the_name_is_an_absolute_url(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert DirectoryZMap(".").name == f"file://{root}"


def test_a_root_that_was_renamed_goes_on_and_one_that_was_removed_cannot_be_asked(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(K, b"1")
    moved = root.rename(root.with_name("moved"))
    assert bytes(zmap.read(K).data) == b"1"
    zmap.write(Key("c/d"), b"2")
    zmap.delete(K)
    zmap.delete(Key("c/d"))
    moved.rmdir()
    for ask in (
        lambda: zmap.read(K),
        lambda: zmap.stat(K),
        lambda: list(zmap.search(ROOT)),
        lambda: list(zmap.list(Prefix("a"))),
        lambda: zmap.write(K, b""),
    ):
        with pytest.raises(Unavailable, match="mount or open it again"):
            ask()


def test_a_closed_store_does_not_answer(zmap: DirectoryZMap) -> None:
    zmap.write(K, b"1")
    zmap.close()
    with pytest.raises(Unavailable):
        zmap.read(K)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, AccessDenied),
        (errno.EPERM, AccessDenied),
        (errno.EROFS, ReadOnlyStore),
        (errno.ENOSPC, NoSpace),
        (errno.EDQUOT, NoSpace),
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
        (errno.ENOTCONN, Unavailable),
        (errno.EMFILE, OutOfDescriptors),
    ],
)
def test_errors_of_the_system_say_what_happened_to_which_key(
    zmap: DirectoryZMap,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[StoreError],
) -> None:
    zmap.write(K, b"1")

    def fail(*args: object, **kwargs: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    for ask in (lambda: zmap.read(K), lambda: zmap.write(K, b""), lambda: zmap.delete(K)):
        with pytest.raises(expected, match=r"a/b/0\.0: ") as caught:
            ask()
        assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(expected):
        list(zmap.search(Prefix("a")))


def test_a_component_longer_than_the_file_system_takes_is_a_key_too_long(
    zmap: DirectoryZMap,
) -> None:
    for ask in (zmap.read, zmap.stat, lambda key: zmap.write(key, b"")):
        with pytest.raises(KeyTooLong):
            ask(Key("n" * 300))
    assert names_in(zmap, "n" * 300) == []


def test_a_read_gives_all_bytes_however_few_the_system_gives_at_once(
    zmap: DirectoryZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap.write(K, bytes(range(100)))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 7), at))
    assert bytes(zmap.read(K, 3, 91).data) == bytes(range(3, 91))


def test_a_file_shortened_while_it_is_read_is_not_taken_for_the_object(
    zmap: DirectoryZMap, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap.write(K, bytes(100))
    pread = os.pread

    def shorten_first(fd: int, count: int, at: int) -> bytes:
        os.truncate(root / K, 10)
        return pread(fd, count, at)

    monkeypatch.setattr(os, "pread", shorten_first)
    with pytest.raises(Unavailable, match="shortened"):
        zmap.read(K)


def test_descriptors_are_given_back(zmap: DirectoryZMap, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"")
    zmap.write(K, b"1")
    (root / "link").symlink_to("a/b/0.0")
    (root / "out").symlink_to(tmp_path / "outside")
    before = len(os.listdir("/proc/self/fd"))
    for key in (K, Key("link"), Key("out/file"), Key("absent/x"), Key("a")):
        for ask in (zmap.read, zmap.stat, lambda key: zmap.write(key, b""), zmap.delete):
            with contextlib.suppress(StoreError):
                ask(key)
    next(zmap.search(ROOT), None)
    list(zmap.list(ROOT))
    assert len(os.listdir("/proc/self/fd")) == before


def status_of_file_system(monkeypatch: pytest.MonkeyPatch, **fields: int) -> None:
    """Have every file system say so of itself."""
    names = ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail", "flag")
    values = dict.fromkeys((*names, "namemax"), 0) | fields
    monkeypatch.setattr(os, "fstatvfs", lambda _: os.statvfs_result([*values.values()]))


def test_on_a_read_only_file_system_it_cannot_be_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS L1."""
    status_of_file_system(monkeypatch, flag=os.ST_RDONLY)
    with contextlib.closing(DirectoryZMap(root)) as zmap:
        assert not zmap.features.writable
        assert not zmap.prepare_writing().conditional_writes
        with pytest.raises(ReadOnlyStore):
            zmap.write(K, b"1")


def test_its_capacity_is_that_of_the_file_system(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status_of_file_system(
        monkeypatch, frsize=512, blocks=100, bfree=60, bavail=50, files=20, ffree=9
    )
    with contextlib.closing(Prefixed(DirectoryZMap(root), Prefix("a"))) as zmap:
        assert zmap.capacity() == Capacity(51200, 30720, 25600, 20, 9)


def test_ranges_are_read_from_the_file_that_had_the_version_when_it_was_opened(
    zmap: DirectoryZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = zmap.write(K, b"a" * (1 << 20))

    def read_and_replace(fd: int, start: int, stop: int) -> bytes:
        zmap.write(K, b"b")
        return read_at(fd, start, stop)

    monkeypatch.setattr("nczfs.zmap.directory.store.read_at", read_and_replace)
    assert zmap.read_ranges(K, [(0, 2), (1 << 19, (1 << 19) + 2)], version=version) == [b"aa"] * 2


def test_ranges_are_no_mixture_with_what_a_program_writes_into_the_file(
    zmap: DirectoryZMap, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = zmap.write(K, b"a" * (1 << 20))

    def write_and_read(fd: int, start: int, stop: int) -> bytes:
        if start:
            with open(root / K, "r+b") as file:
                file.write(b"b" * (1 << 20))
            os.utime(root / K, ns=(start, start))
        return read_at(fd, start, stop)

    monkeypatch.setattr("nczfs.zmap.directory.store.read_at", write_and_read)
    with pytest.raises(Conflict):
        zmap.read_ranges(K, [(0, 2), (1 << 19, (1 << 19) + 2)], version=version)


def test_a_file_that_gets_shorter_while_ranges_are_read_gives_none_of_them(
    zmap: DirectoryZMap, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = zmap.write(K, b"a" * 100)

    def read_and_cut(fd: int, start: int, stop: int) -> bytes:
        os.truncate(root / K, 50)
        return read_at(fd, start, stop)

    monkeypatch.setattr("nczfs.zmap.directory.store.read_at", read_and_cut)
    with pytest.raises(Unavailable, match="shortened"):
        zmap.read_ranges(K, [(0, 2), (60, 100)], version=version)
