"""The lock of an archive that is a file: one writer at a time, among all processes.

It is held on the archive itself, so no lock file remains; the kernel drops the lock when its holder
ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from nczfs.errors import StoreBusy, Unavailable

_ATTEMPTS = 100  # each attempt fails only if the archive is replaced just then


def lock_archive(path: str, name: str) -> int:
    """Open an archive for reading and writing, and lock it while the descriptor is open.

    Raises
    ------
    StoreBusy : another process, named in the message, holds the lock.
    Unavailable : the file system has no locks.
    OSError : of opening it.
    """
    for _ in range(_ATTEMPTS):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except OSError as error:
            holder = _holder(os.fstat(fd))
            os.close(fd)
            if isinstance(error, BlockingIOError):
                raise StoreBusy(
                    f"{name}: {holder} is writing to it; an archive takes one writer at a time"
                ) from error
            if error.errno in {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}:
                raise Unavailable(
                    f"{name}: cannot be written to, since its file system has no locks"
                ) from error
            raise
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise Unavailable(f"{name}: is replaced whenever it is opened")


def _holder(status: os.stat_result) -> str:
    """Return who holds the lock of a file, as far as the kernel shows it."""
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == place:
                pid = int(words[4])
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                shown = b" ".join(command)[:80].decode(errors="replace")
                return f"process {pid} ({' '.join(shown.split())})"
    except (OSError, ValueError):
        pass
    return "another process"
