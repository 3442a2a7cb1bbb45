"""The directory of a mount in the spool."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from nczfs.engine.spool.space import LOCK, Spool, default_spool_dir, spool_url
from nczfs.tools import recovery
from nczfs.zmap.url import parse_url


def test_the_directory_is_made_with_the_first_file_and_goes_at_the_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert os.listdir(tmp_path) == []
    path = spool.new_path("a/b")
    assert path.name.endswith("a%2Fb")
    spool.close()
    assert os.listdir(tmp_path) == []


def test_a_directory_with_something_unsaved_stays(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    path = spool.new_path("a")
    path.write_bytes(b"unsaved")
    spool.close()
    assert path.read_bytes() == b"unsaved"


def test_what_is_made_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        spool = Spool(tmp_path / "state/nczfs/spool")
        spool.new_path("a")
    finally:
        os.umask(before)
    made = [spool.directory, *spool.directory.parents][:4]
    assert made[-1] == tmp_path / "state"
    assert [oct(path.stat().st_mode & 0o777) for path in made] == ["0o700"] * 4
    assert (spool.directory / LOCK).stat().st_mode & 0o777 == 0o600
    spool.close()


def test_files_are_staged_in_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_spool_dir() == Path("/state/nczfs/spool")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_spool_dir() == Path("/home/me/.local/state/nczfs/spool")
    monkeypatch.delenv("HOME")
    assert default_spool_dir() == Path(f"/var/tmp/nczfs-{os.getuid()}/nczfs/spool")


def test_what_a_killed_mount_left_empty_goes_and_a_living_mounts_stays(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.new_path("a")
    shutil.copytree(spool.directory, tmp_path / "killed")
    assert recovery.entries(tmp_path) == []
    assert list(tmp_path.iterdir()) == [spool.directory]
    spool.close()


def test_a_directory_that_is_taken_for_a_dead_mounts_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path)
    lock = fcntl.flock
    locked: list[int] = []

    def flock(fd: int, operation: int) -> None:
        if not locked:
            locked.append(fd)
            recovery.entries(tmp_path)
            assert not spool.directory.exists()
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    path = spool.new_path("a")
    monkeypatch.undo()
    path.write_bytes(b"unsaved")
    assert recovery.entries(tmp_path) == []
    assert path.read_bytes() == b"unsaved"
    spool.close()


@pytest.mark.parametrize(
    "text",
    [
        "/data/x",
        "/data/x#mode=zarr,zip",
        "s3://bucket/key",
        "https://host:9000/bucket/a%20key#mode=s3",
        "https://host:9000/bucket/key#mode=zarr,s3&aws.profile=a%26b&aws.region=eu-west-1",
        "s3://bucket/key#aws.profile=no",
        "https://bucket.s3.eu-west-1.amazonaws.com/key",
        "gs3://bucket/key",
        "memory://name/key#mode=noxarray",
    ],
)
def test_the_url_of_an_entry_opens_the_same_store(text: str) -> None:
    place = parse_url(text)
    again = parse_url(spool_url(place))
    for name in ("kind", "path", "bucket", "prefix", "endpoint_url", "region", "profile"):
        assert getattr(again, name) == getattr(place, name)
    assert (again.anonymous, again.modes) == (place.anonymous, place.modes)


def test_the_url_of_an_entry_has_no_secret() -> None:
    text = spool_url(parse_url("https://user:secret@host/path?token=secret#mode=zarr"))
    assert text.startswith("https://host/path#mode=")
    assert "secret" not in text
