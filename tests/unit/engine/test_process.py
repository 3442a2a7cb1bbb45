"""Whether a process has ended, as another one of the same machine sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nczfs.engine.process import ProcessIdentity, current_process

TELL = """
import sys
from nczfs.engine.process import current_process
process = current_process()
print(process.machine, process.pid, process.started, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ours() -> ProcessIdentity:
    found = current_process()
    assert found is not None
    return found


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def _identity(child: subprocess.Popen[str]) -> ProcessIdentity:
    assert child.stdout is not None
    machine, pid, started = child.stdout.readline().split()
    return ProcessIdentity(machine, int(pid), int(started))


def test_a_process_knows_itself(ours: ProcessIdentity) -> None:
    assert ours == current_process()
    assert ours.pid == os.getpid()
    assert not ours.has_ended()


def test_a_process_that_runs_has_not_ended_and_one_that_was_killed_has(
    ours: ProcessIdentity, child: subprocess.Popen[str]
) -> None:
    other = _identity(child)
    assert other.machine == ours.machine
    assert not other.has_ended()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie, that nobody waited for
    assert other.has_ended()
    child.wait()
    assert other.has_ended()


def test_a_number_that_was_given_again_is_another_process(ours: ProcessIdentity) -> None:
    assert replace(ours, started=ours.started - 1).has_ended()


def test_nothing_is_known_of_another_machine_or_namespace(ours: ProcessIdentity) -> None:
    boot, *spaces = ours.machine.split(".")
    for machine in ("", ".".join(["other", *spaces]), f"{boot}.1.1"):
        assert not replace(ours, machine=machine, started=1).has_ended()


def test_a_process_whose_number_means_another_one_in_proc_is_not_known() -> None:
    """As in a namespace of process numbers that shows the /proc of the one above."""
    code = "from nczfs.engine.process import current_process; print(current_process())"
    unshared = ["unshare", "--pid", "--fork", sys.executable, "-c", code]
    told = subprocess.run(unshared, capture_output=True, text=True, check=True)
    assert told.stdout == "None\n"
