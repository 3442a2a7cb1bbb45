"""A mount namespace of this process's own: what is mounted in it, nobody else sees.

With CAP_SYS_ADMIN a process makes one directly. An ordinary user makes a user namespace first, in
which the user keeps the same ids and may mount, with mount(2) and without fusermount3. unshare(1)
does the same, but it cannot say why the kernel refused, and costs a second start of Python.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from nczfs.fuse import systemcalls
from nczfs.fuse.mounting import CAP_SYS_ADMIN, MountError, may_mount

_PROC = Path("/proc")
_ROUNDS = 500
_ROUND_S = 0.02


def enter() -> None:
    """Move this process, which must have no threads, into a mount namespace of its own.

    Raises
    ------
    MountError : the kernel does not permit it; the message names the remedy.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        if may_mount():
            systemcalls.unshare(systemcalls.NEW_MOUNTS)
        else:
            systemcalls.unshare(systemcalls.NEW_USERS | systemcalls.NEW_MOUNTS)
            # user_namespaces(7): without privileges, setgroups must be given up before gid_map.
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{uid} {uid} 1"),
                ("gid_map", f"{gid} {gid} 1"),
            ):
                Path("/proc/self", name).write_text(text)
            systemcalls.keep_capability(CAP_SYS_ADMIN)
        systemcalls.receive_mounts()
    except OSError as error:
        raise MountError(
            f"this kernel does not let you make a namespace to mount in"
            f" ({os.strerror(error.errno or 0)}): {_remedy()}"
        ) from error


_SWITCHES = {  # below /proc/sys: the value that forbids user namespaces, and the one that permits
    "kernel/unprivileged_userns_clone": ("0", "1"),  # Debian's kernels
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),  # Ubuntu's, from 23.10 on
    "user/max_user_namespaces": ("0", "10000"),
}


def _remedy() -> str:
    for name, (forbids, permits) in _SWITCHES.items():
        with suppress(OSError):
            if (_PROC / "sys" / name).read_text().strip() == forbids:
                return f"as root, `sysctl -w {name.replace('/', '.')}={permits}`; or {_OTHERWISE}"
    return f"a container needs a seccomp profile that allows unshare; or {_OTHERWISE}"


_OTHERWISE = "use `nczfs mount`, which needs fusermount3"


def kill_others() -> None:
    """Kill all processes in this one's mount namespace, except itself and its children."""
    for _ in range(_ROUNDS):
        found = _others()
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(_ROUND_S)


def holds(pid: int) -> bool:
    """Return whether a process is in this one's mount namespace."""
    # A process may end meanwhile; one that has ended is in no namespace any more.
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    return False


def _others() -> list[int]:
    this = os.getpid()
    pids = (int(name) for name in os.listdir(_PROC) if name.isdecimal())
    return [pid for pid in pids if this not in (pid, _parent(pid)) and holds(pid)]


def _parent(pid: int) -> int:
    try:
        status = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0
    # proc(5): the name before may contain blanks and parentheses.
    return int(status.rpartition(b")")[2].split()[1])
