"""``nczfs umount``: ends a mount, and waits until its daemon has ended too."""

from __future__ import annotations

import argparse
import os
import select
from collections import Counter
from pathlib import Path
from typing import Self

from nczfs.cli import values
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.mountstatus import (
    DAEMON,
    END_NOTE,
    ENDING,
    SPOOL,
    Dead,
    Gone,
    Hanging,
    Status,
    StatusError,
    has,
    mounted_path,
    parsed,
    read_status,
)
from nczfs.cli.terminal import complain
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
    what could not be stored. Of a lazy unmount, and of a mount whose daemon is dead, nothing is
    known.

    Raises
    ------
    UsageError : no nczfs is mounted there.
    MountError : the mount is in use, or the daemon does not answer, or did not end in time; or it
        is not known what could not be stored, as of the mount of another user.
    """
    path = mounted_path(mountpoint)
    if lazy:  # the daemon, which may hang, is not asked
        mounting.unmount(path, lazy=True)
        return Ending()
    try:
        daemon = _daemon(path, parsed(path, read_status(path, timeout_s), DAEMON))
    except Dead:
        mounting.unmount(path, lazy=True)
        return Ending()
    except (Gone, Hanging):
        raise
    except StatusError as error:
        mounting.unmount(path)
        raise _unknown_end(path, error.reason) from error
    with daemon:
        mounting.unmount(path)
        return daemon.wait(path, timeout_s)


def _unknown_end(path: str, reason: str) -> MountError:
    return MountError(
        f"{path}: is unmounted, but it is not known here whether everything could be stored"
        f" ({reason}); `nczfs recover --list`, run by the user who mounted it, shows what is kept"
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
        MountError : it has not ended in time, or nothing is known of its end.
        """
        patience_s = min(PATIENCE_S, timeout_s)
        if not self._has_ended(patience_s):
            if left_s := timeout_s - patience_s:
                complain(
                    "nczfs", f"{path}: unmounted; for up to {left_s:g} s {self._waiting_text()}"
                )
            if not self._has_ended(left_s):
                kept = self._spool or "its spool"
                raise MountError(
                    f"{path}: unmounted, but the daemon (process {self.pid}) has not ended after"
                    f" {timeout_s:g} s; what it cannot store is kept in {kept}"
                )
        if self.note is None:
            raise _unknown_end(path, "its daemon does not report it")
        spool = self._spool if os.path.isdir(self._spool) else ""
        return self.note.read() or Ending(spool, failure="the daemon was killed")

    def _waiting_text(self) -> str:
        if has(self.status, ENDING):
            return ending_text(self.status)
        return "waiting for its daemon to end"

    @property
    def _spool(self) -> str:
        """The directory of the spool; "": the daemon does not report it."""
        return str(self.status["spool"]) if has(self.status, SPOOL) else ""

    def _has_ended(self, timeout_s: float) -> bool:
        return bool(select.select([self.descriptor], [], [], timeout_s)[0])


def _daemon(path: str, status: Status) -> Daemon:
    """Return the daemon of a mount.

    Raises
    ------
    Dead, Gone : it has ended.
    StatusError : it cannot be waited for here, as from another container.
    """
    pid = status["pid"]
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        read_status(path)  # raises Dead or Gone where the daemon has ended in the meantime
        raise StatusError(path, f"its daemon, process {pid}: {error.strerror}") from error
    try:
        # In another container this id may belong to another process.
        is_daemon = b"nczfs" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        is_daemon = False
    if is_daemon:
        return Daemon(pid, descriptor, status, _note(status))
    os.close(descriptor)
    raise StatusError(path, f"process {pid} here is not its daemon")


def _note(status: Status) -> EndNote | None:
    if not has(status, END_NOTE):
        return None
    try:
        return EndNote.opened(status["end_note"])
    except (OSError, ValueError):  # a path with a NUL
        return None


COMMAND = Command(
    "umount",
    "end a mount",
    _arguments,
    run,
    ("nczfs umount /mnt/era5",),
    aliases=("unmount",),
)
