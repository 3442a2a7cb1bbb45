"""The guards of real mounts: each ends the connection of its own daemon alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mounts import NCZFS, mounted, served
from tests.support.waiting import until

KILLED = """
import os, signal, sys
from nczfs.fuse.guard import Guard
sys.executable = sys.argv[2]
guard = Guard()
guard.start(sys.argv[1])
print(guard._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def guard_of_a_killed_process(mount: Path, executable: str) -> int:
    """Return the process that guards a mount for a process that was killed."""
    words = [sys.executable, "-c", KILLED, str(mount), executable]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    return int(done.stdout)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").exists()


def is_sent(fifo: Path, line: bytes) -> bool:
    """Write a line to a reader. Returns False while there is none."""
    try:
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(descriptor, line) == len(line)
    finally:
        os.close(descriptor)


def test_the_connection_of_a_killed_process_is_ended(tmp_path: Path) -> None:
    command = [*NCZFS, "mount", "--foreground", str(tmp_path)]
    with served(command, expect=".*", exit_codes=None) as mount:
        guard = guard_of_a_killed_process(mount.path, sys.executable)
        until(lambda: not is_there(guard))
        with pytest.raises(OSError, match="Transport endpoint is not connected"):
            os.listdir(mount.path)


def test_a_guard_that_starts_late_ends_no_other_mount(tmp_path: Path) -> None:
    """The kernel gives the number of a connection to the next one."""
    slow, go = tmp_path / "slow", tmp_path / "go"
    os.mkfifo(go)
    slow.write_text(f'#!/bin/sh\nread line < "{go}"\nexec "{sys.executable}" "$@"\n')
    slow.chmod(0o755)
    store = tmp_path / "store"
    store.mkdir()
    with mounted(store) as mount:
        guard = guard_of_a_killed_process(mount, str(slow))
    with mounted(store) as mount:  # has the number, unless another mount was made meanwhile
        until(lambda: is_sent(go, b"\n"))
        until(lambda: not is_there(guard))
        assert os.listdir(mount)
