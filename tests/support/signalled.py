"""Commands in processes of their own that get signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.support.waiting import until

TIMEOUT_S = 60.0


@dataclass
class Running:
    """A command under way."""

    process: subprocess.Popen[str]
    output: IO[str] = field(repr=False)
    errors: IO[str] = field(repr=False)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds; it fails the test when the command ends before."""

        def holds() -> bool:
            assert self.process.poll() is None, self.stderr
            return condition()

        until(holds)

    def send(self, signum: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(signum)

    def status(self) -> int:
        """The exit status, which has to come within a minute."""
        return self.process.wait(TIMEOUT_S)

    @property
    def stdout(self) -> str:
        return _all_of(self.output)

    @property
    def stderr(self) -> str:
        return _all_of(self.errors)


@contextmanager
def running(
    *words: str | Path, script: str | None = None, stdout: int | None = None
) -> Iterator[Running]:
    """``nczfs WORDS`` under way, and ready for signals.

    Parameters
    ----------
    script : Python that runs the command itself, with the words as its arguments.
    stdout : a descriptor; None: a file.
    """
    start: Sequence[str] = ["-m", "nczfs.cli.main"] if script is None else ["-c", script]
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, *start, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=output if stdout is None else stdout,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        )
        command = Running(process, output, errors)
        try:
            # Before that the interpreter starts, and a signal ends it as any other program.
            command.wait_for(lambda: _handles(process.pid, signal.SIGTERM))
            yield command
        finally:
            process.kill()
            process.wait()


def _handles(pid: int, signum: signal.Signals) -> bool:
    """Whether a process has a handler for a signal (proc(5), SigCgt)."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signum - 1) & 1)


def _all_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
