"""Where the log goes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.cli import logs
from nczfs.cli.sources import Settings
from nczfs.errors import UsageError
from tests.support.ports import free_port

log = logging.getLogger("nczfs.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("nczfs")
    before = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    yield
    for handler in set(root.handlers) - set(before[0]):
        handler.close()
    root.handlers[:], level, our_level, logging.raiseExceptions = before
    root.setLevel(level)
    ours.setLevel(our_level)


def test_a_daemon_logs_to_the_file_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    target = logs.configure_background(Settings({"log-file": str(path)}), "/mnt")
    log.info("hello %s", "world")
    os.write(target.descriptor, b"a stack\n")
    os.close(target.descriptor)
    text = path.read_text()
    assert "INFO hello world" in text
    assert "a stack" in text


def test_a_daemon_without_syslog_logs_to_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(logs, "_SYSLOG_SOCKET", str(tmp_path / "absent"))
    target = logs.configure_background(Settings({}), "/mnt/era5")
    os.close(target.descriptor)
    log.info("hello")
    assert target.path == tmp_path / "nczfs/mnt-era5.log"
    assert "hello" in target.path.read_text()


@pytest.mark.parametrize("configure", ["background", "foreground"])
def test_a_new_file_after_a_rotation_is_for_its_owner_and_group(
    configure: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    settings = Settings({"log-file": str(path)})
    before = os.umask(0)
    try:
        if configure == "background":
            os.close(logs.configure_background(settings, "/mnt").descriptor)
        else:
            logs.configure_foreground(settings)
        log.info("before")
        path.rename(tmp_path / "log.1")
        log.info("after")
    finally:
        os.umask(before)
    assert "INFO after" in path.read_text()
    assert {oct(each.stat().st_mode & 0o777) for each in tmp_path.iterdir()} == {"0o640"}


def test_lines_can_be_json(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logs.configure_foreground(Settings({"log-file": str(path), "log-format": "json"}))
    try:
        raise ZeroDivisionError("oh")
    except ZeroDivisionError:
        log.exception("bad")
    record = json.loads(path.read_text())
    assert record["level"] == "error"
    assert record["message"] == "bad"
    assert "ZeroDivisionError: oh" in record["traceback"]


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, logging.INFO),
        ({"debug": True}, logging.DEBUG),
        ({"log-level": "error"}, logging.ERROR),
        ({"log-level": "error", "verbose": True}, logging.INFO),
    ],
)
def test_levels(settings: dict[str, object], level: int) -> None:
    logs.configure_foreground(Settings(settings))
    assert logging.getLogger("nczfs").level == level


def test_a_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--log-file .*No such file or directory"):
        logs.configure_foreground(Settings({"log-file": str(tmp_path / "a/b")}))


def test_a_command_prints_its_error_and_nothing_of_the_libraries_below() -> None:
    """They say at INFO where they found the endpoint and the credentials."""
    ended = subprocess.run(
        [sys.executable, "-m", "nczfs.cli.main", "ls", "s3://bucket"],
        env=os.environ
        | {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{free_port()}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "no_proxy": "*",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "check AWS_ENDPOINT_URL_S3" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_a_line_that_repeats_is_logged_once_and_later_with_how_often_it_was_left_out() -> None:
    now = 0.0
    repeats = logs.Repeats(lambda: now)

    def logged(text: str, level: int = logging.WARNING, **extra: str) -> str:
        record = log.makeRecord(log.name, level, __file__, 0, "%s", (text,), None, extra=extra)
        return record.getMessage() if repeats.filter(record) else ""

    assert [logged("a"), logged("b"), logged("a"), logged("a")] == ["a", "b", "", ""]
    now = logs.QUIET_S - 1
    assert [logged("a"), logged("c")] == ["", "c"]
    now = logs.QUIET_S
    assert [logged("a"), logged("b")] == ["a (the line was left out 3 times since)", "b"]
    assert [logged("a"), logged("a", repeats=""), logged("a", logging.DEBUG)] == ["", "a", "a"]
    assert [logged("read(1)", repeats="read"), logged("read(2)", repeats="read")] == ["read(1)", ""]
    for number in range(logs.LINES_COMPARED):
        logged(str(number))
    assert len(repeats._lines) == logs.LINES_COMPARED
