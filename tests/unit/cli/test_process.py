"""The end of a process: nothing that it has done or printed is lost in it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.decoding import DECODE

BEGIN = """
import atexit, logging.handlers, sys, threading, time
from nczfs.cli.process import run

def work(function, daemon):
    threading.Thread(target=function, daemon=daemon).start()
"""


def ended(script: str) -> tuple[int, str, str]:
    """Return the status and the output of a process that buffers what it prints."""
    command = [sys.executable, "-c", BEGIN + script]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_thread_in_foreign_code_does_not_abort_the_process() -> None:
    script = """
def main():
    atexit.register(print, "removed")
    work(decode, True)
    time.sleep(0.1)
    logging.getLogger().addHandler(
        logging.handlers.MemoryHandler(9, target=logging.StreamHandler(sys.stderr))
    )
    logging.warning("logged")
    print("printed")
    return 3

run(main)
"""
    assert ended(DECODE + script) == (3, "printed\nremoved\n", "logged\n")


def test_a_thread_that_is_no_daemon_is_waited_for() -> None:
    script = """
def later():
    time.sleep(0.3)
    print("done")

def main():
    work(threading.Event().wait, True)
    work(later, False)
    return 0

run(main)
"""
    assert ended(script) == (0, "done\n", "")


def test_other_ends_are_those_of_python() -> None:
    """What is raised is printed, and the status is its own, whatever threads there are."""
    script = """
def main():
    work(threading.Event().wait, True)
    raise {}

run(main)
"""
    assert ended(script.format("SystemExit(5)")) == (5, "", "")
    status, out, err = ended(script.format("KeyError('x')"))
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == "KeyError: 'x'"
    quiet = "atexit.register(print, 'the end'); run(lambda: print('done') or 4)"
    assert ended(quiet) == (4, "done\nthe end\n", "")
