"""What a mount reports of itself in ``.nczfs/status.json``."""

from __future__ import annotations

import errno
import json
import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError

STATUS_FILE = ".nczfs/status.json"

HANGS_AFTER_S = 10.0
"""A daemon that does not answer for so long hangs. A busy machine is not that slow."""

Status: TypeAlias = dict[str, Any]

Kind: TypeAlias = Callable[[Any], bool]
"""Says whether a value is what a field may hold."""

FieldKinds: TypeAlias = Mapping[str, Kind]

_Answer = TypeVar("_Answer")


def _of(*types: type) -> Kind:
    return lambda value: isinstance(value, types)


def _within(first: float, end: float, *types: type[int] | type[float]) -> Kind:
    return lambda value: isinstance(value, types) and first <= value < end


def _or_null(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


def _list_of(fields: FieldKinds) -> Kind:
    return lambda value: (
        isinstance(value, list)
        and all(isinstance(each, dict) and _wrong(each, fields) is None for each in value)
    )


_TEXT = _of(str)
_COUNT = _within(0, 2**63, int)
_NUMBER = _within(0, 2**63, int, float)
_TIME = _within(0, 2e11, int, float)  # to the year 8307, which a date can have in any zone
_PID = _within(1, 2**31, int)

DAEMON: FieldKinds = {"pid": _PID}
"""The field that says who serves a mount."""

SPOOL: FieldKinds = {"spool": _TEXT}
"""The field that says where a mount keeps what it cannot store."""

END_NOTE: FieldKinds = {"end_note": _TEXT}
"""The field that says where a mount will describe its end."""

ENDING: FieldKinds = {
    **SPOOL,
    "dirty_bytes": _NUMBER,
    "unsaved_chunks": _COUNT,
    "unsaved_files": _COUNT,
    "unsaved_metadata": _COUNT,
    "silent_s": _NUMBER,
}
"""The fields that say what a mount which is ending waits for."""

FIELDS: FieldKinds = {
    **DAEMON,
    **ENDING,
    "url": _TEXT,
    "store": _TEXT,
    "started": _TIME,
    "read_only": _of(bool),
    "spooled": _COUNT,
    "spool_used_bytes": _NUMBER,
    "last_error": _or_null(_TEXT),
    "next_attempt_s": _or_null(_NUMBER),
    "imports": _list_of({"file": _TEXT, "percent": _NUMBER}),
    "leases": _list_of({"dataset": _TEXT, "expiry": _TIME}),
    "memory_used_bytes": _NUMBER,
    "memory_limit_bytes": _NUMBER,
    "disk_used_bytes": _NUMBER,
    "open_files": _COUNT,
    "inodes": _COUNT,
    "hidden_keys": _NUMBER,
    "features": _of(dict),
}
"""The fields that commands show."""


class StatusError(MountError):
    """What a mount reports of itself is not known.

    Attributes
    ----------
    state : of the mount, in a list of mounts.
    reason : the message without the path and the remedy.
    """

    state: ClassVar[str] = "cannot be read"

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}; {remedy}" if remedy else f"{path}: {reason}")
        self.reason = reason


class Dead(StatusError):
    """The daemon of a mount has ended, and the mount is still there."""

    state = "dead"


class Gone(StatusError):
    """A mount is not there any more."""

    state = "ended"


class Hanging(StatusError):
    """The daemon of a mount does not answer."""

    state = "does not answer"


class NoAccess(StatusError):
    """A mount is another user's."""

    state = "no access"


class OtherVersion(StatusError):
    """A mount does not report what this version of nczfs reads, most likely as another one does."""

    state = "other version"


def mounted_path(mountpoint: str) -> str:
    """Return the path of a mount of nczfs. Raises UsageError: there is none."""
    path = mounting.resolve(mountpoint)
    if not _is_mounted(path):
        raise UsageError(f"{path}: nczfs is not mounted there (`nczfs status` lists all mounts)")
    return path


def _is_mounted(path: str) -> bool:
    entry = mounting.find_mount(path)
    return entry is not None and entry.kind == mounting.FILE_SYSTEM_TYPE


def read_status(path: str, timeout_s: float = math.inf) -> bytes:
    """Return the status.json of a mount; parameters and errors are those of `answer`."""
    return answer(path, Path(path, STATUS_FILE).read_bytes, timeout_s)


def answer(path: str, read: Callable[[], _Answer], timeout_s: float = math.inf) -> _Answer:
    """Return what is read in a mount.

    Parameters
    ----------
    read : runs in a thread, which is left behind if the daemon hangs.
    timeout_s : how long to wait, at most `HANGS_AFTER_S`.

    Raises
    ------
    StatusError : it cannot be read; the class says why.
    """
    found: Future[_Answer] = Future()

    def ask() -> None:
        try:
            found.set_result(read())
        except Exception as error:  # noqa: BLE001 - raised again by the caller
            found.set_exception(error)

    limit_s = min(HANGS_AFTER_S, timeout_s)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(limit_s)
    if not found.done():
        raise Hanging(
            path,
            f"the daemon of this mount has not answered for {limit_s:g} s",
            f"`nczfs umount --lazy {path}` detaches it",
        )
    try:
        return found.result()
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: str, error: OSError) -> StatusError:
    is_gone = error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    if (is_gone or error.errno == errno.ENOENT) and not _is_mounted(path):
        return Gone(path, "is not mounted any more")
    if is_gone:
        return Dead(
            path,
            "the daemon of this mount is dead",
            f"`nczfs umount {path}` clears it, and mounting again does too",
        )
    if error.errno == errno.EACCES:
        return NoAccess(
            path,
            "only the user who mounted it has access",
            "`-o allow_root` admits root, `-o allow_other` everybody",
        )
    return StatusError(path, f"its status cannot be read: {error.strerror or error}")


def parsed(path: str, document: bytes, fields: FieldKinds = FIELDS) -> Status:
    """Return what a mount reports.

    Raises
    ------
    OtherVersion : one of the fields is missing, or holds what it cannot hold here.
    """
    try:
        status = json.loads(document, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise OtherVersion(path, f"its {STATUS_FILE} is not a JSON object")
    if (name := _wrong(status, fields)) is not None:
        raise OtherVersion(
            path,
            f"another version of nczfs has mounted it, which does not report {name!r} as this one"
            " does",
            f"`cat {path}/{STATUS_FILE}` shows what it reports",
        )
    return status


def has(status: Status, fields: FieldKinds) -> bool:
    """Return whether a mount reports all these fields."""
    return _wrong(status, fields) is None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _wrong(status: Status, fields: FieldKinds) -> str | None:
    """Return the name of the first field that is missing or wrong; None: all are there."""
    return next(
        (name for name, kind in fields.items() if name not in status or not kind(status[name])),
        None,
    )
