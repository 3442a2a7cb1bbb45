"""The memory that this process may use, and the share of it that caches take."""

from __future__ import annotations

import os
from pathlib import Path


def default_memory_limit() -> int:
    """Return a quarter of the memory that this process may use, at most 2 GiB."""
    return max(64 << 20, min(usable_memory() // 4, 2 << 30))


def usable_memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its group's."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _cgroup_file(name)
        if text.isdecimal():
            limits.append(int(text))
    return min(limits)


def _cgroup_file(name: str) -> str:
    try:
        return Path("/sys/fs/cgroup", name).read_text().strip()
    except OSError:
        return ""
