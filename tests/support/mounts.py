"""Real mounts for tests: a daemon in a process of its own, always unmounted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nczfs.fuse import mounting
from tests.conftest import LATE
from tests.support.forked import Forked, Process

# What is forked from a process that has imported it; other commands are started as they are.
NCZFS = [sys.executable, "-X", "faulthandler", "-m", "nczfs.cli.main"]
COMMAND_TIMEOUT_S = 120.0
START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 120.0
UNMOUNTED_TIMEOUT_S = 30.0

TROUBLE = re.compile(r" (WARNING|ERROR|CRITICAL) |Traceback")


@dataclass(frozen=True, slots=True)
class Served:
    """A running mount."""

    path: Path
    process: Process
    log: Path


def nczfs(*arguments: str | Path, **options: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end; `options` are added to the environment."""
    words, environment = [str(word) for word in arguments], os.environ | options
    if words[:1] == ["mount"]:  # its daemon must leave the pipes alone
        return subprocess.run(
            [*NCZFS, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
            env=environment,
        )
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = Forked(words, stdout, stderr, environment)
        try:
            status = process.wait(COMMAND_TIMEOUT_S)
        finally:
            process.kill()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, status, stdout.read(), stderr.read())


@contextmanager
def mounted(url: str | Path, *options: str, expect: str | None = None) -> Iterator[Path]:
    """A store mounted by ``nczfs mount --foreground``.

    Parameters
    ----------
    options : further words of the command line.
    expect : a pattern of warnings that the log may hold; any other fails the test.
    """
    with served([*NCZFS, "mount", "--foreground", *options, str(url)], expect=expect) as mount:
        yield mount.path


@contextmanager
def served(
    command: Sequence[str],
    *,
    expect: str | None = None,
    mountpoint: Path | None = None,
    exit_codes: Sequence[int] | None = (),
) -> Iterator[Served]:
    """What a command mounts on the path that is added to it as its last word.

    Parameters
    ----------
    exit_codes : those that its process may end with; None: any, and it may end at any time. The
        default is 0, and 1 where warnings are expected: something may be left.
    """
    with tempfile.TemporaryDirectory(prefix="nczfs-test-") as directory:
        path = mountpoint or Path(directory, "mnt")
        with suppress(FileExistsError):
            os.mkdir(path)
        log = Path(directory, "log")
        with log.open("wb") as output:
            process = _started([*command, str(path)], output)
        try:
            _wait_until_it_answers(path, process, log)
            yield Served(path, process, log)
        except BaseException as error:
            error.add_note(f"log of the mount:\n{_read(log)}")
            raise
        finally:
            _end(path, process)
        if exit_codes is not None:
            wanted = exit_codes or ((0,) if expect is None else (0, 1))
            assert process.returncode in wanted, _read(log)
            stray = [
                line
                for line in _read(log).splitlines()
                if TROUBLE.search(line)
                and not LATE.search(line)
                and (expect is None or not re.search(expect, line))
            ]
            assert not stray, "unexpected in the log of the mount:\n" + "\n".join(stray)


def _started(command: Sequence[str], output: BinaryIO) -> Process:
    if [*command[: len(NCZFS)]] == NCZFS:
        return Forked(command[len(NCZFS) :], output, output)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def wait_until_ended(process: Process) -> int:
    """The exit code of a daemon that was told to end."""
    return process.wait(END_TIMEOUT_S)


def _wait_until_it_answers(path: Path, process: Process, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the mount ended with exit code {process.returncode}")
        entry = mounting.find_mount(str(path))
        if entry is not None and entry.kind == mounting.FILE_SYSTEM_TYPE:
            # A dead mount may still be in the way, and for a moment nothing is.
            with suppress(OSError), _directory(path) as directory:
                os.listdir(directory)
                if os.fstat(directory).st_dev != path.parent.stat().st_dev:
                    return
        time.sleep(0.02)
    raise AssertionError(f"not mounted within {START_TIMEOUT_S} s")


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end(path: Path, process: Process) -> None:
    if process.poll() is None and mounting.find_mount(str(path)) is None:
        with suppress(subprocess.TimeoutExpired):  # a signal could meet it as Python ends
            process.wait(UNMOUNTED_TIMEOUT_S)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
    if process.poll() is None:
        process.send_signal(signal.SIGUSR1)  # all stacks into the log
        time.sleep(0.2)
        process.kill()
        process.wait(END_TIMEOUT_S)
    while mounting.find_mount(str(path)) is not None:
        mounting.unmount(str(path), lazy=True)


def _read(log: Path) -> str:
    return log.read_text("utf-8", "replace")
