"""What a mount that is gone has left: which entries go first, and what is known of the mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczfs.engine.process import this_process
from nczfs.engine.spool.found import Found, Home
from nczfs.engine.spool.objects import KeptObject
from nczfs.engine.spool.renames import UnfinishedRename, noted
from nczfs.engine.spool.space import LOCK, Spool, Survives
from nczfs.errors import SpoolError, Unavailable
from nczfs.vfs.staging import Base, stage
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key, Prefix
from tests.support.killed import left_by

URL = "memory://store"


def staged(spool: Spool, key: str) -> None:
    """Write to a file that has not been stored."""
    base = Base(Stat(Key(key), 100, Version("v1")), lambda start, stop: b"o" * (stop - start), 10)
    file = stage(spool, key, 100, base)
    file.note_unsaved(key, Version("v1"))
    file.write(0, b"new")


def left_during_a_rename(tmp_path: Path, *keys: str, has_failed: bool = False) -> Home:
    """What a mount leaves that was killed while `a` was being renamed, or after that had failed."""
    spool = Spool(tmp_path / "spool", URL, survives=Survives.KILL)
    for key in keys:
        staged(spool, key)
    try:
        with noted(spool, Prefix("a"), Prefix("b")):
            if has_failed:
                raise Unavailable("no connection")
            left = left_by(tmp_path / "spool", tmp_path / "left")
    except Unavailable:
        left = left_by(tmp_path / "spool", tmp_path / "left")
    spool.close()
    (directory,) = left.iterdir()
    return Home(directory, tidies=True)


def renames(home: Home) -> list[Found]:
    return [each for each in home.found if isinstance(each.entry, UnfinishedRename)]


def files(home: Home) -> dict[str, Found]:
    return {each.entry.key: each for each in home.found if isinstance(each.entry, KeptObject)}


def test_a_rename_goes_after_all_that_was_written_below_its_directory(tmp_path: Path) -> None:
    home = left_during_a_rename(tmp_path, "a/x", "a/y/z", "other")
    (rename,), found = renames(home), files(home)
    assert set(found) == {"a/x", "a/y/z", "other"}
    for key in ("a/x", "a/y/z"):
        with pytest.raises(SpoolError, match="where other entries of the mount belong; they go fi"):
            rename.remove()
        assert rename.path.exists()
        found[key].remove()
    rename.remove()
    assert home.found == [found["other"]]
    found["other"].remove()
    assert not home.directory.exists()


def test_a_rename_that_has_failed_goes_at_any_time(tmp_path: Path) -> None:
    """Its mount has survived it, so what was written belongs where it was written."""
    home = left_during_a_rename(tmp_path, "a/x", has_failed=True)
    (rename,) = renames(home)
    rename.remove()
    assert home.found == [files(home)["a/x"]]


def test_what_was_written_beside_a_rename_does_not_keep_it(tmp_path: Path) -> None:
    home = left_during_a_rename(tmp_path, "ab/x")
    (rename,) = renames(home)
    rename.remove()
    assert set(files(home)) == {"ab/x"}


def test_the_process_of_a_mount_that_is_gone_is_known(tmp_path: Path) -> None:
    """Another client takes over what it had claimed when this process has ended."""
    home = left_during_a_rename(tmp_path, "a/x")
    assert home.process == this_process()
    assert home.url == URL


@pytest.mark.parametrize("text", [b"\xff\xfe", b'{"url": "\xff"', b"[" * 10_000, b"3"])
def test_a_lock_that_says_nothing_readable_is_that_of_another_version(
    tmp_path: Path, text: bytes
) -> None:
    """SEMANTICS W20: its files are neither read nor deleted."""
    directory = tmp_path / "mount"
    directory.mkdir()
    (directory / LOCK).write_bytes(text)
    (directory / "1-key").write_bytes(b"data")
    home = Home(directory, tidies=True)
    assert [each.entry for each in home.found] == [None]
    assert "another version of nczfs has written it" in home.found[0].problem
    assert (directory / "1-key").read_bytes() == b"data"
