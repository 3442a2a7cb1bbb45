"""A mount that is shown something hostile: what it takes of memory, and how it serves others."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.looking import forget_peak, peak_bytes
from tests.support.mounts import Served
from tests.support.neighbour import cpu_s, neighbour

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


@dataclass(slots=True)
class Cost:
    """What something took of a daemon that did nothing else.

    Attributes
    ----------
    cpu_s : processor time, in ticks of a hundredth.
    memory_bytes : by how much the memory in use grew at most.
    """

    cpu_s: float = 0.0
    memory_bytes: int = 0


@contextmanager
def costing(mount: Served) -> Iterator[Cost]:
    """Measure what is done within it; the result is there after it."""
    pid = mount.process.pid
    forget_peak(pid)
    used, computed = peak_bytes(pid), cpu_s(pid)
    found = Cost()
    yield found
    found.cpu_s = cpu_s(pid) - computed
    found.memory_bytes = peak_bytes(pid) - used
