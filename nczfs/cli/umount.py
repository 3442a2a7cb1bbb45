"""``nczfs umount``: ends a mount, and waits until its daemon has ended too."""

from __future__ import annotations

import argparse
import json
import os
import select
from contextlib import suppress
from pathlib import Path

from nczfs.cli import values
from nczfs.cli.command import Command, Request
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument(
        "-l",
        "--lazy",
        action="store_true",
        help="detach now, end when the last open file is closed",
    )
    parser.add_argument(
        "--timeout",
        type=values.deadline,
        default=60.0,
        metavar="TIME",
        help="how long to wait for the daemon to end (default 60s)",
    )


def run(request: Request) -> int:
    """Unmount."""
    arguments = request.arguments
    unmount(arguments.mountpoint, lazy=arguments.lazy, timeout_s=arguments.timeout)
    return 0


def unmount(mountpoint: str, *, lazy: bool = False, timeout_s: float = 60.0) -> None:
    """Unmount and wait for the daemon, which stores what was written before it ends.

    Raises
    ------
    UsageError : no nczfs is mounted there.
    MountError : it is in use, or the daemon did not end in time.
    """
    path = mounting.resolve(mountpoint)
    entry = mounting.find_mount(path)
    if entry is None or entry.kind != mounting.FILE_SYSTEM_TYPE:
        raise UsageError(
            f"{path}: nczfs is not mounted there (`findmnt -t fuse.nczfs` shows where)"
        )
    pid, daemon = _daemon(path)
    try:
        mounting.unmount(path, lazy=lazy or daemon is None)
        # A lazy unmount ends the daemon at some later time.
        if daemon is not None and not lazy and not _ended(daemon, timeout_s):
            raise MountError(
                f"{path}: unmounted, but the daemon (process {pid}) still works after"
                f" {timeout_s:g} s; its log tells at what"
            )
    finally:
        if daemon is not None:
            os.close(daemon)


def _daemon(path: str) -> tuple[int, int | None]:
    """The daemon of a mount, and a descriptor of its process; None if it is dead or not here."""
    try:
        pid = int(json.loads(Path(path, ".nczfs/status.json").read_bytes())["pid"])
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError, KeyError):
        return 0, None
    with suppress(OSError):
        # In another container the number may be that of another process.
        if b"nczfs" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid, descriptor
    os.close(descriptor)
    return 0, None


def _ended(daemon: int, timeout_s: float) -> bool:
    return bool(select.select([daemon], [], [], timeout_s)[0])


COMMAND = Command("umount", "end a mount", _arguments, run)
