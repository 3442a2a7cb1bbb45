"""Mount points without mounting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nczfs.cli import main
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountEntry, MountError

TABLE = (
    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "40 22 0:39 / /mnt/with\\040blank\\011tab rw - fuse.nczfs s3://b/a\\040b rw,user_id=0\n"
    "41 22 0:40 / /mnt/twice rw master:5 propagate_from:2 - ext4 /dev/vdb rw\n"
    "42 22 0:41 / /mnt/twice rw - fuse.nczfs toy rw\n"
)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_: TABLE)


@pytest.mark.usefixtures("table")
def test_the_mount_table_is_read_with_its_escapes() -> None:
    assert mounting.mount_table()[1] == MountEntry(
        "/mnt/with blank\ttab", "0:39", "fuse.nczfs", "s3://b/a b"
    )


@pytest.mark.usefixtures("table")
def test_the_topmost_of_several_mounts_counts() -> None:
    entry = mounting.find_mount("/mnt/twice")
    assert entry is not None
    assert entry.kind == "fuse.nczfs"


@pytest.mark.usefixtures("table")
def test_a_path_without_mount_has_none() -> None:
    assert mounting.find_mount("/somewhere") is None


def test_a_missing_directory_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory to mount on; `mkdir -p"):
        mounting.prepare(str(tmp_path / "missing"), allow_other=False)


def test_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError, match="not a directory"):
        mounting.prepare(str(file), allow_other=False)


def test_a_directory_that_holds_something_is_refused_unless_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"is not empty.*--allow-non-empty"):
        mounting.prepare(str(tmp_path), allow_other=False)
    path = mounting.prepare(str(tmp_path), allow_other=False, allow_non_empty=True)
    assert path == str(tmp_path)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("s3://b/a b", True),
        ("s3://b/a b/", True),
        ("s3://b/a b/c", True),
        ("s3://b", True),
        ("s3://b/a", False),
        ("s3://b/a bc", False),
        ("/dev/vdb", False),
    ],
)
def test_mounts_of_the_same_objects_are_found(source: str, found: bool) -> None:
    assert bool(mounting.mounts_of(source)) == found


def test_a_machine_on_which_users_could_not_unmount_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mounting, "may_mount", lambda: False)
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/etc/mtab" and exists(path))
    with pytest.raises(MountError, match=r"as root: `ln -s \.\./proc/self/mounts /etc/mtab`"):
        mounting.check_fuse(allow_other=False)


def test_a_link_to_a_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    expected = os.path.realpath(tmp_path / "real")
    assert mounting.prepare(str(tmp_path / "link"), allow_other=False) == expected


def test_a_descriptor_is_taken_as_it_is() -> None:
    assert mounting.prepare("/dev/fd/7", allow_other=False) == "/dev/fd/7"


def test_unmounting_what_is_no_mount_says_so(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="cannot be unmounted"):
        mounting.unmount(str(tmp_path))


@pytest.mark.parametrize("word", ["allow_other", "allow_root"])
def test_mounting_for_others_needs_a_line_of_the_machine(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mounting, "may_mount", lambda: False)
    monkeypatch.setattr(mounting, "permits_allow_other", lambda: False)
    assert main.main(["mount", "-o", word, str(tmp_path), str(tmp_path)]) == 1
    assert "add the line `user_allow_other`" in capsys.readouterr().err
