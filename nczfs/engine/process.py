"""The identity of this process, and whether another one of this machine has ended."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from nczfs.plaindata import frozen

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_NAMESPACES = ("pid", "time")  # a process id counts in the one, a start time in the other


@frozen
class ProcessIdentity:
    """The identity of a process, which no other process ever has.

    Attributes
    ----------
    machine : equal for processes that see each other's ids: boot identifier and namespaces.
    started : clock ticks from the boot of the machine to the start of the process, because the
        kernel may reuse its id.
    """

    machine: str
    pid: int
    started: int

    def has_ended(self) -> bool:
        """Return whether the process is certainly gone; False if that cannot be known from here."""
        ours = current_process()
        if ours is None or ours.machine != self.machine or ours == self:
            return False
        # Where /proc hides the processes of others, kill(2) still knows them.
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        found = _state(self.pid)
        if found is None:
            return False
        state, started = found
        return started != self.started or (state in "ZX" and not _has_threads(self.pid))


def current_process() -> ProcessIdentity | None:
    """Return this process; None if the system does not give what is needed (proc(5))."""
    return _identity(os.getpid(), _PROC)


def this_process() -> ProcessIdentity:
    """Return this process, as it signs its claims; others may have the same identity."""
    return current_process() or ProcessIdentity("", os.getpid(), 0)


@lru_cache(maxsize=1)
def _identity(pid: int, proc: Path) -> ProcessIdentity | None:
    try:
        if (proc / "self").readlink().name != str(pid):  # /proc belongs to another namespace
            return None
        boot = _BOOT.read_text().strip()
        spaces = [str((proc / "self/ns" / name).stat().st_ino) for name in _NAMESPACES]
    except OSError:
        return None
    found = _state(pid)
    return None if found is None else ProcessIdentity(".".join([boot, *spaces]), pid, found[1])


def _state(pid: int) -> tuple[str, int] | None:
    """Return the state and start time of a process; None if they cannot be read."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
        # The name of the program may contain blanks and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _has_threads(pid: int) -> bool:
    """Return whether a process has other threads that outlive its first one."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return True
