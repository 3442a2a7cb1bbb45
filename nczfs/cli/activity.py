"""What a mount did between two looks at it: rates of its metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from nczfs.cli.mountstatus import STATUS_FILE, answer
from nczfs.fuse.programs import OpenedFile, opened_files
from nczfs.plaindata import frozen

READ_BYTES = 64 << 10  # no more than the kernel asks for at once

Counts = Mapping[tuple[str, str], float]
"""The values of counters by name and operation, summed over all other labels."""


@frozen
class OwnReads:
    """What looking at a mount reads of it."""

    requests: int = 0
    nbytes: int = 0


@frozen
class Look:
    """What was seen at one moment.

    Attributes
    ----------
    at : the time of a clock that never goes back, in seconds.
    status : the contents of status.json.
    own_before, own_after : the reads of this look that the mount made before and after it
        counted, which `counts` has and does not have.
    """

    at: float
    counts: Counts
    status: bytes
    files: tuple[OpenedFile, ...]
    own_before: OwnReads = OwnReads()
    own_after: OwnReads = OwnReads()


@frozen
class FileActivity:
    """An open file, and how fast its position moves forwards, in bytes a second."""

    file: OpenedFile
    rate: float


@frozen
class Activity:
    """Rates a second between two looks, besides what the mount says of itself.

    Attributes
    ----------
    hit_share : of the chunks that were asked for, the share found in memory; None: none was.
    """

    seconds: float
    read_bytes: float
    reads: float
    written_bytes: float
    writes: float
    store_read_bytes: float
    store_requests: Mapping[str, float]
    store_retries: float
    chunks_decoded: float
    decoded_bytes: float
    chunks_stored: float
    chunks_asked: float
    hit_share: float | None
    errors: float
    files: tuple[FileActivity, ...]

    def plain(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything as JSON has it."""
        rates = {each.name: getattr(self, each.name) for each in fields(self)}
        del rates["files"]
        files = [
            {
                "pid": each.file.pid,
                "program": each.file.program,
                "path": each.file.path,
                "position": each.file.position,
                "writes": each.file.writes,
                "bytes_per_second": each.rate,
            }
            for each in self.files
        ]
        return {**rates, "files": files, "status": status}


def look(path: str) -> Look:
    """Look at a mount. Raises StatusError."""
    status, before = answer(path, lambda: _read(Path(path, STATUS_FILE)))
    exposition, after = answer(path, lambda: _read(Path(path, ".nczfs/metrics")))
    counts = counted(exposition.decode())
    return Look(time.monotonic(), counts, status, tuple(opened_files(path)), before, after)


def _read(path: Path) -> tuple[bytes, OwnReads]:
    """Read a file that the kernel keeps nothing of, so that each call is one request."""
    found, requests = bytearray(), 0
    with path.open("rb", buffering=0) as file:
        while True:
            piece = file.read(READ_BYTES)
            requests += 1
            if not piece:
                return bytes(found), OwnReads(requests, len(found))
            found += piece


def counted(exposition: str) -> Counts:
    """Return the counters of an exposition."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name.endswith("_total"):
                key = sample.name.removesuffix("_total"), sample.labels.get("operation", "")
                found[key] = found.get(key, 0.0) + sample.value
    return found


def activity(before: Look, after: Look) -> Activity:
    """Return what happened between two looks at the same mount."""
    seconds = max(after.at - before.at, 1e-9)

    def rate(name: str, operation: str = "", own: int = 0) -> float:
        key = f"nczfs_{name}", operation
        return max(0.0, after.counts.get(key, 0.0) - before.counts.get(key, 0.0) - own) / seconds

    between = before.own_after, after.own_before
    own = OwnReads(sum(each.requests for each in between), sum(each.nbytes for each in between))
    operations = sorted({of for name, of in after.counts if name == "nczfs_store_requests"})
    hits, misses = rate("cache_hits"), rate("cache_misses")
    places = {(each.pid, each.descriptor, each.path): each.position for each in before.files}
    return Activity(
        seconds=seconds,
        read_bytes=rate("fuse_read_bytes", own=own.nbytes),
        reads=rate("fuse_requests", "read", own.requests),
        written_bytes=rate("fuse_written_bytes"),
        writes=rate("fuse_requests", "write"),
        store_read_bytes=rate("store_read_bytes"),
        store_requests={of: rate("store_requests", of) for of in operations},
        store_retries=rate("store_retries"),
        chunks_decoded=rate("chunks_decoded"),
        decoded_bytes=rate("chunk_decoded_bytes"),
        chunks_stored=rate("chunks_stored"),
        chunks_asked=hits + misses,
        hit_share=hits / (hits + misses) if hits + misses else None,
        errors=rate("fuse_errors"),
        files=tuple(
            FileActivity(
                file,
                max(0, file.position - places.get(_identity(file), file.position)) / seconds,
            )
            for file in after.files
        ),
    )


def _identity(file: OpenedFile) -> tuple[int, int, str]:
    return file.pid, file.descriptor, file.path
