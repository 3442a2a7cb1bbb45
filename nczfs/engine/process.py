"""Which process this is, and whether another one of this machine has ended."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_NAMESPACES = ("pid", "time")  # a process number counts in the one, a start time in the other


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, so that no other one is ever taken for it.

    Attributes
    ----------
    machine : equal for processes that see each other's numbers: boot identifier and namespaces.
    started : clock ticks from the boot of the machine to the start of the process; the kernel may
        use its number again.
    """

    machine: str
    pid: int
    started: int

    def has_ended(self) -> bool:
        """Whether the process is certainly gone. False where that cannot be known from here."""
        ours = current_process()
        if ours is None or ours.machine != self.machine:
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
    """This process; None where the system does not say what is needed (proc(5))."""
    pid = os.getpid()
    try:
        if (_PROC / "self").readlink().name != str(pid):  # /proc counts in another namespace
            return None
        boot = _BOOT.read_text().strip()
        spaces = [str((_PROC / "self/ns" / name).stat().st_ino) for name in _NAMESPACES]
    except OSError:
        return None
    found = _state(pid)
    return None if found is None else ProcessIdentity(".".join([boot, *spaces]), pid, found[1])


def _state(pid: int) -> tuple[str, int] | None:
    """The state of a process and when it started; None where that cannot be read."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
        # The name of the program may hold blanks and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _has_threads(pid: int) -> bool:
    """Whether other threads of a process go on after its first one has ended."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return True
