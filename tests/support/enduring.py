"""A mount that is shown something hostile: what it takes of memory, and how it serves others."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.looking import peak_bytes
from tests.support.mounts import Served
from tests.support.neighbour import neighbour

MEMORY_BYTES = 400 << 20  # 100 MB without any data, 64 MiB of budget, one chunk that is refused
CPU_S = 4.0  # a tenth of it, measured; what hangs takes minutes
ADDRESSES_BYTES = 4 << 30  # what goes wrong fails here, and not on the machine


@contextmanager
def enduring(mount: Served, good: Path) -> Iterator[None]:
    """Within it, the daemon stays below `MEMORY_BYTES`, and a neighbour reads the file `good`."""
    resource.prlimit(mount.process.pid, resource.RLIMIT_AS, (ADDRESSES_BYTES, ADDRESSES_BYTES))
    with neighbour(mount, good) as beside:
        yield
    assert beside.error is None
    assert beside.reads
    assert beside.waited_cpu_s < CPU_S
    assert peak_bytes(mount.process.pid) < MEMORY_BYTES
