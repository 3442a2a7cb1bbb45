"""Shells at a terminal, in which somebody types and presses Tab."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import is_readable

DEADLINE_S = 60.0


class Shell:
    """A shell at a terminal; what it shows is kept."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._shown = ""

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def wait_for(self, text: str) -> str:
        """What is shown up to a text that appears. Raises AssertionError when it does not."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self._shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not appear in {self._shown!r}"
            if is_readable(self._terminal, left):
                self._shown += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
        before, _, self._shown = self._shown.partition(text)
        return before


@contextmanager
def shell(command: Sequence[str], directory: Path) -> Iterator[Shell]:
    """A shell with a terminal, in a directory."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=directory,
        start_new_session=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
        },
    )
    os.close(theirs)
    try:
        yield Shell(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
