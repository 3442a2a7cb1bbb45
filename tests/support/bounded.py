"""What a program takes of memory, and whether others in its process get their turn meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240

_WATCHED = """
import json, sys, threading, time
{setup}
class Neighbour(threading.Thread):
    '''Does something small again and again; keeps what was computed between two turns at most.'''
    def run(self):
        self.longest_s, self.is_over, last = 0.0, False, time.process_time()
        while not self.is_over:
            time.sleep(0.001)
            now = time.process_time()
            self.longest_s, last = max(self.longest_s, now - last), now
def peak_kib():
    # ru_maxrss begins with that of the program that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
before = peak_kib()
neighbour = Neighbour(daemon=True)
neighbour.start()
{act}
neighbour.is_over = True
neighbour.join()
peak = peak_kib()
print(json.dumps({{"grown_mib": (peak - before) / 1024, "longest_s": neighbour.longest_s}}))
"""


@dataclass(frozen=True, slots=True)
class Took:
    """What a program took.

    Attributes
    ----------
    grown_mib : by how much its memory grew, at most.
    longest_s : the most processor time of it in which no other thread of it got its turn.
    """

    grown_mib: float
    longest_s: float


def watched(setup: str, act: str, *arguments: object) -> Took:
    """Run lines of a program in a process of their own.

    Parameters
    ----------
    setup : what comes before is counted; `arguments` are in ``sys.argv``.
    act : what is watched. It fails the test by an error of its own.
    """
    ended = subprocess.run(
        [sys.executable, "-c", _WATCHED.format(setup=setup, act=act), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stderr
    return Took(**json.loads(ended.stdout.splitlines()[-1]))
