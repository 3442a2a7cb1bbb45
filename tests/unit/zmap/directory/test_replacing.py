"""Objects are replaced whole, whatever others do and whichever system call fails."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import (
    AccessDenied,
    Conflict,
    DeadlinePassed,
    NoSpace,
    ObjectExists,
    StoreError,
    Unavailable,
)
from nczfs.zmap.base import PIECE_STEP_BYTES, Piece
from nczfs.zmap.directory import TEMPORARY, DirectoryZMap
from nczfs.zmap.directory.temporary import Temporary
from nczfs.zmap.keys import Key
from tests.support.directories import files_in

K = Key("a/b/0.0")


def _failure_of(act: Callable[[], object]) -> StoreError | None:
    try:
        act()
    except StoreError as error:
        return error
    return None


def test_an_object_and_a_directory_cannot_have_one_name(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key("a"), b"object")
    with pytest.raises(ObjectExists, match="a/b"):
        zmap.write(Key("a/b"), b"below")
    with pytest.raises(ObjectExists, match="a/b/c"):
        zmap.write(Key("a/b/c"), b"below")
    zmap.write(Key("d/e"), b"below")
    with pytest.raises(ObjectExists, match="d: "):
        zmap.write(Key("d"), b"object")
    assert files_in(root) == ["a", "d", "d/e"]


def test_an_empty_directory_is_in_nobodys_way(zmap: DirectoryZMap, root: Path) -> None:
    (root / "a").mkdir()
    zmap.write(Key("a"), b"object")
    assert (root / "a").read_bytes() == b"object"


def test_a_replacement_is_younger_even_when_the_clock_says_otherwise(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(K, b"one")
    future_ns = time.time_ns() + 3600 * 10**9
    os.utime(root / K, ns=(future_ns, future_ns))
    zmap.write(K, b"two")
    assert zmap.stat(K).mtime_ns == future_ns + 1


def test_a_change_in_place_by_another_program_is_another_version(
    zmap: DirectoryZMap, root: Path
) -> None:
    seen = zmap.write(K, b"one")
    with open(root / K, "r+b") as file:
        file.write(b"two")
    os.utime(root / K, ns=(1, 1))
    with pytest.raises(Conflict):
        zmap.write(K, b"three", replaces=seen)
    with pytest.raises(Conflict):
        zmap.read(K, version=seen)


@pytest.mark.parametrize("program", [["cp", "-p"], ["rsync", "--inplace", "--times", "--checksum"]])
def test_a_change_in_place_with_the_old_size_and_time_is_another_version(
    zmap: DirectoryZMap, root: Path, tmp_path: Path, program: list[str]
) -> None:
    version = zmap.write(K, b"1234")
    status = (root / K).stat()
    other = tmp_path / "other"
    other.write_bytes(b"abcd")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    subprocess.run([*program, other, root / K], check=True)
    now = (root / K).stat()
    assert (now.st_ino, now.st_size, now.st_mtime_ns) == (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )
    assert zmap.stat(K).version != version
    with pytest.raises(Conflict):
        zmap.read(K, version=version)
    with pytest.raises(Conflict):
        zmap.write(K, b"5678", replaces=version)


def test_the_version_of_a_write_is_that_of_the_object(zmap: DirectoryZMap) -> None:
    for data in (b"1", b"2", b"3"):
        version = zmap.write(K, data)
        assert zmap.stat(K).version == version == zmap.read(K).version


def test_a_replaced_file_keeps_its_mode_and_a_new_one_takes_the_umask(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(K, b"one")
    umask = os.umask(0)
    os.umask(umask)
    assert (root / K).stat().st_mode & 0o777 == 0o666 & ~umask
    (root / K).chmod(0o640)
    zmap.write(K, b"two")
    assert (root / K).stat().st_mode & 0o777 == 0o640


def test_a_lock_that_others_keep_is_a_passed_deadline(root: Path) -> None:
    zmap = DirectoryZMap(root, lock_timeout_s=0)
    zmap.write(Key("a/x"), b"one")
    fd = os.open(root / "a", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(DeadlinePassed, match="a/x"):
        zmap.write(Key("a/x"), b"two")
    with pytest.raises(DeadlinePassed):
        zmap.delete(Key("a/x"))
    os.close(fd)
    assert bytes(zmap.read(Key("a/x")).data) == b"one"
    assert files_in(root) == ["a", "a/x"]


def test_a_file_system_without_locks_has_no_conditional_writes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    zmap = DirectoryZMap(root)
    assert not zmap.features.conditional_writes
    seen = zmap.write(K, b"one")
    zmap.write(K, b"two", replaces=seen)
    with pytest.raises(Conflict):
        zmap.write(K, b"three", replaces=seen)
    zmap.delete(K)


_CALLS = ["open", "write", "fsync", "link", "rename", "utime", "mkdir", "fstat", "stat", "readlink"]


class _FailingOs:
    """Makes the n-th of the system calls fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int, number: int) -> None:
        self.left = fail_at
        self.number = number
        for name in _CALLS:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def fail_or_call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                raise OSError(self.number, os.strerror(self.number))
            return call(*args, **kwargs)

        return fail_or_call


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.EIO, Unavailable), (errno.ENOSPC, NoSpace), (errno.EACCES, AccessDenied)],
)
def test_whichever_call_fails_the_old_or_the_new_object_is_there_whole(
    root: Path, number: int, expected: type[StoreError]
) -> None:
    zmap = DirectoryZMap(root, durable=True)
    for key, old in ((K, b"old"), (Key("new/deep/x"), None)):
        for fail_at in range(100):
            if old is not None:
                zmap.write(key, old)
            with pytest.MonkeyPatch.context() as patch:
                failing = _FailingOs(patch, fail_at, number)
                failure = _failure_of(partial(zmap.write, key, b"new content"))
            assert failure is None or (type(failure) is expected and key in str(failure))
            left = [name for name in files_in(root) if TEMPORARY in name]
            assert left == []
            found = (root / key).read_bytes() if (root / key).exists() else None
            assert found in {old, b"new content"}
            if failing.left >= 0:
                break
            if found is not None and old is None:
                zmap.delete(key)
        assert failing.left >= 0
        assert found == b"new content"


def test_a_durable_write_syncs_the_file_before_the_rename_and_the_directory_after(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap = DirectoryZMap(root, durable=True)
    zmap.write(K, b"one")
    calls = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(fd: int) -> None:
        calls.append("directory" if os.path.isdir(f"/proc/self/fd/{fd}") else "file")
        fsync(fd)

    def noted_rename(*args: Any, **kwargs: Any) -> None:
        calls.append("rename")
        rename(*args, **kwargs)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    zmap.write(K, b"two")
    assert calls == ["file", "rename", "directory"]
    calls.clear()
    DirectoryZMap(root).write(K, b"three")
    assert calls == ["rename"]


def test_a_durable_write_syncs_every_directory_in_which_it_makes_another(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a new directory would be lost in a power failure, with everything below it."""
    calls = []
    fsync, mkdir = os.fsync, os.mkdir

    def noted_fsync(fd: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if place.is_dir():
            calls.append(f"sync {place.relative_to(root.parent)}")
        fsync(fd)

    def noted_mkdir(name: str, *args: Any, **kwargs: Any) -> None:
        mkdir(name, *args, **kwargs)
        calls.append(f"make {name}")

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "mkdir", noted_mkdir)
    DirectoryZMap(root, durable=True).write(Key("a/b/c"), b"one")
    top = root.name
    assert calls == ["make a", f"sync {top}", "make b", f"sync {top}/a", f"sync {top}/a/b"]
    calls.clear()
    DirectoryZMap(root).write(Key("d/e"), b"one")
    assert calls == ["make d"]


def test_a_file_begun_in_a_directory_that_was_removed_meanwhile_tells_that(tmp_path: Path) -> None:
    """Whatever the file system answers, the write makes the directory again."""
    directory = tmp_path / "d"
    directory.mkdir()
    dir_fd = os.open(directory, os.O_RDONLY)
    directory.rmdir()
    try:
        with pytest.raises(FileNotFoundError):
            Temporary(dir_fd, locked=True).make("leaf")
    finally:
        os.close(dir_fd)


def test_a_large_file_of_this_machine_is_copied_in_small_steps(zmap: DirectoryZMap) -> None:
    """New memory for each step costs more than the copying."""
    content = os.urandom(3 * PIECE_STEP_BYTES + 5)
    read: list[tuple[int, int]] = []

    def reader(start: int, stop: int) -> bytes:
        read.append((start, stop))
        return content[start:stop]

    zmap.write_parts(K, [Piece(reader, 0, len(content))])
    assert bytes(zmap.read(K).data) == content
    assert [stop - start for start, stop in read] == [*[PIECE_STEP_BYTES] * 3, 5]
