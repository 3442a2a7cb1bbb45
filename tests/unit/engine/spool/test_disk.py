"""Private directories on the local disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nczfs.engine.spool import disk
from nczfs.engine.spool.disk import make_private


def test_directories_that_are_missing_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    mask = os.umask(0)
    try:
        make_private(tmp_path / "a/b")
    finally:
        os.umask(mask)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "a", tmp_path / "a/b")]
    assert modes == [0o755, 0o700, 0o700]


def test_two_processes_make_a_directory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def second(path: Path, *arguments: Any, **named: Any) -> None:
        os.mkdir(path)
        mkdir(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", second)
    make_private(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()


def test_a_directory_is_made_where_one_may_write_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(disk, "sync_directory", refuse)
    make_private(tmp_path / "a")
    assert (tmp_path / "a").is_dir()
