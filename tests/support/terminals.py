"""What a program writes to a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def on_a_terminal(*arguments: str | Path, columns: int = 200) -> tuple[str, int]:
    """Run the command line with a terminal for stdout and stderr; its output and exit status."""
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "nczfs.cli.main", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"COLUMNS": str(columns), "TERM": "dumb"},
        )
        os.close(theirs)
        data = b"".join(_read(ours))
        return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"), process.wait(60)
    finally:
        os.close(ours)


def _read(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:  # EIO: nobody has the other end any more
            return
        if not data:
            return
        yield data
