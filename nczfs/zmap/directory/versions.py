"""The status of a file as that of an object."""

from __future__ import annotations

import os

from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key


def version_of(status: os.stat_result) -> Version:
    """Return the version of the object in a regular file."""
    return Version(f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}")


def stat_of(key: Key, status: os.stat_result) -> Stat:
    """Return the `Stat` of the object in a regular file."""
    return Stat(key, status.st_size, version_of(status), status.st_mtime_ns)
