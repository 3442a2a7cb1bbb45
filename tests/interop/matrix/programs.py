"""Running a command-line program, and telling how it ended."""

from __future__ import annotations

import signal
import subprocess

from tests.interop.matrix.model import Refused

TIMEOUT_S = 60


def run(*command: str) -> str:
    """What a program printed. Raises Refused with its own words, or the signal that ended it.

    Some programs complain and still end with 0, so that what they say decides.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"{command[0]}: no end after {TIMEOUT_S} s") from None
    if done.returncode < 0:
        raise Refused(f"{command[0]}: {signal.Signals(-done.returncode).name} {done.stderr}")
    if done.returncode or "ERROR" in done.stderr:
        raise Refused(f"{command[0]}: {done.stderr.strip() or f'ended with {done.returncode}'}")
    return done.stdout
