"""Nothing that tests start or make outlives a run of tests that is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nczfs.fuse import mounting
from tests.support import runs
from tests.support.standing import READY
from tests.support.waiting import until

REPOSITORY = Path(__file__).parents[2]
STANDING = "tests/support/standing.py"
LONG = pytest.mark.long
START_S = 240.0
END_S = 120.0


@contextmanager
def standing(test: str, place: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The process of a run, and what its only test says that stands."""
    ready = place / "ready"
    command = [sys.executable, "-m", "pytest", "-n", "1", f"--basetemp={place / 'temporary'}"]
    with (place / "output").open("wb") as output:
        run = subprocess.Popen(
            [*command, f"{STANDING}::{test}"],
            cwd=REPOSITORY,
            env=os.environ | {READY: str(ready)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until(lambda: ready.exists() or run.poll() is not None, START_S)
        assert ready.exists(), (place / "output").read_text()
        yield run.pid, json.loads(ready.read_text())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def kill_the_controller(controller: int, worker: int) -> None:
    os.kill(controller, signal.SIGKILL)


def kill_the_worker(controller: int, worker: int) -> None:
    os.kill(worker, signal.SIGKILL)


def kill_both_at_once(controller: int, worker: int) -> None:
    os.killpg(controller, signal.SIGKILL)


@pytest.mark.parametrize(
    "kill",
    [pytest.param(kill_the_controller, marks=LONG), kill_the_worker, kill_both_at_once],
)
@pytest.mark.parametrize(
    "test", ["test_mounts_and_a_web_server", pytest.param("test_buckets", marks=LONG)]
)
def test_servers_mounts_and_files_end_with_a_killed_run(
    test: str, kill: Callable[[int, int], None], tmp_path: Path
) -> None:
    with standing(test, tmp_path) as (run, said):
        assert left_of(said) == [*said["files"], *said["mounts"], *said["urls"], "processes"]
        kill(run, said["pid"])
        until(lambda: not left_of(said), END_S)


def left_of(said: dict[str, Any]) -> list[str]:
    """What still stands of a run."""
    left = [path for path in said["files"] if os.path.exists(path)]
    left += [path for path in said["mounts"] if mounting.find_mount(path)]
    left += [url for url in said["urls"] if listens(url)]
    return left + ["processes"] * (said["run"] in runs.inherited().values())


def listens(url: str) -> bool:
    at = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((at.hostname, at.port)) == 0


def test_a_run_clears_up_behind_one_that_ended_unseen(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; from tests.support import runs;"
         "print(runs.name_of(os.getpid()))"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    ours = runs.name_of(os.getpid())
    for run in (ended, ours, "nczfs-run-of-others"):
        (tmp_path / run / "files").mkdir(parents=True)
    orphan = subprocess.Popen(["sleep", "1000"], env=os.environ | {runs.VARIABLE: ended})
    until(lambda: ended in runs.inherited().values())
    with subprocess.Popen(["sleep", "1000"]) as living:
        runs.clear_behind_earlier([tmp_path])
        assert orphan.wait() == -signal.SIGKILL
        assert {path.name for path in tmp_path.iterdir()} == {ours, "nczfs-run-of-others"}
        assert living.poll() is None
        living.kill()
