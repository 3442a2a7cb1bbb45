"""Clusters of Dask with processes of their own, and pieces of copies that go wrong in a worker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nczfs.errors import Unavailable
from nczfs.tools.cluster.copying import CopyJob, copy_sent
from nczfs.tools.transfer.copy_pieces import SentPiece
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
TROUBLE = "NCZFS_TEST_TROUBLE"
"""Names a directory in which workers note what went wrong already."""

DASK = [sys.executable, "-W", "ignore", "-m", "dask"]


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler with workers.

    Attributes
    ----------
    file : that it has written; `nczfs --scheduler` takes it.
    trouble : the directory `TROUBLE`.
    """

    file: Path
    trouble: Path
    pid: int


@contextlib.contextmanager
def dask_cluster(place: Path, workers: int) -> Iterator[Scheduler]:
    """A scheduler and workers of one thread. Of several, one that is killed is started again."""
    file, trouble = place / "scheduler.json", place / "trouble"
    trouble.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), TROUBLE: str(trouble)}
    address = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [*DASK, *words, "--scheduler-file", str(file)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        scheduler = start("scheduler", "--port", "0", *address)
        until(lambda: file.exists() and _is_json(file))
        only = ["--no-nanny"] if workers == 1 else []
        start(
            "worker", *only, "--nworkers", str(workers), "--nthreads", "1", "--memory-limit", "0",
            "--local-directory", str(place), *address,
        )  # fmt: skip
        yield Scheduler(file, trouble, scheduler.pid)


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_text())
    except ValueError:
        return False
    return True


def is_first(name: str) -> bool:
    """Return whether something has not happened yet in any worker, and note that it has now."""
    try:
        Path(os.environ[TROUBLE], name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def number(piece: SentPiece) -> int:
    """A number that tells one piece from another."""
    return zlib.crc32(repr((piece.path, piece.units, piece.box)).encode())


def copy_with_failures(job: CopyJob, piece: SentPiece) -> float:
    """Copy a piece; every fifth of them fails first, before its values are stored or after."""
    mine = number(piece)
    is_bad = mine % 5 == 0 and is_first(f"{job.token}-{mine}")
    done = 0.0 if is_bad and mine % 2 else copy_sent(job, piece)
    if is_bad:
        raise Unavailable("no answer")
    return done


def copy_with_broken_pieces(job: CopyJob, piece: SentPiece) -> float:
    """Copy a piece; those of the variable `w` always fail."""
    if piece.path.endswith("w"):
        raise Unavailable("no answer")
    return copy_sent(job, piece)


def copy_with_killed_workers(job: CopyJob, piece: SentPiece) -> float:
    """Copy a piece; the first two workers die when they have done one, by kill -9."""
    done = copy_sent(job, piece)
    if any(is_first(f"{job.token}-{each}") for each in "ab"):
        os.kill(os.getpid(), signal.SIGKILL)
    return done


def copy_with_killed_scheduler(job: CopyJob, piece: SentPiece) -> float:
    """Copy a piece; the scheduler dies after the third, by kill -9."""
    done = copy_sent(job, piece)
    if not any(is_first(f"{job.token}-{each}") for each in "ab"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(Path(os.environ[TROUBLE], "scheduler").read_text()), signal.SIGKILL)
    return done
