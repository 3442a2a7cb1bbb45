"""Programs in Python that run beside a test, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_S = 120.0


def together(script: str, arguments: Sequence[Sequence[object]]) -> None:
    """Run a script once with each list of arguments, all at the same time; all must succeed."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, *map(str, words)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in arguments
    ]
    try:
        said = [process.communicate(timeout=TIMEOUT_S)[1] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    for process, errors in zip(running, said, strict=True):
        assert process.returncode == 0, errors
