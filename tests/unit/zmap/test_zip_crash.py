"""Archives whose writer is killed, whose machine loses power, or whose disk fails.

Whatever happens: nczfs opens the archive with what it held before the last flush or with what it
held after it, and nothing else; once a flush has returned, with what it held after it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, CorruptStore, NoSpace, StoreError, Unavailable
from nczfs.testing.archives import zipped
from nczfs.zmap.keys import Key
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.creating import create_archive
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
from nczfs.zmap.zip.tail import HEADER_BYTES, SUFFIX
from tests.conftest import ExpectedWarnings
from tests.support.contents import objects_of

BOTH = pytest.mark.parametrize("commit", list(Commit))
OLD = {"a": b"old a", "b": b"old b", "gone": b"old"}
NEW = {"a": b"new a, and longer", "b": b"old b", "c/d": b"new"}
ARCHIVE = "data.zip"

WRITER = """
import sys
from nczfs.zmap.keys import Key
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
path, commit, turn = sys.argv[1], Commit(sys.argv[2]), int(sys.argv[3])
zmap = LocalZipZMap(path, LocalZipOptions(commit))
while True:
    turn += 1
    for number in range(20):
        zmap.write(Key(f"k/{number}"), b"%d " % turn * 2000)
    zmap.write(Key(f"extra/{turn % 7}"), b"")
    zmap.delete(Key(f"extra/{turn % 7}"))
    zmap.flush()
    print(turn, flush=True)
"""


def made(path: Path) -> LocalZipZMap:
    """An archive of OLD in a file."""
    create_archive(str(path), "top")
    zmap = LocalZipZMap(path)
    for key, data in OLD.items():
        zmap.write(Key(key), data)
    zmap.flush()
    return zmap


def change(zmap: LocalZipZMap) -> None:
    """Make it one of NEW, but for the flush."""
    zmap.write(Key("a"), b"not for long")
    zmap.write(Key("a"), NEW["a"])
    zmap.delete(Key("gone"))
    zmap.write(Key("c/d"), NEW["c/d"])


def content(path: Path, *, read_only: bool) -> dict[str, bytes]:
    """What nczfs finds in an archive."""
    zmap = LocalZipZMap(path, read_only=read_only)
    try:
        return objects_of(zmap)
    finally:
        zmap.close()


def content_of_zipfile(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        assert archive.testzip() is None
        return {name.removeprefix("data/"): archive.read(name) for name in names}


# What a flush does to the disk, write by write


@dataclass(frozen=True)
class Change:
    """What one system call does to a file: bytes at an offset, a size, another name, or none."""

    name: str
    offset: int = 0
    data: bytes = b""
    size: int | None = None
    renamed: str | None = None
    is_removed: bool = False
    is_sync: bool = False


@dataclass
class Recorder:
    """Notes the changes of a directory that are made through `disk`, and lets them happen."""

    directory: Path
    monkeypatch: pytest.MonkeyPatch
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        real_write, real_truncate, real_sync = disk.write_at, disk.truncate, disk.sync
        real_rename, real_unlink = disk.rename, disk.unlink

        def write_at(fd: int, data: Buffer, offset: int) -> None:
            self.changes.append(Change(self._name(fd), offset, bytes(data)))
            real_write(fd, data, offset)

        def copy(source: int, start: int, stop: int, target: int, offset: int) -> None:
            write_at(target, os.pread(source, stop - start, start), offset)

        def truncate(fd: int, size: int) -> None:
            self.changes.append(Change(self._name(fd), size=size))
            real_truncate(fd, size)

        def sync(fd: int) -> None:
            self.changes.append(Change(self._name(fd), is_sync=True))
            real_sync(fd)

        def rename(path: str, target: str) -> None:
            self.changes.append(Change(Path(path).name, renamed=Path(target).name))
            real_rename(path, target)

        def unlink(path: str) -> None:
            self.changes.append(Change(Path(path).name, is_removed=True))
            real_unlink(path)

        patched = (write_at, copy, truncate, sync, rename, unlink)
        for function in patched:
            self.monkeypatch.setattr(disk, function.__name__, function)
        self.monkeypatch.setattr(disk, "clone", lambda source, target: False)

    @staticmethod
    def _name(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name


def apply(files: dict[str, bytearray], change: Change, byte_count: int | None = None) -> None:
    """Do to the files what a change did, or the first bytes of it."""
    if change.is_sync:
        return
    if change.is_removed:
        del files[change.name]
    elif change.renamed is not None:
        files[change.renamed] = files.pop(change.name)
    elif change.size is not None:
        file = files[change.name]
        file[change.size :] = bytes(max(0, change.size - len(file)))
    else:
        file = files.setdefault(change.name, bytearray())
        data = change.data[:byte_count]
        file.extend(bytes(max(0, change.offset - len(file))))
        file[change.offset : change.offset + len(data)] = data


def recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: Commit
) -> tuple[dict[str, bytearray], list[Change]]:
    """An archive of OLD with its side file, and what becoming one of NEW does to them."""
    home = tmp_path / "home"
    home.mkdir()
    made(home / ARCHIVE).close()
    before = {path.name: bytearray(path.read_bytes()) for path in home.iterdir()}
    recorder = Recorder(home, monkeypatch)
    zmap = LocalZipZMap(home / ARCHIVE, LocalZipOptions(commit))
    change(zmap)
    zmap.close()
    monkeypatch.undo()
    assert content_of_zipfile(home / ARCHIVE) == NEW
    return before, recorder.changes


def crashes(before: dict[str, bytearray], changes: list[Change]) -> Iterator[dict[str, bytearray]]:
    """The files after each byte that was written."""
    files = {name: bytearray(data) for name, data in before.items()}
    for change in changes:
        for count in range(len(change.data)):
            torn = {name: bytearray(data) for name, data in files.items()}
            apply(torn, change, count)
            yield torn
        apply(files, change)
        yield {name: bytearray(data) for name, data in files.items()}


def laid_out(directory: Path, files: dict[str, bytearray]) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory / ARCHIVE


@BOTH
def test_a_kill_at_any_byte_leaves_the_old_or_the_new_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: Commit
) -> None:
    before, changes = recorded(tmp_path, monkeypatch, commit)
    seen: list[bool] = []
    for files in crashes(before, changes):
        path = laid_out(tmp_path / "crash", files)
        if commit is Commit.COPY:
            assert content_of_zipfile(path) in (OLD, NEW)
        unwritten = content(path, read_only=True)
        assert unwritten in (OLD, NEW)
        assert {name: bytearray((path.parent / name).read_bytes()) for name in files} == files
        zmap = LocalZipZMap(path)
        found = objects_of(zmap)
        assert found in ([NEW] if unwritten == NEW else [OLD, NEW])
        assert content_of_zipfile(path) == found
        if len(seen) % 16 == 0:
            zmap.write(Key("later"), b"later")
            zmap.flush()
            assert content_of_zipfile(path) == found | {"later": b"later"}
        zmap.close()
        seen.append(found == NEW)
    assert seen == sorted(seen)  # once it is new it stays new
    assert seen.count(False) > 100
    assert seen.count(True) > 1


@BOTH
def test_a_power_failure_leaves_the_old_or_the_new_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: Commit
) -> None:
    """What was not waited for may be on the disk of one file, and not of another."""
    before, changes = recorded(tmp_path, monkeypatch, commit)
    for stop in range(len(changes) + 1):
        done = changes[:stop]
        for lost in {change.name for change in done}:
            files = {name: bytearray(data) for name, data in before.items()}
            synced = max(
                (at for at, change in enumerate(done) if change.is_sync and change.name == lost),
                default=-1,
            )
            for at, change in enumerate(done):
                # Names are safe by the sync of the directory that follows.
                is_lost = at > synced and change.name == lost and change.data
                if not is_lost and (change.name in files or change.data):
                    apply(files, change)
            path = laid_out(tmp_path / "crash", files)
            assert content(path, read_only=True) in (OLD, NEW)
            assert content(path, read_only=False) in (OLD, NEW)


def test_any_other_end_of_the_side_file_leaves_the_old_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, changes = recorded(tmp_path, monkeypatch, Commit.APPEND)
    *_, sealed = (
        files for files in crashes(before, changes) if bytes(files[ARCHIVE]) == before[ARCHIVE]
    )
    side = sealed[ARCHIVE + SUFFIX]
    for size in range(len(side)):
        torn = {**sealed, ARCHIVE + SUFFIX: side[:size]}
        path = laid_out(tmp_path / "crash", torn)
        assert content(path, read_only=True) == OLD
        assert content(path, read_only=False) == OLD
    for position in (*range(36), *range(HEADER_BYTES, len(side), 7)):
        flipped = bytearray(side)
        flipped[position] ^= 0x40
        path = laid_out(tmp_path / "crash", {**sealed, ARCHIVE + SUFFIX: flipped})
        assert content(path, read_only=False) == OLD
    path = laid_out(tmp_path / "crash", sealed)
    assert content(path, read_only=False) == NEW


# Side files that are not of this archive


def _sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, bytearray]]:
    """An archive of OLD with a side file that would make it one of NEW."""
    before, changes = recorded(tmp_path, monkeypatch, Commit.APPEND)
    *_, sealed = (
        files for files in crashes(before, changes) if bytes(files[ARCHIVE]) == before[ARCHIVE]
    )
    return laid_out(tmp_path / "crash", sealed), sealed


def test_an_archive_that_another_program_changed_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("was changed by another program while .*nczfs-tail waited")
    path, _ = _sealed(tmp_path, monkeypatch)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data/foreign", b"foreign")
    changed = path.read_bytes()
    assert content(path, read_only=True) == OLD | {"foreign": b"foreign"}
    zmap = LocalZipZMap(path)
    assert objects_of(zmap) == OLD | {"foreign": b"foreign"}
    with pytest.raises(Conflict, match="remove that file"):
        zmap.write(Key("a"), b"")
    zmap.close()
    assert path.read_bytes() == changed
    path.with_name(path.name + SUFFIX).unlink()
    assert content(path, read_only=False) == OLD | {"foreign": b"foreign"}


def test_a_side_file_that_is_a_link_is_not_followed_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = _sealed(tmp_path, monkeypatch)
    side = path.with_name(path.name + SUFFIX)
    target = tmp_path / "elsewhere"
    side.rename(target)
    side.symlink_to(target)
    assert content(path, read_only=False) == OLD
    zmap = LocalZipZMap(path)
    with pytest.raises(StoreError):
        zmap.write(Key("a"), b"")
    zmap.close()
    assert side.is_symlink()
    assert content(path, read_only=False) == OLD


def test_a_torn_archive_without_its_side_file_is_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ARCHIVE
    data = zipped(("data/", b""), ("data/a", bytes(300_000)))
    path.write_bytes(data[:-30])
    with pytest.raises(CorruptStore, match="truncated"):
        LocalZipZMap(path)


# Disks that fail


class FailingDisk:
    """Fails at one of the calls to come; half of what was to be written then is."""

    NAMES = ("write_at", "copy", "truncate", "sync", "rename", "sync_directory", "unlink")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.calls_left = 0
        self._code = code
        for name in self.NAMES:
            monkeypatch.setattr(disk, name, partial(self._call, name, getattr(disk, name)))
        monkeypatch.setattr(disk, "clone", lambda source, target: False)

    def _call(self, name: str, real: Callable[..., object], *arguments: Any) -> object:
        self.calls_left -= 1
        if self.calls_left == 0:
            if name == "write_at":
                fd, data, offset = arguments
                os.pwrite(fd, bytes(data)[: len(data) // 2], offset)
            raise OSError(self._code, os.strerror(self._code))
        return real(*arguments)


@BOTH
@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, NoSpace), (errno.EIO, Unavailable)])
def test_a_failing_disk_loses_nothing_that_was_flushed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commit: Commit,
    code: int,
    error: type[StoreError],
) -> None:
    failing = FailingDisk(monkeypatch, code)
    outcomes = set()
    position = 0
    while "done" not in outcomes:
        position += 1
        path = tmp_path / str(position) / ARCHIVE
        path.parent.mkdir()
        made(path).close()
        failing.calls_left = position
        zmap = LocalZipZMap(path, LocalZipOptions(commit))
        expected = dict(OLD)
        outcome = "done"
        try:
            for key, data in {**NEW, "d": b"more"}.items():
                zmap.write(Key(key), data)
                expected[key] = data
            zmap.flush()
        except error:
            outcome = "failed"
        assert objects_of(zmap) == expected
        try:
            zmap.flush()
            zmap.close()
        except Unavailable:
            outcome = "broken"
            with contextlib.suppress(Unavailable):
                zmap.close()
        outcomes.add(outcome)
        failing.calls_left = 0
        found = content(path, read_only=False)
        assert found == content_of_zipfile(path)
        assert found in ([OLD, expected] if outcome == "broken" else [expected])
    assert "failed" in outcomes


# Killed


def killed_at_random(tmp_path: Path, commit: Commit, times: int, seed: int) -> None:
    """Kill a writer again and again; each goes on where the last one was."""
    path = tmp_path / ARCHIVE
    create_archive(str(path), "top")
    moments = random.Random(seed)
    turn = 0
    for _ in range(times):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), commit.value, str(turn)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            try:
                process.wait(moments.uniform(0, 0.05))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            acknowledged = int((first + process.stdout.read()).split()[-1])
            assert process.wait() == -signal.SIGKILL
        for read_only in (True, False):
            found = content(path, read_only=read_only)
            assert set(found) == {f"k/{number}" for number in range(20)}
            (data,) = set(found.values())
            turn = int(data.split()[0])
            assert turn in (acknowledged, acknowledged + 1)
            assert data == b"%d " % turn * 2000
        assert content_of_zipfile(path) == found


@BOTH
def test_who_opens_while_somebody_writes_sees_one_flush_or_the_next(
    tmp_path: Path, commit: Commit
) -> None:
    path = tmp_path / ARCHIVE
    create_archive(str(path), "top")
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), commit.value, "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            acknowledged = 0
            for number in range(100):
                acknowledged = max(acknowledged, int(process.stdout.readline()))
                zmap = LocalZipZMap(path, read_only=number % 2 == 0)
                try:
                    data = {bytes(zmap.read(Key(f"k/{member}")).data) for member in range(20)}
                except Conflict:
                    assert commit is Commit.COPY  # replaced while it was read
                    continue
                finally:
                    zmap.close()
                assert len(data) == 1
                assert int(data.pop().split()[0]) >= acknowledged
        finally:
            process.kill()


@BOTH
def test_a_writer_that_is_killed_leaves_what_it_had_flushed(tmp_path: Path, commit: Commit) -> None:
    killed_at_random(tmp_path, commit, 5, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
@BOTH
def test_a_writer_that_is_killed_two_hundred_times_leaves_what_it_had_flushed(
    tmp_path: Path, commit: Commit
) -> None:
    killed_at_random(tmp_path, commit, 100, seed=2)
