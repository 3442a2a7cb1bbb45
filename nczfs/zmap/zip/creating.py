"""Making new archives."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Literal

from nczfs.zmap.directory import TEMPORARY
from nczfs.zmap.keys import parse_key
from nczfs.zmap.oserrors import archive_errors
from nczfs.zmap.zip import disk
from nczfs.zmap.zip.index import ROOT_MARK
from nczfs.zmap.zip.records import NewMember, dos_time, end_records
from nczfs.zmap.zip.store import ENCODING

ArchiveForm = Literal["top", "root"]
"""The place of the keys: in a directory (netcdf-c) or at the root of the archive (zarr-python)."""


def create_archive(path: str, form: ArchiveForm) -> None:
    """Make an archive without members, if there is no file of that name.

    Raises
    ------
    AccessDenied, NoSpace, Unavailable.
    """
    name = Path(path).name
    parts: list[bytes] = []
    count = 0
    comment = ROOT_MARK
    if form == "top":
        # As in netcdf-c: the name without its last extension; it has to be the first entry.
        top = parse_key(os.path.splitext(name)[0]).encode(*ENCODING) + b"/"
        new = NewMember(top, 0, 0, dos_time(time.time()))
        parts = [new.local_header(), new.central_entry(0)]
        count, comment = 1, b""
    start = len(parts[0]) if parts else 0
    size = len(parts[1]) if parts else 0
    parts.append(end_records(count, size, start, shift=0, comment=comment))
    temporary = os.path.join(os.path.dirname(path), f"{TEMPORARY}{secrets.token_hex(8)}")
    with archive_errors(Path(path).as_uri()):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # unlocked files are removed
            disk.write_all_at(fd, parts, 0)
            disk.sync(fd)
            _put_in_place(temporary, path)
            disk.sync_directory(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            os.close(fd)


def _put_in_place(temporary: str, path: str) -> None:
    """Give a file its name if that is free."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        if not os.path.exists(path):  # a file system without links
            os.rename(temporary, path)
