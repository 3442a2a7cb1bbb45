"""Room on the disks that nczfs writes to."""

from __future__ import annotations

import os
from pathlib import Path

from nczfs.doctor.finding import CheckResult, doubtful, well, wrong, wrong_by
from nczfs.engine.chunks.spillfile import default_directory
from nczfs.engine.spool.space import check_spool_dir
from nczfs.errors import UsageError
from nczfs.fuse import mounting
from nczfs.messages import size_text

SPOOL_BYTES = 1 << 30  # less is soon full while a store does not answer
SPOOL_BYTES_MIN = 64 << 20
CACHE_BYTES = 1 << 30
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def spool(directory: Path) -> CheckResult:
    """Check the directory of unsaved writes."""
    try:
        check_spool_dir(directory)
    except UsageError as error:
        return wrong_by(error)
    existing = _existing(directory)
    free = _free_bytes(existing)
    text = f"{size_text(free)} free for unsaved writes in {directory}"
    remedy = "free some, or name another disk by --spool-dir"
    if free < SPOOL_BYTES_MIN:
        return wrong(f"only {text}", remedy)
    if _is_memory(existing):
        return doubtful(f"{text}, which is memory, and lost with the machine", remedy)
    if free < SPOOL_BYTES:
        return doubtful(f"only {text}", remedy)
    return well(text)


def cache(directory: str | None, bytes_max: int | None) -> CheckResult:
    """Check the directory of decoded chunks that memory cannot hold."""
    if bytes_max == 0:
        return well("no disk is used for decoded chunks (--max-cache-size 0)")
    path = Path(directory or default_directory())
    if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK)):
        return wrong(
            f"--cache-dir {path}: not a writable directory", "create it or name another one"
        )
    free = _free_bytes(path)
    text = f"{size_text(free)} free for decoded chunks in {path}"
    remedy = "free some, or name another disk by --cache-dir"
    if _is_memory(path):
        return doubtful(f"{text}, which is memory, too", "name a disk by --cache-dir")
    if bytes_max is not None and free < bytes_max:
        return doubtful(f"only {text}, less than --max-cache-size {size_text(bytes_max)}", remedy)
    if free < CACHE_BYTES:
        return doubtful(f"only {text}", remedy)
    return well(text)


def _existing(directory: Path) -> Path:
    return next(path for path in (directory, *directory.parents) if path.exists())


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _is_memory(path: Path) -> bool:
    device = os.stat(path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    return any(e.device == name and e.kind in IN_MEMORY for e in mounting.mount_table())
