"""Daemons and commands of nczfs, forked from a process that has imported everything.

An interpreter that imports what a command of nczfs needs takes a second of processor time, which
was most of what a short test with a mount took. What is forked runs the same command line as a new
process, with standard files, a directory and an environment of its own.

    python -m tests.support.forked nczfs

forks as it is asked on its standard input, a socket, until that is closed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from nczfs.cli.main import main
from tests.support.waiting import is_readable

REPOSITORY = Path(__file__).parents[2]
_MESSAGE_BYTES = 1 << 18
_NUMBER = struct.Struct("i")  # a process id, and later an exit code


class Process(Protocol):
    """What tests use of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class Forked:
    """A command of nczfs in a process that another one has forked and waits for."""

    def __init__(
        self,
        words: Sequence[str],
        stdout: IO[Any],
        stderr: IO[Any],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._words = words
        self._end, theirs = socket.socketpair()
        request = {"words": [*words], "directory": os.getcwd(), "environment": {**environment}}
        with theirs:
            files = [theirs.fileno(), stdout.fileno(), stderr.fileno()]
            socket.send_fds(_forker(), [json.dumps(request).encode()], files)
        (self.pid,) = _NUMBER.unpack(self._end.recv(_NUMBER.size))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; negative: the signal that ended it; None while it runs."""
        if self.returncode is None and is_readable(self._end):
            (self.returncode,) = _NUMBER.unpack(self._end.recv(_NUMBER.size))
            self._end.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code."""
        if self.returncode is None and not is_readable(self._end, timeout):
            raise subprocess.TimeoutExpired([*self._words], timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and its code is on the way
                os.kill(self.pid, sig)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


_lock = threading.Lock()
_forkers: dict[int, socket.socket] = {}


def _forker() -> socket.socket:
    """The socket of the process that forks for this one."""
    with _lock:
        if os.getpid() not in _forkers:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-X", "faulthandler", "-m", "tests.support.forked", "nczfs"],
                    cwd=REPOSITORY,
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # threads are not forked
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                )
            atexit.register(process.wait)
            atexit.register(ours.close)  # before the process is waited for
            _forkers[os.getpid()] = ours
        return _forkers[os.getpid()]


def _fork_as_asked(requests: socket.socket) -> list[str]:
    """Fork for each request. Returns in the children, with the words of their commands."""
    ended, ending = socket.socketpair()
    ended.setblocking(False)
    ending.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ending.fileno())
    running: dict[int, socket.socket] = {}
    while True:
        ready = select.select([requests, ended], [], [])[0]
        if ended in ready:
            ended.recv(1 << 16)
            _report(running)
        if requests not in ready:
            continue
        data, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 3)
        if not data:
            sys.exit()
        pid = os.fork()
        if pid:
            for descriptor in files[1:]:
                os.close(descriptor)
            running[pid] = socket.socket(fileno=files[0])
            running[pid].send(_NUMBER.pack(pid))
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (requests, ended, ending, *running.values()):
            each.close()
        return _take_over(json.loads(data), *files)


def _report(running: dict[int, socket.socket]) -> None:
    """Say which processes have ended, and how."""
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with running.pop(pid) as end:
                end.send(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _take_over(request: dict[str, Any], end: int, stdout: int, stderr: int) -> list[str]:
    """Be what a new process is at its start."""
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((null, stdout, stderr)):
        os.dup2(source, target)
    for descriptor in (null, end, stdout, stderr):
        os.close(descriptor)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.argv = ["nczfs", *request["words"]]
    return sys.argv[1:]


def _import_everything() -> None:
    """Import every module that commands of nczfs use, also those that they import late.

    But for pictures: a plotting library would be in the memory of every mount that tests measure.
    """
    package = REPOSITORY / "nczfs"
    for path in package.rglob("*.py"):
        name = path.relative_to(package).with_suffix("").parts
        is_of_commands = name[0] not in ("testing", "pictures") and name[:2] != (
            "library",
            "xarray",
        )
        if is_of_commands and name[-1] not in ("__init__", "__main__"):
            with suppress(ModuleNotFoundError):  # of a package that a command would ask for
                importlib.import_module(".".join(("nczfs", *name)))


if __name__ == "__main__":
    _import_everything()
    gc.collect()
    gc.freeze()
    sys.exit(main(_fork_as_asked(socket.socket(fileno=os.dup(0)))))
