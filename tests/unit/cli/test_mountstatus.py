"""What is read of the status of a mount, which another version of nczfs may have written."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from typing import Any

import pytest

from nczfs.cli import mountstatus
from nczfs.cli.mountstatus import (
    DAEMON,
    FIELDS,
    Dead,
    Gone,
    Hanging,
    NoAccess,
    OtherVersion,
    StatusError,
    answer,
    parsed,
)
from nczfs.fuse import mounting
from tests.unit.cli.test_status import STATUS


def document(status: Any) -> bytes:
    return json.dumps(status).encode()


def test_what_this_version_reports_is_read_with_fields_of_a_newer_one() -> None:
    status = STATUS | {"of_tomorrow": 1}
    assert parsed("/mnt", document(status)) == status


def test_only_the_fields_that_are_needed_need_be_there() -> None:
    status = {"pid": 12, "spool": None}
    assert parsed("/mnt", document(status), DAEMON) == status


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_another_version_does_not_report_is_named(name: str) -> None:
    status = {key: value for key, value in STATUS.items() if key != name}
    with pytest.raises(OtherVersion, match=f"^/mnt: another version .* {name!r} .*`cat /mnt/"):
        parsed("/mnt", document(status))


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_another_type_is_named(name: str) -> None:
    value: Any = {} if name != "features" else []
    with pytest.raises(OtherVersion, match=f" {name!r} "):
        parsed("/mnt", document(STATUS | {name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("started", 1e300),
        ("started", -1e12),
        ("pid", 0),
        ("pid", -1),
        ("pid", 10**30),
        ("hidden_keys", 10**400),
        ("unsaved_chunks", -1),
        ("next_attempt_s", 1e300),
        ("imports", ["d.nc"]),
        ("imports", [{"file": "d.nc"}]),
        ("leases", [{"dataset": "d"}]),
        ("leases", [{"dataset": "d", "expiry": 0.0}, {"dataset": "e", "expiry": 1e300}]),
    ],
)
def test_a_value_that_cannot_be_is_named(name: str, value: Any) -> None:
    with pytest.raises(OtherVersion, match=f" {name!r} "):
        parsed("/mnt", document(STATUS | {name: value}))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"null",
        b"7",
        b'"x"',
        b"\xff{",
        b"[" * 100_000,
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_status_at_all_is_an_error(text: bytes) -> None:
    with pytest.raises(OtherVersion, match=r"^/mnt: its .*status\.json is not a JSON object$"):
        parsed("/mnt", text)


@pytest.fixture(params=[True, False], ids=["mounted", "not mounted"])
def is_mounted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    entry = mounting.MountEntry("/mnt", "0:1", mounting.FILE_SYSTEM_TYPE, "store")
    monkeypatch.setattr(mounting, "mount_table", lambda: [entry] if request.param else [])
    return bool(request.param)


@pytest.mark.parametrize(
    ("code", "kind", "kind_if_gone"),
    [
        (errno.ENOTCONN, Dead, Gone),
        (errno.ECONNABORTED, Dead, Gone),
        (errno.ENOENT, StatusError, Gone),
        (errno.EACCES, NoAccess, NoAccess),
        (errno.EMFILE, StatusError, StatusError),
        (errno.ETIMEDOUT, StatusError, StatusError),
        (errno.EIO, StatusError, StatusError),
    ],
)
def test_why_a_mount_cannot_be_read_is_told_apart(
    code: int, kind: type[Exception], kind_if_gone: type[Exception], is_mounted: bool
) -> None:
    def read() -> bytes:
        raise OSError(code, os.strerror(code))

    with pytest.raises(StatusError, match=r"^/mnt: ") as caught:
        answer("/mnt", read)
    assert caught.type is (kind if is_mounted else kind_if_gone)


def test_errors_of_another_kind_are_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        answer("/mnt", lambda: 1 // 0)


@pytest.mark.parametrize(("limit_s", "timeout_s"), [(0.1, 60.0), (60.0, 0.1)])
def test_a_daemon_is_waited_for_at_most_a_while(
    limit_s: float, timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mountstatus, "HANGS_AFTER_S", limit_s)
    end = threading.Event()
    began = time.monotonic()
    try:
        with pytest.raises(Hanging, match=r"not answered for 0\.1 s; `nczfs umount --lazy /mnt`"):
            answer("/mnt", end.wait, timeout_s)
    finally:
        end.set()
    assert time.monotonic() - began < 30
