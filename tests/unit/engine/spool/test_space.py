"""The directory of a mount in the spool."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.engine.spool import space
from nczfs.engine.spool.found import Home
from nczfs.engine.spool.log import FORMAT
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.space import (
    END_BYTES,
    LOCK,
    Spool,
    Survives,
    check_spool_dir,
    default_spool_dir,
    quoted,
    spool_url,
)
from nczfs.errors import NoSpace, Unavailable, UsageError
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


def test_a_directory_that_a_mount_is_just_making_is_not_removed_with_what_it_writes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has looked at it, and there was no lock yet."""
    spool = Spool(tmp_path)
    spool.directory.mkdir()
    path: list[Path] = []
    goes_on = threading.Event()
    mount = threading.Thread(target=lambda: path.append(spool.new_path("a")))
    lock, unlink = fcntl.flock, Path.unlink

    def flock(fd: int, operation: int) -> None:
        if threading.current_thread() is mount:
            try:
                lock(fd, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                goes_on.set()
                lock(fd, operation)
        else:
            lock(fd, operation)

    def unlinking(path: Path, missing_ok: bool = False) -> None:
        if mount.ident is None:
            mount.start()
            while mount.is_alive() and not goes_on.wait(0.01):
                pass
        unlink(path, missing_ok)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(Path, "unlink", unlinking)
    assert recovery.entries(tmp_path) == []
    mount.join()
    path[0].write_bytes(b"unsaved")
    assert sorted(each.name for each in spool.directory.iterdir()) == [path[0].name, LOCK, "log.1"]
    assert recovery.entries(tmp_path) == []
    assert path[0].read_bytes() == b"unsaved"
    path[0].unlink()
    spool.close()


def test_of_a_directory_that_a_mount_has_made_since_nothing_is_removed_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mount").mkdir()
    tidy = Home._tidy
    said = b"".join(packed({"is": "log", "format": FORMAT}))

    def tidying(home: Home) -> None:
        (home.directory / LOCK).touch()
        (home.directory / "log.1").write_bytes(said)
        tidy(home)

    with monkeypatch.context() as patched:
        patched.setattr(Home, "_tidy", tidying)
        assert recovery.entries(tmp_path) == []
    assert (tmp_path / "mount/log.1").read_bytes() == said


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


class Room:
    """A disk that notes which room is held, and how much of it there is."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.left = 1 << 30

    def hold(self, _: int, offset: int, size: int) -> None:
        assert offset == 0
        if size > self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.held.append(size)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room()
    monkeypatch.setattr(os, "posix_fallocate", room.hold)
    return room


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    assert spool.new_path("first").name == "1-first"
    yield spool
    spool.close()


def test_room_is_held_for_the_end_of_each_file(
    spool: Spool, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS O17: a full disk takes what is said of a file that is kept."""
    monkeypatch.setattr(space, "RESERVE_STEP", 0)
    for _ in range(3):
        spool.promise_end()
    assert room.held == [END_BYTES, 2 * END_BYTES, 3 * END_BYTES]
    spool.end_promise()
    spool.promise_end()
    assert len(room.held) == 3
    room.left = 0
    with pytest.raises(NoSpace, match=str(spool.directory)):
        spool.promise_end()
    room.left = 1 << 30
    spool.promise_end()
    assert room.held[3:] == [4 * END_BYTES]


def test_a_little_more_room_is_held_where_there_is_some(spool: Spool, room: Room) -> None:
    spool.promise_end()
    assert room.held == [END_BYTES + space.RESERVE_STEP]
    room.left = 20 * END_BYTES
    for _ in range(19):
        spool.promise_end()
    assert room.held[1:] == [18 * END_BYTES, 19 * END_BYTES, 20 * END_BYTES]


def test_what_must_not_fail_takes_the_room_that_is_held(spool: Spool, room: Room) -> None:
    """And it is held again afterwards."""
    spool.promise_end()
    held = list(room.held)
    calls = iter((False, True))

    def call() -> str:
        if not next(calls):
            raise NoSpace("on purpose")
        spool.promise_end()
        assert room.held == held
        return "done"

    assert spool.pressed(call) == "done"
    assert room.held == [*held, 2 * END_BYTES + space.RESERVE_STEP]


def test_nothing_more_is_no_more_than_the_budget(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=10)
    spool.reserve(10)
    spool.bytes_max = 5
    spool.reserve(0)
    with pytest.raises(NoSpace):
        spool.reserve(1)
    assert (spool.url, spool.lost) == ("", [])


@pytest.mark.parametrize("survives", Survives)
def test_names_are_made_durable_where_a_power_failure_is_to_be_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: Survives
) -> None:
    (tmp_path / "spool").mkdir()
    spool = Spool(tmp_path / "spool", survives=survives)
    synced: list[Path] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
    )
    spool.log.append([packed({"is": "cake"})])
    assert (spool.directory in synced) is (survives is Survives.POWER)
    assert bool(spool.bytes_used) is (survives is not Survives.NOTHING)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Unavailable, match=str(spool.directory)):
        spool.sync()
    monkeypatch.undo()
    spool.close()


def test_where_no_spool_can_be_made_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError, match=f"--spool-dir {file}: is not a writable directory"):
        check_spool_dir(file)
    deep = file / "a/b"
    with pytest.raises(UsageError, match=f"{deep}: cannot be made: {file} is not a writable"):
        check_spool_dir(deep)
    check_spool_dir(tmp_path / "a/b")
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    with pytest.raises(UsageError, match=f"cannot be made: {tmp_path} is not a writable"):
        check_spool_dir(tmp_path / "a/b")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/\udcff b", "a%2F%FF%20b"),
        ("a.unsaved", "a%2Eunsaved"),
        ("a.kept", "a%2Ekept"),
        ("0" + "1" * 200, "1" * 200),
    ],
)
def test_a_key_is_a_file_name_that_is_no_entry_s(name: str, expected: str) -> None:
    assert quoted(name) == expected
