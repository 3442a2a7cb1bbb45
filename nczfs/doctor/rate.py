"""How fast a store answers."""

from __future__ import annotations

import time
from statistics import median

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong_by
from nczfs.doctor.permissions import Sample
from nczfs.errors import StoreError
from nczfs.messages import size_text
from nczfs.zmap.base import ZMap

REQUESTS = 5
LATENCY_S = 0.25  # ten such requests after one another are felt at each opening
READ_BYTES = 8 << 20
READ_BYTES_MIN = 256 << 10  # less says more about latency
RATE_MIN = 1 << 20  # bytes a second of one connection


def latency(zmap: ZMap, sample: Sample) -> CheckResult:
    """Measure requests of one byte, one after the other."""
    times = []
    try:
        for _ in range(REQUESTS):
            begun = time.perf_counter()
            zmap.read(sample.key, 0, 1)
            times.append(time.perf_counter() - begun)
    except StoreError as error:
        return wrong_by(error)
    typical_s = median(times)
    text = f"{1000 * typical_s:.3g} ms for a request"
    if typical_s > LATENCY_S:
        return doubtful(
            f"{text}: opening a dataset takes seconds",
            "consolidate metadata, use large chunks, or come nearer to the store",
        )
    return well(text)


def throughput(zmap: ZMap, sample: Sample) -> CheckResult:
    """Measure reading of one object, over one connection."""
    wanted = min(sample.size, READ_BYTES)
    if wanted < READ_BYTES_MIN:
        return well(f"not measured: no object seen has {size_text(READ_BYTES_MIN)}")
    begun = time.perf_counter()
    try:
        size = len(zmap.read(sample.key, 0, wanted).data)
    except StoreError as error:
        return wrong_by(error)
    rate = size / max(time.perf_counter() - begun, 1e-9)
    text = f"{size_text(int(rate))}/s over one connection"
    if rate < RATE_MIN:
        return doubtful(text, "see what is on the way: a proxy, a limit, a long line")
    return well(text)
