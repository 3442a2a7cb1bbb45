"""Going into the background: the caller returns when the mount answers, or with its error.

The process forks twice before any thread exists; the daemon reports its success or error over a
pipe. Everything that may fail (opening the store, mounting) happens in the daemon, and so do all
threads.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from nczfs.errors import NczfsError, UsageError
from nczfs.fuse import mounting
from nczfs.fuse.guard import is_alive
from nczfs.fuse.mounting import MountError
from nczfs.plaindata import frozen

log = logging.getLogger(__name__)


@frozen
class BackgroundOptions:
    """Options of waiting for a daemon.

    Attributes
    ----------
    mountpoint : the absolute path where it will mount.
    timeout_s : the time within which the mount must answer.
    log_descriptor : the open file that becomes its standard output and error.
    log_name : the name of that file in messages.
    probe : a file of the mount that must be readable, relative to its root.
    """

    mountpoint: str
    timeout_s: float
    log_descriptor: int
    log_name: str
    probe: str | None = ".nczfs/status.json"


def run_in_background(
    work: Callable[[Callable[[], None]], None], options: BackgroundOptions
) -> int:
    """Run `work` in a daemon and wait until its mount answers.

    Parameters
    ----------
    work : mounts and serves; it calls its argument when the mount answers.

    Returns
    -------
    int : the daemon's process id.

    Raises
    ------
    UsageError, MountError : the error that the daemon reported, or that it took too long.
    """
    device = None
    if not mounting.is_descriptor(options.mountpoint):
        device = os.stat(options.mountpoint).st_dev
    reader, writer = os.pipe()
    pid_reader, pid_writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        daemon = os.fork()
        if daemon != 0:
            os.write(pid_writer, b"%d" % daemon)
            os._exit(0)
        os.close(pid_reader)
        os.close(pid_writer)
        _daemon(work, writer, options)
    os.close(writer)
    os.close(pid_writer)
    os.waitpid(child, 0)
    pid = int(os.read(pid_reader, 32))
    os.close(pid_reader)
    return _Waiter(reader, options, pid).wait(device)


def _daemon(
    work: Callable[[Callable[[], None]], None], writer: int, options: BackgroundOptions
) -> NoReturn:
    waiting = True

    def tell(**message: object) -> None:
        if waiting:
            with suppress(BrokenPipeError):  # the caller was interrupted
                os.write(writer, json.dumps(message).encode() + b"\n")

    def ready() -> None:
        nonlocal waiting
        # Not earlier: a process that walks to a mount point of systemd's automounter, to mount
        # there or to look, waits for the mount, unless it is in the group that systemd started.
        os.setsid()
        tell(ready=True)
        waiting = False
        # Until here libfuse could write its reasons to the caller's terminal.
        os.dup2(options.log_descriptor, 1)
        os.dup2(options.log_descriptor, 2)
        os.close(writer)

    code = 1
    try:
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        # Until `ready` an interrupt from the terminal arrives here, too; then the caller ends this
        # process.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work(ready)
        code = 0
    except UsageError as error:
        tell(usage=str(error))
    except NczfsError as error:
        tell(error=str(error) or type(error).__name__)
        if not waiting:
            log.error("%s", error)  # noqa: TRY400 (where it was raised, it was logged in full)
    except BaseException as error:
        log.critical("the daemon failed", exc_info=error)
        tell(error=f"internal error: {type(error).__name__}: {error}")
    finally:
        logging.shutdown()
        # Not sys.exit: it would run the caller's atexit handlers, and a thread that hangs in a
        # store would keep the process alive.
        os._exit(code)


class _Waiter:
    """The caller's end of the pipe."""

    def __init__(self, reader: int, options: BackgroundOptions, pid: int) -> None:
        self._reader = reader
        self._options = options
        self._deadline = time.monotonic() + options.timeout_s
        self._pending = b""
        self._pid = pid

    def wait(self, device_before: int | None) -> int:
        try:
            self._wait_until_ready()
            if device_before is not None:
                self._probe(device_before)
        except BaseException:
            self._stop_daemon()
            raise
        finally:
            os.close(self._reader)
        return self._pid

    def _wait_until_ready(self) -> None:
        message = self._receive()
        if "usage" in message:
            raise UsageError(str(message["usage"]))
        if "error" in message:
            raise MountError(str(message["error"]))

    def _receive(self) -> dict[str, object]:
        while b"\n" not in self._pending:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                raise self._too_slow("did not start")
            data = os.read(self._reader, 65536)
            if not data:
                raise MountError(
                    f"{self._options.mountpoint}: the daemon ended before it was ready;"
                    f" see {self._options.log_name}"
                )
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, object] = json.loads(line)
        return message

    def _probe(self, device_before: int) -> None:
        """Probe the mount in a thread, because a daemon that hangs would block this process."""
        outcome: list[OSError | None] = []

        def ask() -> None:
            # A thread that has been joined may still be ending, and would take a signal then for
            # which the caller waits.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                while os.stat(self._options.mountpoint).st_dev == device_before:
                    time.sleep(0.01)
                if self._options.probe is not None:
                    with open(os.path.join(self._options.mountpoint, self._options.probe)) as file:
                        file.read()
                outcome.append(None)
            except OSError as error:
                outcome.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(max(0.1, self._deadline - time.monotonic()))
        if not outcome:
            raise self._too_slow("does not answer")
        if outcome[0] is not None:
            raise MountError(
                f"{self._options.mountpoint}: mounted, but it does not answer: {outcome[0]};"
                f" see {self._options.log_name}"
            ) from outcome[0]

    def _too_slow(self, what: str) -> MountError:
        return MountError(
            f"{self._options.mountpoint}: the mount {what} within {self._options.timeout_s:g} s"
            f" (--mount-timeout); see {self._options.log_name}"
        )

    def _stop_daemon(self) -> None:
        """End a daemon that is not in use yet, so that no dead mount remains."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)
            for _ in range(100):
                if not is_alive(self._pid):
                    break
                time.sleep(0.02)
        entry = mounting.find_mount(self._options.mountpoint)
        if entry is not None and entry.kind == mounting.FILE_SYSTEM_TYPE:
            with suppress(MountError):
                mounting.unmount(self._options.mountpoint, lazy=True)
