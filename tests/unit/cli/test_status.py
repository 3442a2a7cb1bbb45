"""What ``nczfs status`` says of what a mount reports."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nczfs.cli import mountstatus, umount
from nczfs.cli.main import main
from nczfs.cli.status import Waiting, status_lines, waiting_text
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError
from nczfs.vfs.ending import Ending, EndNote
from nczfs.vfs.unsaved import unsaved_text

STATUS: dict[str, Any] = {
    "pid": 12,
    "url": "s3://b/d",
    "store": "s3://b/d",
    "started": 0.0,
    "read_only": False,
    "dirty_bytes": 0,
    "unsaved_chunks": 0,
    "unsaved_files": 0,
    "unsaved_metadata": 0,
    "silent_s": 0.0,
    "last_error": None,
    "next_attempt_s": None,
    "spool": "/var/spool/x",
    "spooled": 0,
    "spool_used_bytes": 0,
    "imports": [],
    "features": {"writable": True, "markers": False},
    "leases": [],
    "memory_limit_bytes": 1 << 30,
    "memory_used_bytes": 5 << 20,
    "disk_used_bytes": 0,
    "open_files": 2,
    "inodes": 9,
    "hidden_keys": 0.0,
}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, ""),
        ({"unsaved_chunks": 1, "dirty_bytes": 2048}, "1 chunk (2KiB)"),
        ({"unsaved_chunks": 2, "unsaved_files": 1}, "2 chunks and 1 file"),
        ({"unsaved_files": 3, "dirty_bytes": 1}, "3 files (1B)"),
        ({"unsaved_chunks": 1, "unsaved_metadata": 1}, "1 chunk and the metadata of 1 dataset"),
    ],
)
def test_what_is_not_stored_is_counted_in_words(changed: dict[str, Any], text: str) -> None:
    assert unsaved_text(STATUS | changed) == text


def test_imports_are_listed_with_what_is_done_of_them() -> None:
    running = {"imports": [{"file": "d.zarr/d.nc", "percent": 41.9}]}
    lines = list(status_lines("/mnt", STATUS | running, verbose=False))
    assert "import: d.zarr/d.nc: 42 %" in lines


@pytest.mark.parametrize(
    ("silent_s", "shown"), [(2.9, []), (12.3, ["store: has not answered for 12 s"])]
)
def test_a_store_that_does_not_answer_comes_first(silent_s: float, shown: list[str]) -> None:
    lines = list(status_lines("/mnt", STATUS | {"silent_s": silent_s}, verbose=False))
    assert lines[1:-5] == shown


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "waiting for requests to the store that are under way"),
        (
            {"unsaved_chunks": 1, "dirty_bytes": 2048, "silent_s": 5.0},
            "waiting for 1 chunk (2KiB) to be stored (the store has not answered for 5 s); what the"
            " store does not take is kept in /var/spool/x, and `nczfs recover` puts it back",
        ),
    ],
)
def test_umount_says_what_a_daemon_that_takes_long_waits_for(
    changed: dict[str, Any],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(umount, "PATIENCE_S", 0.1)
    with subprocess.Popen(["sleep", "600"]) as process:
        note = EndNote()
        daemon = umount.Daemon(process.pid, os.pidfd_open(process.pid), STATUS | changed, note)
        try:
            with pytest.raises(MountError, match=r"has not ended after 0\.2 s; what it .*/spool/x"):
                daemon.wait("/mnt", 0.2)
            assert capsys.readouterr().err == f"nczfs: /mnt: unmounted; for up to 0.1 s {told}\n"
            process.kill()
            assert daemon.wait("/mnt", 60.0).failure == "the daemon was killed"
        finally:
            process.kill()
            os.close(daemon.descriptor)
            note.close()


def test_umount_waits_for_a_mount_of_another_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(umount, "PATIENCE_S", 0.1)
    with subprocess.Popen(["sleep", "600"]) as process:
        daemon = umount.Daemon(process.pid, os.pidfd_open(process.pid), {"pid": 12}, None)
        try:
            with pytest.raises(MountError, match=r"has not ended after 0\.2 s; .* its spool"):
                daemon.wait("/mnt", 0.2)
            process.kill()
            with pytest.raises(MountError, match="not known here whether everything"):
                daemon.wait("/mnt", 60.0)
        finally:
            process.kill()
            os.close(daemon.descriptor)
    assert capsys.readouterr().err == (
        "nczfs: /mnt: unmounted; for up to 0.1 s waiting for its daemon to end\n"
    )


def test_the_spool_is_named_with_the_remedy() -> None:
    lines = list(
        status_lines("/mnt", STATUS | {"spooled": 2, "spool_used_bytes": 4096}, verbose=False)
    )
    assert lines[2] == (
        "in the spool: 2 pieces that could not be stored; `nczfs recover --list` shows them"
    )
    assert lines[3] == "spool: 4KiB in /var/spool/x"


def test_what_a_store_can_do_is_said_when_asked_for() -> None:
    brief = list(status_lines("/mnt", STATUS, verbose=False))
    assert brief[0] == "/mnt: s3://b/d"
    assert "1970" in brief[3]
    full = list(status_lines("/mnt", STATUS, verbose=True))
    assert full[: len(brief)] == brief
    assert {"writable: yes", "markers: no"} <= set(full)


DOWN = {"unsaved_chunks": 2, "dirty_bytes": 2048, "last_error": "s3://b/d/v/0: refused"}


def test_who_waits_reads_each_change_at_most_once_a_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = Waiting("/mnt", is_terminal=False)
    for now, changed in (
        (100.0, {"unsaved_chunks": 3}),
        (100.2, {"unsaved_chunks": 3}),
        (100.4, {"unsaved_chunks": 2}),
        (101.2, {"unsaved_chunks": 2}),
        (200.0, {"unsaved_chunks": 2}),
        (201.0, DOWN | {"next_attempt_s": 41.9}),
        (202.0, DOWN | {"next_attempt_s": 0.0}),
    ):
        waiting.look(STATUS | changed, now)
    assert capsys.readouterr().err.splitlines() == [
        "nczfs: /mnt: waiting for 3 chunks",
        "nczfs: /mnt: waiting for 2 chunks",
        "nczfs: /mnt: waiting for 2 chunks (2KiB); next attempt in 42 s, the last one failed: "
        "s3://b/d/v/0: refused",
    ]


def test_a_file_is_tried_again_when_a_program_asks_for_it() -> None:
    status = STATUS | {"unsaved_files": 1, "last_error": "s3://b/f: refused"}
    assert waiting_text(status) == (
        "1 file; next attempt when a program closes or syncs the file, the last one failed: "
        "s3://b/f: refused"
    )


def test_a_terminal_is_never_silent_for_more_than_ten_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = Waiting("/mnt", is_terminal=True)
    for now in range(100, 131):
        waiting.look(STATUS | DOWN | {"next_attempt_s": 130.0 - now}, float(now))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("attempt ")[1].split(",")[0] for line in lines] == [
        "in 30 s",
        "in 20 s",
        "in 10 s",
        "under way",
    ]


def listed(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Let directories look as if nczfs had mounted them."""
    entries = [
        mounting.MountEntry(os.path.realpath(path), "0:1", mounting.FILE_SYSTEM_TYPE, "store")
        for path in paths
    ]
    monkeypatch.setattr(mounting, "mount_table", lambda: entries)


def reporting(path: Path, document: bytes) -> Path:
    """A directory with what a mount reports of itself."""
    (path / ".nczfs").mkdir(parents=True)
    (path / mountstatus.STATUS_FILE).write_bytes(document)
    return path


@pytest.mark.parametrize(
    "document",
    [
        b"[" * 100_000,
        b"\xff{",
        json.dumps(STATUS | {"started": float("inf")}).encode(),
        json.dumps(STATUS | {"started": 1e300}).encode(),
        json.dumps(STATUS | {"memory_used_bytes": float("nan")}).encode(),
    ],
)
def test_a_mount_that_reports_nonsense_does_not_spoil_the_list(
    document: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = reporting(tmp_path / "odd", document)
    other = reporting(tmp_path / "other", json.dumps(STATUS).encode())
    listed(monkeypatch, odd, other)
    assert main(["status"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == [str(odd), str(other)]
    assert " other version " in shown[1]
    assert main(["status", "--json"]) == 0
    states = {row["mountpoint"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states == {str(odd): "other version", str(other): "mounted"}
    assert main(["status", str(odd)]) == 1
    assert "internal" not in capsys.readouterr().err


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What is unmounted, and whether that is lazy."""
    calls: list[tuple[str, bool]] = []
    monkeypatch.setattr(mounting, "unmount", lambda path, *, lazy=False: calls.append((path, lazy)))
    return calls


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"null",
        b"7",
        b"[" * 100_000,
        b"{}",
        *(f'{{"pid": {pid}}}'.encode() for pid in ("null", "[]", "Infinity", 10**30, -1, 1)),
    ],
)
def test_what_reports_no_daemon_is_unmounted_and_its_end_is_not_known(
    document: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: list[tuple[str, bool]],
) -> None:
    path = reporting(tmp_path / "mnt", document)
    listed(monkeypatch, path)
    with pytest.raises(MountError, match="not known here whether everything could be stored"):
        umount.unmount(str(path))
    assert ended == [(str(path), False)]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ETIMEDOUT, errno.EIO])
def test_a_status_that_cannot_be_read_does_not_mean_that_the_daemon_is_dead(
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: list[tuple[str, bool]],
) -> None:
    def fail(_: Path) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "read_bytes", fail)
    listed(monkeypatch, tmp_path)
    with pytest.raises(MountError, match=rf"stored \(.* cannot be read: {os.strerror(code)}\);"):
        umount.unmount(str(tmp_path))
    assert ended == [(str(tmp_path), False)]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ESRCH])
def test_a_daemon_that_cannot_be_waited_for_is_not_called_dead(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: list[tuple[str, bool]]
) -> None:
    def fail(_: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pidfd_open", fail)
    path = reporting(tmp_path / "mnt", json.dumps(STATUS).encode())
    listed(monkeypatch, path)
    with pytest.raises(
        MountError, match=rf"could be stored \(its daemon, .*: {os.strerror(code)}\)"
    ):
        umount.unmount(str(path))
    assert ended == [(str(path), False)]


def test_a_daemon_that_ends_before_it_is_waited_for_is_called_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: list[tuple[str, bool]]
) -> None:
    path = reporting(tmp_path / "mnt", json.dumps(STATUS).encode())
    listed(monkeypatch, path)

    def end(pid: int) -> int:
        def fail(_: Path) -> bytes:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

        monkeypatch.setattr(Path, "read_bytes", fail)
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    monkeypatch.setattr(os, "pidfd_open", end)
    assert umount.unmount(str(path)) == Ending()
    assert ended == [(str(path), True)]


@pytest.fixture
def of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A directory where another user has mounted something."""
    listed(monkeypatch, tmp_path)

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    return os.path.realpath(tmp_path)


def test_root_who_unmounts_for_another_user_hears_that_the_end_is_not_known(
    of_another_user: str, ended: list[tuple[str, bool]]
) -> None:
    """SEMANTICS N6. A mount that is in use is refused, as it is to its own user."""
    with pytest.raises(MountError, match="not known here whether everything could be stored"):
        umount.unmount(of_another_user)
    assert ended == [(of_another_user, False)]
    umount.unmount(of_another_user, lazy=True)
    assert ended[1:] == [(of_another_user, True)]


def test_who_may_not_unmount_for_another_user_hears_who_may(
    of_another_user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = f"fusermount3: entry for {of_another_user} not found in /etc/mtab\n"
    refused = subprocess.CompletedProcess([], 1, "", reason)
    monkeypatch.setattr(mounting, "may_mount", lambda: False)
    monkeypatch.setattr(mounting, "check_fuse", lambda **_: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    for lazy in (False, True):
        with pytest.raises(MountError, match="unmount it as that user, or as root"):
            umount.unmount(of_another_user, lazy=lazy)
    os.rmdir(of_another_user)  # stands for a directory that nobody else can look into
    with pytest.raises(MountError, match="store is already mounted there"):
        mounting.prepare(of_another_user, allow_other=False)
