"""What writers leave, and directories without keys, go away."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nczfs.errors import Conflict, ObjectExists
from nczfs.zmap.base import ABSENT, Piece, Version
from nczfs.zmap.directory import TEMPORARY, DirectoryZMap
from nczfs.zmap.keys import Key, Prefix
from tests.support.directories import files_in, names_in

K = Key("a/b/0.0")


def test_directories_go_with_their_last_key_unless_somebody_else_uses_them(
    zmap: DirectoryZMap, root: Path
) -> None:
    zmap.write(Key("a/b/c/x"), b"")
    os.mkfifo(root / "a/foreign")
    zmap.delete(Key("a/b/c/x"))
    assert files_in(root) == ["a", "a/foreign"]
    zmap.write(Key("b/x"), b"")
    zmap.delete(Key("b/x"))
    assert files_in(root) == ["a", "a/foreign"]


def test_the_root_stays_when_it_is_empty(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(Key("x"), b"")
    zmap.delete(Key("x"))
    assert root.is_dir()


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
    assert names_in(zmap, "a/b") == ["0.0"]
    assert not dead.exists()
    assert alive.exists()
    os.close(other_process)


@pytest.mark.parametrize("nameless", [True, False])
def test_a_file_that_is_being_filled_has_no_name_where_that_can_be(
    zmap: DirectoryZMap, root: Path, monkeypatch: pytest.MonkeyPatch, *, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(os, "open", _without_tmpfile(os.open))
    zmap.write(K, b"1")
    seen = []

    def read(start: int, stop: int) -> bytes:
        seen.append(len(os.listdir(root / "a/b")))
        return b"long"[start:stop]

    for key in (K, Key("a/b/new")):
        zmap.write_parts(key, [Piece(read, 0, 4)])
        assert bytes(zmap.read(key).data) == b"long"
    assert seen == ([1, 1] if nameless else [2, 2])
    assert sorted(os.listdir(root / "a/b")) == ["0.0", "new"]
    with pytest.raises(ObjectExists):
        zmap.write(K, b"2", replaces=ABSENT)
    assert sorted(os.listdir(root / "a/b")) == ["0.0", "new"]


def _without_tmpfile(call: Callable[..., int]) -> Callable[..., int]:
    """os.open(2) of a file system that knows no files without names."""

    def refuse_or_open(path: str, flags: int, *args: int, **arguments: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return call(path, flags, *args, **arguments)

    return refuse_or_open


def test_the_directory_of_a_dead_writers_only_file_goes_with_it(
    zmap: DirectoryZMap, root: Path
) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / f"a/b/{TEMPORARY}dead").write_bytes(b"torn")
    assert list(zmap.list(Prefix(""))) == []
    assert os.listdir(root) == []


def test_a_write_that_fails_leaves_no_directories_behind(zmap: DirectoryZMap, root: Path) -> None:
    zmap.write(K, b"1")
    with pytest.raises(Conflict):
        zmap.write(Key("a/new/deep/x"), b"data", replaces=Version("never-seen"))
    assert files_in(root) == ["a", "a/b", "a/b/0.0"]
