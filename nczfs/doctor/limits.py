"""Limits of this process: descriptors and memory."""

from __future__ import annotations

import resource

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong
from nczfs.messages import size_text

DESCRIPTORS_OF_CONNECTION = 4  # a store takes at most a quarter of the descriptors
MEMORY_SHARE_MAX = 0.5  # of what this process may use; the rest is for requests under way


def descriptors(connections: int) -> CheckResult:
    """Check that a store gets as many connections as it is meant to have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_OF_CONNECTION * connections
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return well(f"a process may have {soft if soft >= 0 else 'any number of'} descriptors")
    may_raise = hard == resource.RLIM_INFINITY or hard >= wanted
    return doubtful(
        f"a process may have only {soft} descriptors, so at most"
        f" {max(1, soft // DESCRIPTORS_OF_CONNECTION)} requests are under way at a time",
        f"`ulimit -n {wanted}`" if may_raise else f"as root, raise the hard limit to {wanted}",
    )


def memory(limit_bytes: int, usable_bytes: int) -> CheckResult:
    """Check that --memory-limit leaves memory for everything else."""
    text = f"caches take at most {size_text(limit_bytes)} of {size_text(usable_bytes)}"
    remedy = f"--memory-limit {size_text(usable_bytes // 4)}"
    if limit_bytes >= usable_bytes:
        return wrong(f"{text}, which is all that this process may use", remedy)
    if limit_bytes > MEMORY_SHARE_MAX * usable_bytes:
        return doubtful(f"{text}, which leaves little for requests under way", remedy)
    return well(text)
