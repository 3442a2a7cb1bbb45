"""``nczfs exec``: mounts a store for one command, in a namespace that nobody else sees.

Three processes stand in the namespace: this one, the daemon of the mount, and the command with what
it starts. The command is in this process's group, so that the terminal treats both alike. If this
process or the daemon is killed, the other one kills what is left, and the mount ends with the last
of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from nczfs.cli import mount, umount
from nczfs.cli.command import Command, CommandLine
from nczfs.cli.options import Scope
from nczfs.cli.store import place
from nczfs.cli.terminal import complain
from nczfs.errors import UsageError
from nczfs.fuse import namespace
from nczfs.fuse.mounting import MountError
from nczfs.vfs.ending import EndNote

DEFAULT_PLACE = "/mnt"
VARIABLE = "NCZFS_AT"
"""The environment variable with which the command finds the mount."""

# As of env(1), timeout(1) and others that run a command.
FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127

_MARGIN_S = 15.0
_SI_KERNEL = 0x80  # sigaction(2): the terminal's signals, which the command gets by itself
_PASSED_ON = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGWINCH,
    }
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="of the store: a path, s3://bucket/prefix, https://..."
    )
    parser.add_argument(
        "--at",
        type=os.path.abspath,
        metavar="PATH",
        help=f"an existing directory where the command finds the store (default {DEFAULT_PLACE} if"
        f" that is empty, otherwise a temporary one); the command has it as {VARIABLE}",
    )
    parser.add_argument(
        "command",
        nargs=argparse.PARSER,
        metavar="-- COMMAND",
        help="what to run, with its arguments",
    )


def run(request: CommandLine) -> int:
    """Run a command beside its mount. Returns the command's exit status."""
    settings = request.settings
    words = request.arguments.command
    words = words[1:] if words[0] == "--" else words
    if not words or not words[0]:
        raise UsageError("no COMMAND to run; it follows `--`")
    url = place(request.arguments.url, settings)
    mount.check(settings)
    this = os.pidfd_open(os.getpid())
    namespace.enter()
    with _place(request.arguments.at) as chosen:
        try:
            mountpoint = mount.prepare(chosen, settings)
        except UsageError as error:
            raise UsageError(f"{error} (--at PATH names it)") from error
        os.environ[VARIABLE] = mountpoint
        status = _run_on(mountpoint, url, words, this, request)
    if status < 0:
        _end_by(-status)
    return status


@contextmanager
def _place(wanted: str | None) -> Iterator[str]:
    """Yield the directory to mount on; one that is made for that is removed at the end."""
    if wanted is not None:
        yield wanted
    elif _is_free(DEFAULT_PLACE):
        yield DEFAULT_PLACE
    else:
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        try:
            made = tempfile.mkdtemp(
                prefix="nczfs-exec-", dir=runtime if os.access(runtime, os.W_OK) else None
            )
        except OSError as error:
            raise UsageError(
                f"{DEFAULT_PLACE} is not empty, and no temporary directory can be made"
                f" ({error.strerror}); --at PATH names a directory"
            ) from error
        try:
            yield made
        finally:
            with suppress(OSError):  # something else is in it by now
                os.rmdir(made)


def _is_free(directory: str) -> bool:
    try:
        return not os.path.ismount(directory) and not os.listdir(directory)
    except OSError:
        return False


def _run_on(mountpoint: str, url: str, words: list[str], this: int, request: CommandLine) -> int:
    """Mount, run the command, and end the mount. Returns as `_Mounted.run`."""
    settings = request.settings
    note = EndNote()
    daemon = mount.start(url, mountpoint, request, note, lambda: _end_after(this))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON | {signal.SIGCHLD})
    timeout_s = settings.seconds("flush-timeout")
    return _Mounted(mountpoint, daemon, timeout_s, note).run(words, mask)


def _end_after(process: int) -> None:
    """In the daemon: when the process that waits for the command was killed, end everything."""

    def wait() -> None:
        select.select([process], [], [])
        namespace.kill_others()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="nczfs-exec", daemon=True).start()


class _Mounted:
    """A mount with its daemon. All methods are for the main thread, with the signals blocked.

    Parameters
    ----------
    note : says how the mount has ended.
    """

    def __init__(self, mountpoint: str, daemon: int, flush_timeout_s: float, note: EndNote) -> None:
        self._note = note
        self._mountpoint = mountpoint
        self._daemon = daemon
        self._ended = os.pidfd_open(daemon)
        # Storing and closing have that time each.
        self._timeout_s = 2 * flush_timeout_s + _MARGIN_S

    def run(self, words: list[str], mask: Iterable[int]) -> int:
        """Run a command, and end the mount after it.

        Returns
        -------
        int : its exit status; negative: the signal that ended it.
        """
        try:
            # Python ignores SIGPIPE and SIGXFSZ; the command gets their default actions.
            defaults = (signal.SIGPIPE, signal.SIGXFSZ)
            command = os.posix_spawnp(
                words[0], words, os.environ, setsigmask=mask, setsigdef=defaults
            )
        except OSError as error:
            complain("nczfs", f"{words[0]}: {error.strerror}")
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        else:
            threading.Thread(target=self._watch, name="nczfs-exec", daemon=True).start()
            status = _status_of(command)
        is_stored = self._end()
        return FAILED if status in (0, -signal.SIGKILL) and not is_stored else status

    def _watch(self) -> None:
        """Without its mount the command could only fail, in whatever way."""
        select.select([self._ended], [], [])
        namespace.kill_others()

    def _end(self) -> bool:
        """End the mount. Returns whether everything is stored, and says so if not."""
        try:
            status = json.loads(Path(self._mountpoint, ".nczfs/status.json").read_bytes())
        except (OSError, ValueError):
            complain(
                "nczfs",
                f"{self._mountpoint}: the daemon (process {self._daemon}) has ended before the"
                " command; `nczfs recover` puts back what it could not store",
            )
            return False
        with suppress(ProcessLookupError):
            os.kill(self._daemon, signal.SIGTERM)
        daemon = umount.Daemon(self._daemon, self._ended, status, self._note)
        try:
            left = umount.left_text(daemon.wait(self._mountpoint, self._timeout_s))
        except MountError as error:
            complain("nczfs", error)
            return False
        if left:
            complain("nczfs", f"{self._mountpoint}: {left}")
        return not left


def _status_of(command: int) -> int:
    """Wait for a command, and pass on to it the signals that this process gets."""
    while True:
        caught = signal.sigwaitinfo(_PASSED_ON | {signal.SIGCHLD})
        if caught.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(command, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        # What the terminal, or the command itself, sends to the group has reached the command.
        elif caught.si_code != _SI_KERNEL and not namespace.holds(caught.si_pid):
            os.kill(command, caught.si_signo)


def _end_by(signum: int) -> NoReturn:
    """End as the command did: a shell stops its script only if Ctrl-C has ended its child."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left one, if anything
    if signum not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signum])
    os.kill(os.getpid(), signum)
    raise AssertionError(f"signal {signum} has not ended this process")


COMMAND = Command(
    "exec",
    "run a command with a store mounted for it alone, without root",
    _arguments,
    run,
    (
        "nczfs exec s3://bucket/era5 -- ncdump -h /mnt/datasets/era5.zarr/era5.nc",
        "nczfs exec data.zip --at ~/data --read-only -- make -j4",
    ),
    frozenset(Scope),
    owns_signals=True,
    trouble_status=FAILED,
)
