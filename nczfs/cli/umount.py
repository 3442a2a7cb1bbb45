"""``nczfs umount``: ends a mount, and waits until its daemon has ended too."""

from __future__ import annotations

import argparse
import json
import os
import select
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Self

from nczfs.cli import values
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.mountstatus import ENDING, STATUS_FILE, OtherVersion, Status, checked
from nczfs.cli.terminal import complain
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.fuse.mounting import MountError
from nczfs.messages import counted
from nczfs.plaindata import frozen
from nczfs.vfs.ending import Ending, EndNote
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
    ending = unmount(arguments.mountpoint, lazy=arguments.lazy, timeout_s=arguments.timeout)
    if left := left_text(ending):
        complain("nczfs", f"{arguments.mountpoint}: {left}")
    return 1 if left else 0


def left_text(ending: Ending) -> str:
    """Describe what a mount that has ended could not store; "": nothing."""
    kept = _kept_text(Path(ending.spool)) if ending.spool else ""
    lost = "; ".join(ending.lost)
    if not (kept or lost):
        lost = ending.failure
    if not (kept or lost):
        return ""
    parts = ["not everything could be stored"]
    if kept and not lost:
        parts.append(f"the rest is in {ending.spool} ({kept}), and `nczfs recover` puts it back")
    elif kept:
        parts.append(f"kept in {ending.spool}, from where `nczfs recover` puts it back: {kept}")
    if lost:
        parts.append(f"lost: {lost}")
    return "; ".join(parts)


def _kept_text(directory: Path) -> str:
    """Describe what is in the spool of a mount that has ended; "": nothing."""
    from nczfs.tools.recovery import left_in  # imports NumPy

    counts = Counter(found.kind for found in left_in(directory))
    return " and ".join(counted(number, kind) for kind, number in sorted(counts.items()))


def unmount(mountpoint: str, *, lazy: bool = False, timeout_s: float = 60.0) -> Ending:
    """Unmount and wait for the daemon, which stores what was written before it ends.

    Returns
    -------
    what could not be stored. Of a lazy unmount, and of a mount without a daemon, nothing is known.

    Raises
    ------
    UsageError : no nczfs is mounted there.
    MountError : the mount is in use, or the daemon did not end in time; or another user has mounted
        it, whom alone the daemon tells what could not be stored.
    """
    path = mounting.resolve(mountpoint)
    entry = mounting.find_mount(path)
    if entry is None or entry.kind != mounting.FILE_SYSTEM_TYPE:
        raise UsageError(f"{path}: nczfs is not mounted there (`nczfs status` lists all mounts)")
    # Of a lazy unmount the daemon, which may hang, is not asked; it ends later.
    try:
        daemon = None if lazy else _daemon(path)
    except PermissionError as error:
        raise _unmounted_blindly(path) from error
    if daemon is None:
        mounting.unmount(path, lazy=True)
        return Ending()
    with daemon:
        mounting.unmount(path)
        return daemon.wait(path, timeout_s)


def _unmounted_blindly(path: str) -> MountError:
    """Unmount what another user has mounted. Returns what is not known then.

    Raises
    ------
    MountError : it is in use, or this user may not unmount it.
    """
    mounting.unmount(path)
    return MountError(
        f"{path}: is unmounted, but another user had mounted it, so it is not known here whether"
        " everything could be stored; that user's `nczfs recover --list` shows what is kept"
    )


@frozen
class Daemon:
    """The daemon of a mount, until the end of a block.

    Attributes
    ----------
    descriptor : of its process, readable when it has ended.
    status : shortly before the mount is ended.
    note : says how the mount has ended; None: this process may not read it.
    """

    pid: int
    descriptor: int
    status: Status
    note: EndNote | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        if self.note is not None:
            self.note.close()

    def wait(self, path: str, timeout_s: float) -> Ending:
        """Wait until it has ended, and say what for if that takes a while.

        Raises
        ------
        MountError : it has not ended in time.
        """
        patience_s = min(PATIENCE_S, timeout_s)
        if not self._has_ended(patience_s):
            if left_s := timeout_s - patience_s:
                complain(
                    "nczfs", f"{path}: unmounted; for up to {left_s:g} s {self._waiting_text(path)}"
                )
            if not self._has_ended(left_s):
                raise MountError(
                    f"{path}: unmounted, but the daemon (process {self.pid}) has not ended after"
                    f" {timeout_s:g} s; what it cannot store is kept in {self.status['spool']}"
                )
        if self.note is not None and (ending := self.note.read()) is not None:
            return ending
        spool = self.status["spool"] if Path(self.status["spool"]).is_dir() else ""
        return Ending(spool, failure="the daemon was killed" if self.note is not None else "")

    def _waiting_text(self, path: str) -> str:
        try:
            return ending_text(checked(path, self.status, ENDING))
        except OtherVersion:
            return "waiting for its daemon to end"

    def _has_ended(self, timeout_s: float) -> bool:
        return bool(select.select([self.descriptor], [], [], timeout_s)[0])


def _daemon(path: str) -> Daemon | None:
    """Return the daemon of a mount; None: it is dead, or not on this machine.

    Raises
    ------
    PermissionError : another user has mounted it, for nobody else.
    """
    try:
        status = json.loads(Path(path, STATUS_FILE).read_bytes())
        pid, _ = int(status["pid"]), Path(status["spool"])
        descriptor = os.pidfd_open(pid)
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError):
        return None
    with suppress(OSError):
        # In another container this id may belong to another process.
        if b"nczfs" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return Daemon(pid, descriptor, status, _note(status))
    os.close(descriptor)
    return None


def _note(status: Status) -> EndNote | None:
    try:
        return EndNote.opened(status["end_note"])
    except (OSError, KeyError):
        return None


COMMAND = Command(
    "umount",
    "end a mount",
    _arguments,
    run,
    ("nczfs umount /mnt/era5",),
    aliases=("unmount",),
)
