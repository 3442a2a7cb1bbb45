"""What a mount reports of itself in ``.nczfs/status.json``."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from nczfs.fuse.mounting import MountError

STATUS_FILE = ".nczfs/status.json"

Status: TypeAlias = dict[str, Any]

_NUMBER = (int, float)

ENDING: Mapping[str, type | tuple[type, ...]] = {
    "dirty_bytes": _NUMBER,
    "unsaved_chunks": int,
    "unsaved_files": int,
    "unsaved_metadata": int,
    "silent_s": _NUMBER,
    "spool": str,
}
"""The fields that say what a mount which is ending waits for, and their types."""

FIELDS: Mapping[str, type | tuple[type, ...]] = {
    **ENDING,
    "url": str,
    "store": str,
    "started": _NUMBER,
    "read_only": bool,
    "pid": int,
    "spooled": int,
    "spool_used_bytes": _NUMBER,
    "last_error": (str, type(None)),
    "next_attempt_s": (*_NUMBER, type(None)),
    "imports": list,
    "leases": list,
    "memory_used_bytes": _NUMBER,
    "memory_limit_bytes": _NUMBER,
    "disk_used_bytes": _NUMBER,
    "open_files": int,
    "inodes": int,
    "hidden_keys": _NUMBER,
    "features": dict,
}
"""The fields that commands show, and their types."""


class OtherVersion(MountError):
    """A mount does not report what this version of nczfs reads, most likely as another one does."""


def read_status(path: str) -> str:
    """Return the status.json of a mount. Raises MountError: it is dead, or another user's."""
    with reaching(path):
        return Path(path, STATUS_FILE).read_text("utf-8")


def parsed(path: str, document: str, fields: Mapping[str, Any] = FIELDS) -> Status:
    """Return what a mount reports.

    Raises
    ------
    OtherVersion : one of the fields is missing, or of another type.
    """
    try:
        status = json.loads(document)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        raise OtherVersion(f"{path}: its {STATUS_FILE} is not a JSON object")
    return checked(path, status, fields)


def checked(path: str, status: Status, fields: Mapping[str, Any] = FIELDS) -> Status:
    """Return what a mount reports if it has all fields; raises as `parsed`."""
    for name, kind in fields.items():
        if not isinstance(status.get(name, Ellipsis), kind):
            raise OtherVersion(
                f"{path}: another version of nczfs has mounted it, which does not report {name!r}"
                f" as this one does; `cat {path}/{STATUS_FILE}` shows what it reports"
            )
    return status


@contextmanager
def reaching(path: str) -> Iterator[None]:
    """Raise MountError for a mount that is dead, or another user's."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            raise MountError(
                f"{path}: the daemon of this mount is dead; `nczfs umount {path}` clears it,"
                " and mounting again does too"
            ) from error
        if error.errno == errno.EACCES:
            raise MountError(
                f"{path}: only the user who mounted it has access; `-o allow_root` admits root,"
                " `-o allow_other` everybody"
            ) from error
        raise
