"""A guard that ends the connection of a killed daemon: ``python -m nczfs.fuse.guard``.

The thread that makes the kernel forget pages waits in the kernel for every read and write of these
pages that is in flight, in a sleep that not even SIGKILL ends. If the daemon is killed in that
moment, nothing answers those requests any more, and as long as the thread sleeps the kernel takes
the daemon for alive: all users of the mount would wait for ever. So a separate process, which the
kernel informs about the end of the daemon, aborts the connection, and the mount is dead as after
any other end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from nczfs.fuse import mounting

CONNECTIONS = Path("/sys/fs/fuse/connections")

_DEATH = signal.SIGUSR1
_LOOK_AGAIN_S = 60.0
_PR_SET_PDEATHSIG = 1
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # system calls, the same on all architectures
_CLOEXEC, _CMD_CREATE = 1, 6


class Guard:
    """The process that waits for the end of this one. All methods are for the main thread.

    The kernel informs it about the end of the thread that started it; once the main thread of a
    killed process has ended, its other threads do nothing more.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, mountpoint: str) -> None:
        """Guard the mount at a mount point, if this process may end its connection."""
        entry = mounting.find_mount(mountpoint)
        if entry is None:
            return
        # Opened here, while the mount is there: once it is gone, a later connection may get the
        # number, and a guard that is slow to start would end that one.
        try:
            lever = open_lever(entry.device.partition(":")[2])
        except OSError:
            return  # not root, and the file system of /sys/fs/fuse/connections is not mounted
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(lever), str(os.getpid())],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[lever],
            )
        finally:
            os.close(lever)

    def stop(self) -> None:
        """End the guard after unmounting."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def main(lever: int, daemon: int) -> None:
    """Wait for the end of a daemon, and abort its connection through an open descriptor."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {_DEATH})
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(_DEATH))
    # It may have ended before the kernel was asked for the signal.
    while is_alive(daemon) and signal.sigtimedwait({_DEATH}, _LOOK_AGAIN_S) is None:
        pass
    with suppress(OSError):
        os.write(lever, b"1")


def open_lever(connection: str) -> int:
    """Open a descriptor: any write to it aborts the connection, so that all requests fail."""
    with suppress(OSError):
        return os.open(CONNECTIONS / connection / "abort", os.O_WRONLY)
    # Not mounted here, as in most containers: root may mount it privately.
    libc = ctypes.CDLL(None, use_errno=True)
    with ExitStack() as opened:
        context = _done(libc.syscall(_FSOPEN, b"fusectl", _CLOEXEC))
        opened.callback(os.close, context)
        _done(libc.syscall(_FSCONFIG, context, _CMD_CREATE, None, None, 0))
        directory = _done(libc.syscall(_FSMOUNT, context, _CLOEXEC, 0))
        opened.callback(os.close, directory)
        return os.open(f"{connection}/abort", os.O_WRONLY, dir_fd=directory)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one with only a thread stuck in the kernel does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # In a container orphans may not be reaped, so a dead daemon can stay as a zombie.
    return status.rpartition(b")")[2].split()[0] != b"Z"


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
