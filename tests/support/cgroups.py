"""Processes that together may have so much memory, if this machine lets tests say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until

# Of version 2 and of version 1: the directory, and the file with the limit.
_PLACES = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))


@contextmanager
def memory_limited(size: int) -> Iterator[list[str]]:
    """The words that begin a command which is then limited, with all others begun so.

    Without a control group that can be made, there are none: look at the peaks then.
    """
    group = _made(size)
    if group is None:
        yield []
        return
    try:
        yield ["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', str(group)]
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def _made(size: int) -> Path | None:
    for place, limit in _PLACES:
        group = Path(place, f"nczfs-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        if not (group / limit).exists():  # a plain directory, or one without this controller
            group.rmdir()
            continue
        (group / limit).write_text(str(size))
        return group
    return None
