"""A neighbour of something hostile in the same mount: how long must it wait?

Waiting is told in processor time of the daemon, and not by a clock: what the machine does besides
counts for nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.looking import pread_direct
from tests.support.mounts import Served

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Neighbour:
    """A program that reads all the time.

    Attributes
    ----------
    reads : how many came to an end.
    waited_cpu_s : the most that the daemon computed during one of them.
    error : what ended one of them.
    """

    reads: int = 0
    waited_cpu_s: float = 0.0
    error: OSError | None = None


@contextmanager
def neighbour(mount: Served, path: Path) -> Iterator[Neighbour]:
    """Read the beginning of a file, and what the daemon says of itself, until the context ends."""
    found = Neighbour()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            before = cpu_s(mount.process.pid)
            try:
                pread_direct(path, 8, 0)
                (mount.path / ".nczfs/status.json").read_bytes()
            except OSError as error:
                found.error = error
                return
            found.reads += 1
            found.waited_cpu_s = max(found.waited_cpu_s, cpu_s(mount.process.pid) - before)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
