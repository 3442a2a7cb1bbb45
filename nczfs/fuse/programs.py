"""The programs that have files of a mount open, as /proc shows them; no request reaches the mount.

Only root sees programs of other users. What is mapped, or read by pread(2), has no position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nczfs.plaindata import frozen

_PROC = Path("/proc")


@frozen
class OpenedFile:
    """A file of a mount that a program has open.

    Attributes
    ----------
    path : below the mount point.
    position : of the next read or write, in bytes.
    writes : whether it is open for writing.
    """

    pid: int
    program: str
    descriptor: int
    path: str
    position: int
    writes: bool


def opened_files(mountpoint: str) -> list[OpenedFile]:
    """Return the open files of a mount, as far as this user may see them.

    Parameters
    ----------
    mountpoint : absolute, without symbolic links.
    """
    pids = sorted(int(name) for name in os.listdir(_PROC) if name.isdecimal())
    return [found for pid in pids for found in _of_process(pid, f"{mountpoint.rstrip('/')}/")]


def _of_process(pid: int, before: str) -> Iterator[OpenedFile]:
    try:
        descriptors = sorted(map(int, os.listdir(_PROC / str(pid) / "fd")))
    except OSError:  # it has ended, or is another user's
        return
    for descriptor in descriptors:
        # It may have been closed meanwhile.
        with suppress(OSError, KeyError, ValueError):
            target = os.readlink(_PROC / str(pid) / "fd" / str(descriptor))
            if target.startswith(before):
                fields = _fields(_PROC / str(pid) / "fdinfo" / str(descriptor))
                yield OpenedFile(
                    pid,
                    (_PROC / str(pid) / "comm").read_text("utf-8", "replace").rstrip("\n"),
                    descriptor,
                    target[len(before) :],
                    int(fields["pos"]),
                    int(fields["flags"], 8) & os.O_ACCMODE != os.O_RDONLY,
                )


def _fields(path: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}
