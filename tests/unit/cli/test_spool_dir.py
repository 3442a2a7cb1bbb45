"""The directory of the spool, as a mount takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nczfs.engine.spool.space import check_spool_dir
from nczfs.vfs.tree import VfsOptions, mount_tree

NCZFS = str(Path(sys.executable).with_name("nczfs"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    (tmp_path / "mnt").mkdir()
    (tmp_path / "file").touch()
    return tmp_path / "file"


def refused(tmp_path: Path, *words: str, **settings: str) -> str:
    """The message of a mount whose options are not accepted."""
    mount = [NCZFS, "mount", str(tmp_path / "store"), str(tmp_path / "mnt")]
    ended = subprocess.run(
        [*mount, "--log-file", str(tmp_path / "log"), *words],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    return ended.stderr


def test_a_spool_directory_that_cannot_be_made_is_refused_before_mounting(
    tmp_path: Path, file: Path
) -> None:
    assert refused(tmp_path, "--spool-dir", f"{file}/a/b") == (
        f"nczfs: --spool-dir {file}/a/b: cannot be made: {file} is not a writable directory;"
        " name another one\n"
    )
    assert refused(tmp_path, "--spool-dir", str(file)) == (
        f"nczfs: --spool-dir {file}: is not a writable directory; name another one\n"
    )


def test_so_is_the_default_one(tmp_path: Path, file: Path) -> None:
    said = refused(tmp_path, XDG_STATE_HOME=str(file))
    assert f"--spool-dir {file}/nczfs/spool: cannot be made" in said


def test_a_mount_that_writes_nothing_needs_none(tmp_path: Path, file: Path) -> None:
    options = VfsOptions(read_only=True, spool_dir=file / "a")
    mount_tree(str(tmp_path / "store"), options=options).close()


def test_what_can_be_made_is_not_made_yet(tmp_path: Path) -> None:
    check_spool_dir(tmp_path / "a/b")
    assert not (tmp_path / "a").exists()
