"""``nczfs umount``: ends a mount, and waits until its daemon has ended too."""

from __future__ import annotations

import argparse
import json
import os
import select
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nczfs.cli import values
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.status import Status
from nczfs.cli.terminal import complain
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError
from nczfs.vfs.unsaved import ending_text

PATIENCE_S = 2.5  # an end that takes longer is explained


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="the mounted directory")
    parser.add_argument(
        "-l",
        "--lazy",
        action="store_true",
        help="detach now; the daemon ends when the last file is closed",
    )
    parser.add_argument(
        "--timeout",
        type=values.deadline,
        default=60.0,
        metavar="TIME",
        help="how long to wait for the daemon to end (default 60s)",
    )


def run(request: CommandLine) -> int:
    """Unmount. Returns 1 if something could not be stored."""
    arguments = request.arguments
    spool = unmount(arguments.mountpoint, lazy=arguments.lazy, timeout_s=arguments.timeout)
    if spool is None:
        return 0
    complain("nczfs", left_text(arguments.mountpoint, spool))
    return 1


def left_text(mountpoint: str, spool: Path) -> str:
    """Describe what a mount that has ended could not store."""
    return (
        f"{mountpoint}: not everything could be stored; the rest is in {spool}, and `nczfs recover`"
        " puts it back"
    )


def unmount(mountpoint: str, *, lazy: bool = False, timeout_s: float = 60.0) -> Path | None:
    """Unmount and wait for the daemon, which stores what was written before it ends.

    Returns
    -------
    the directory of what could not be stored; None: everything is stored.

    Raises
    ------
    UsageError : no nczfs is mounted there.
    MountError : the mount is in use, or the daemon did not end in time.
    """
    path = mounting.resolve(mountpoint)
    entry = mounting.find_mount(path)
    if entry is None or entry.kind != mounting.FILE_SYSTEM_TYPE:
        raise UsageError(f"{path}: nczfs is not mounted there (`nczfs status` lists all mounts)")
    if lazy:  # The daemon, which may hang, is not asked; it ends later.
        mounting.unmount(path, lazy=True)
        return None
    daemon = _daemon(path)
    if daemon is None:
        mounting.unmount(path, lazy=True)
        return None
    try:
        mounting.unmount(path)
        wait(path, daemon, timeout_s)
    finally:
        os.close(daemon.descriptor)
    spool = Path(daemon.status["spool"])
    return spool if spool.is_dir() else None


@dataclass(frozen=True, slots=True)
class Daemon:
    """The daemon of a mount.

    Attributes
    ----------
    descriptor : of its process, readable when it has ended.
    status : shortly before the mount is ended.
    """

    pid: int
    descriptor: int
    status: Status


def _daemon(path: str) -> Daemon | None:
    """Return the daemon of a mount; None: it is dead, or not on this machine."""
    try:
        status = json.loads(Path(path, ".nczfs/status.json").read_bytes())
        pid, _ = int(status["pid"]), Path(status["spool"])
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError, KeyError):
        return None
    with suppress(OSError):
        # In another container this id may belong to another process.
        if b"nczfs" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return Daemon(pid, descriptor, status)
    os.close(descriptor)
    return None


def wait(path: str, daemon: Daemon, timeout_s: float) -> None:
    """Wait until a daemon has ended, and say what for if that takes a while."""
    patience_s = min(PATIENCE_S, timeout_s)
    if _ended(daemon.descriptor, patience_s):
        return
    if left_s := timeout_s - patience_s:
        complain("nczfs", f"{path}: unmounted; for up to {left_s:g} s {ending_text(daemon.status)}")
        if _ended(daemon.descriptor, left_s):
            return
    raise MountError(
        f"{path}: unmounted, but the daemon (process {daemon.pid}) has not ended after"
        f" {timeout_s:g} s; what it cannot store is kept in {daemon.status['spool']}"
    )


def _ended(daemon: int, timeout_s: float) -> bool:
    return bool(select.select([daemon], [], [], timeout_s)[0])


COMMAND = Command(
    "umount",
    "end a mount",
    _arguments,
    run,
    ("nczfs umount /mnt/era5",),
    aliases=("unmount",),
)
