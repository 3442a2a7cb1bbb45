"""The status of a file as that of an object."""

from __future__ import annotations

import os

from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key


def version_of(status: os.stat_result) -> Version:
    """Return the version of the object in a regular file.

    The time of its status (ctime) is part of it: no program can set that, whereas `cp -p`, `touch`
    and `rsync --times --inplace` write into a file and then set the old mtime.
    """
    return _version(status, status.st_ctime_ns)


def version_put(before: os.stat_result, after: os.stat_result) -> Version:
    """Return the version of an object whose file has just got its name.

    Parameters
    ----------
    before : the status of the file when it was filled.
    after : its status under its name, which has another ctime. If another program has written into
        the file in between, its mtime differs, and the result is the version of no object.
    """
    return _version(before, after.st_ctime_ns)


def _version(status: os.stat_result, ctime_ns: int) -> Version:
    return Version(f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{ctime_ns:x}")


def stat_of(key: Key, status: os.stat_result) -> Stat:
    """Return the `Stat` of the object in a regular file."""
    mtime_ns, ctime_ns = status.st_mtime_ns, status.st_ctime_ns
    return Stat(key, status.st_size, version_of(status), mtime_ns, ctime_ns=ctime_ns)
