"""The directory store where other people, crashes and kernels come in."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import (
    AccessDenied,
    Conflict,
    DeadlinePassed,
    KeyTooLong,
    NoContent,
    NoSpace,
    NoSuchObject,
    ObjectExists,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)
from nczfs.zmap.base import Version
from nczfs.zmap.directory import TEMPORARY, DirectoryZMap
from nczfs.zmap.keys import MAX_KEY_BYTES, ROOT, Key, Prefix
from tests.support.folding import fold_names

K = Key("a/b/0.0")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def zmap(root: Path) -> Iterator[DirectoryZMap]:
    zmap = DirectoryZMap(root)
    yield zmap
    zmap.close()


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def _names(zmap: DirectoryZMap, prefix: str = "") -> list[str]:
    return sorted(entry.name for entry in zmap.search(Prefix(prefix)))


def _keys(zmap: DirectoryZMap) -> list[str]:
    return sorted(stat.key for stat in zmap.list(ROOT))


def _failure_of(act: Callable[[], object]) -> StoreError | None:
    try:
        act()
    except StoreError as error:
        return error
    return None


# Opening


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
        with pytest.raises(Unavailable):
            ask()


def test_a_closed_store_does_not_answer(zmap: DirectoryZMap) -> None:
    zmap.write(K, b"1")
    zmap.close()
    with pytest.raises(Unavailable):
        zmap.read(K)


# Other people's files


def test_what_is_not_a_regular_file_is_hidden_and_left_alone(
    zmap: DirectoryZMap, root: Path
) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    assert _names(zmap) == []
    for name in ("fifo", "socket"):
        with pytest.raises(NoSuchObject):
            zmap.read(Key(name))
        with pytest.raises(NoSuchObject):
            zmap.delete(Key(name))
        with pytest.raises(AccessDenied, match="left alone"):
            zmap.write(Key(name), b"")
    assert _files(root) == ["fifo", "socket"]


def test_directories_without_keys_are_not_shown(zmap: DirectoryZMap, root: Path) -> None:
    (root / "empty/er").mkdir(parents=True)
    zmap.write(Key("full/er/x"), b"")
    assert _names(zmap) == ["full"]


def test_directories_go_with_their_last_key_unless_somebody_else_uses_them(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(Key("a/b/c/x"), b"")
    os.mkfifo(root / "a/foreign")
    zmap.delete(Key("a/b/c/x"))
    assert _files(root) == ["a", "a/foreign"]
    zmap.write(Key("b/x"), b"")
    zmap.delete(Key("b/x"))
    assert _files(root) == ["a", "a/foreign"]


def test_the_root_stays_when_it_is_empty(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key("x"), b"")
    zmap.delete(Key("x"))
    assert root.is_dir()


def test_names_that_are_not_utf8_are_keys(zmap: DirectoryZMap, root: Path) -> None:
    with open(os.fsencode(root) + b"/caf\xe9", "wb") as file:
        file.write(b"latin-1")
    assert _names(zmap) == ["caf\udce9"]
    assert bytes(zmap.read(Key("caf\udce9")).data) == b"latin-1"
    zmap.write(Key("d\udcff/x"), b"1")
    assert b"d\xff" in os.listdir(os.fsencode(root))


def test_names_too_deep_for_a_key_are_left_out(zmap: DirectoryZMap, root: Path) -> None:
    deep = root / "/".join(["n" * 200] * 5)
    deep.mkdir(parents=True)
    (deep / "fits").write_bytes(b"")
    (deep / ("x" * 200)).write_bytes(b"")
    assert [len(key) <= MAX_KEY_BYTES for key in _keys(zmap)] == [True]


def test_an_object_and_a_directory_cannot_have_one_name(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key("a"), b"object")
    with pytest.raises(ObjectExists, match="a/b"):
        zmap.write(Key("a/b"), b"below")
    with pytest.raises(ObjectExists, match="a/b/c"):
        zmap.write(Key("a/b/c"), b"below")
    zmap.write(Key("d/e"), b"below")
    with pytest.raises(ObjectExists, match="d: "):
        zmap.write(Key("d"), b"object")
    assert _files(root) == ["a", "d", "d/e"]


def test_an_empty_directory_is_in_nobodys_way(zmap: DirectoryZMap, root: Path) -> None:
    (root / "a").mkdir()
    zmap.write(Key("a"), b"object")
    assert (root / "a").read_bytes() == b"object"


# Versions


def test_a_replacement_is_younger_even_when_the_clock_says_otherwise(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(K, b"one")
    future_ns = zmap.stat(K).mtime_ns + 3600 * 10**9
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
    assert _files(root) == ["a", "a/x"]


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


# Crashes and failures


def test_temporary_files_are_hidden_and_those_of_dead_writers_removed(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(K, b"1")
    dead = root / f"a/b/{TEMPORARY}dead"
    alive = root / f"a/b/{TEMPORARY}alive"
    dead.write_bytes(b"torn")
    alive.write_bytes(b"half")
    other_process = os.open(alive, os.O_RDONLY)
    fcntl.flock(other_process, fcntl.LOCK_EX)
    assert list(DirectoryZMap(root, read_only=True).list(Prefix("a/b"))) == [zmap.stat(K)]
    assert dead.exists()
    assert _names(zmap, "a/b") == ["0.0"]
    assert not dead.exists()
    assert alive.exists()
    os.close(other_process)


def test_the_directory_of_a_dead_writers_only_file_goes_with_it(
    zmap: DirectoryZMap, root: Path
) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / f"a/b/{TEMPORARY}dead").write_bytes(b"torn")
    assert list(zmap.list(Prefix(""))) == []
    assert os.listdir(root) == []


_CALLS = ("open", "write", "fsync", "rename", "utime", "mkdir", "fstat", "stat", "readlink")


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
            left = [name for name in _files(root) if TEMPORARY in name]
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
        (errno.EMFILE, Unavailable),
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
    assert _names(zmap, "n" * 300) == []


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


def test_a_write_that_fails_leaves_no_directories_behind(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(K, b"1")
    with pytest.raises(Conflict):
        zmap.write(Key("a/new/deep/x"), b"data", replaces=Version("never-seen"))
    assert _files(root) == ["a", "a/b", "a/b/0.0"]


def test_descriptors_are_given_back(zmap: DirectoryZMap, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"")
    zmap.write(K, b"1")
    (root / "link").symlink_to("a/b/0.0")
    (root / "out").symlink_to(tmp_path / "outside")
    before = len(os.listdir("/proc/self/fd"))
    for key in (K, Key("link"), Key("out/file"), Key("absent/x"), Key("a")):
        for ask in (zmap.read, zmap.stat, lambda key: zmap.write(key, b""), zmap.delete):
            _failure_of(partial(ask, key))
    next(zmap.search(ROOT), None)
    list(zmap.list(ROOT))
    assert len(os.listdir("/proc/self/fd")) == before


# Names that differ in case


def test_an_empty_directory_tells_by_a_trial_whether_case_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DirectoryZMap(root).prepare_writing().case_sensitive
    fold_names(monkeypatch)
    zmap = DirectoryZMap(root)
    assert not zmap.prepare_writing().case_sensitive
    assert _files(root) == []
    read_only = DirectoryZMap(root, read_only=True)
    assert read_only.prepare_writing() == read_only.features


def test_names_that_are_there_tell_whether_case_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "0").mkdir()
    (root / "Name").write_bytes(b"")
    assert DirectoryZMap(root).features.case_sensitive
    fold_names(monkeypatch)
    assert not DirectoryZMap(root).features.case_sensitive


@pytest.mark.parametrize("key", ["Group/x", "group/X/0", "GROUP"])
def test_where_case_does_not_count_nothing_is_written_over_another_key(
    root: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    fold_names(monkeypatch)
    zmap = DirectoryZMap(root)
    zmap.write(Key("group/x"), b"old")
    zmap = DirectoryZMap(root)
    with pytest.raises(ObjectExists, match="does not tell it from"):
        zmap.write(Key(key), b"new")
    assert (root / "group/x").read_bytes() == b"old"
    zmap.write(Key("group/x"), b"newer")
    zmap.write(Key("group/y"), b"beside")
    assert _keys(zmap) == ["group/x", "group/y"]
