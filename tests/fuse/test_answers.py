"""Every request gets an answer, and no exception ends the mount."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.support.mounts import Served, served
from tests.support.waiting import until

TOY = [sys.executable, "-X", "faulthandler", "-m", "tests.support.toydaemon"]

EXPECTED = r"open\(|lookup\(|read\(|forget\(|Traceback"


@pytest.fixture(scope="module")
def failing() -> Iterator[Served]:
    with served([*TOY, "failing"], expect=EXPECTED) as mount:
        yield mount


@pytest.fixture(scope="module")
def slow() -> Iterator[Served]:
    with served([*TOY, "slow"], expect="ETIMEDOUT") as mount:
        yield mount


def errno_of(call: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 (which one it is, the caller says)
        call()
    return caught.value.errno


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bug", errno.EIO),
        ("corrupt", errno.EIO),
        ("stale", errno.ESTALE),
        ("nospace", errno.ENOSPC),
        ("oserror", errno.EIO),
        ("fuse", errno.EDOM),
        ("memory", errno.EIO),
    ],
)
def test_an_exception_in_a_handler_is_an_errno_and_the_mount_lives_on(
    failing: Served, name: str, code: int
) -> None:
    """SEMANTICS A6."""
    assert errno_of((failing.path / name).read_bytes) == code
    assert (failing.path / "sound").read_bytes() == b"sound\n"


def test_a_bug_in_lookup_is_an_errno_too(failing: Served) -> None:
    assert errno_of((failing.path / "broken").stat) == errno.EIO
    assert (failing.path / "sound").exists()


def test_an_error_is_logged_once_with_operation_and_place(failing: Served) -> None:
    before = failing.log.read_text().count("CorruptChunk") + failing.log.read_text().count(
        "t2m/0.0.0: checksum"
    )
    errno_of((failing.path / "corrupt").read_bytes)
    text = failing.log.read_text()
    assert text.count("t2m/0.0.0: checksum") == before + 1
    assert "open(" in text
    assert "EIO: t2m/0.0.0: checksum" in text


def test_a_bug_is_logged_with_its_traceback_and_an_expected_error_without(
    failing: Served,
) -> None:
    size = failing.log.stat().st_size
    errno_of((failing.path / "stale").read_bytes)
    assert "Traceback" not in failing.log.read_text()[size:]
    size = failing.log.stat().st_size
    errno_of((failing.path / "bug").read_bytes)
    assert "ZeroDivisionError: a bug" in failing.log.read_text()[size:]


def test_an_absent_name_is_no_line_of_the_log(failing: Served) -> None:
    size = failing.log.stat().st_size
    assert not (failing.path / "absent").exists()
    assert "absent" not in failing.log.read_text()[size:]


def test_a_slow_lookup_and_a_slow_open_end_at_the_deadline(slow: Served) -> None:
    for name in ("directory/slow-name", "slow"):
        assert errno_of((slow.path / name).read_bytes) == errno.ETIMEDOUT


def test_a_slow_read_ends_at_the_deadline(slow: Served) -> None:
    """SEMANTICS A1."""
    assert errno_of((slow.path / "content").read_bytes) == errno.ETIMEDOUT


def test_others_are_answered_while_one_waits() -> None:
    with (
        served([*TOY, "gated"]) as mount,
        subprocess.Popen(["cat", mount.path / "content"], stdout=subprocess.PIPE) as waiting,
    ):
        until(lambda: "READING" in mount.log.read_text())
        for _ in range(20):
            os.statvfs(mount.path)
            os.listdir(mount.path)
        assert waiting.poll() is None
        mount.process.send_signal(signal.SIGHUP)
        assert waiting.communicate(timeout=120)[0] == b"content"


def test_a_handle_that_was_opened_too_late_is_closed(slow: Served) -> None:
    assert errno_of((slow.path / "slow").read_bytes) == errno.ETIMEDOUT
    wait_for_state(slow, "handles=0")


def wait_for_state(mount: Served, what: str) -> None:
    def is_so() -> bool:
        states = [line for line in mount.log.read_text().splitlines() if "STATE" in line]
        return bool(states) and what in states[-1]

    until(is_so)


def test_an_exception_in_forget_does_not_end_the_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FORGET", "bug")
    with served([*TOY, "failing"], expect=EXPECTED) as mount:
        (mount.path / "made").touch()
        (mount.path / "made").unlink()  # the kernel forgets the inode with its name
        until(lambda: "in forget" in mount.log.read_text())
        assert (mount.path / "sound").read_bytes() == b"sound\n"
