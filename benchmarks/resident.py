"""How much memory is resident at most, in a mount's daemon or a process that only has nczfs.

A process of its own runs `python -m benchmarks.resident`, with its `Work` as JSON on the standard
input: the process of a benchmark holds the peers and their results.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nczfs
from benchmarks.harness import MIB, status

BUDGET_MIB = 512
BUDGET = f"{BUDGET_MIB}MiB"


@dataclass(frozen=True, slots=True)
class Work:
    """What a process does with a variable.

    Attributes
    ----------
    place : URL of the dataset.
    wanted : parts of the variable to be read, each a start and an end for every dimension.
    width : how many are read at a time.
    values : a ``.npy`` file that is written into the whole variable instead, if not empty.
    """

    place: str
    name: str
    wanted: Sequence[Sequence[tuple[int, int]]] = ()
    width: int = 1
    values: str = ""


def engine_options() -> nczfs.EngineOptions:
    """Options with the budget of the benchmark."""
    return nczfs.EngineOptions(memory_limit_bytes=BUDGET_MIB * MIB)


def peak_mib(pid: int | str = "self") -> int:
    """The most memory of a process that was resident."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", text)[0]) // 1024


@contextmanager
def peak_of_daemon(mount: Path) -> Iterator[list[int]]:
    """Within it, nothing; after it, the list has the peak of a mount's daemon in MiB."""
    pid = status(mount)["pid"]
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    found: list[int] = []
    yield found
    found.append(peak_mib(str(pid)))


def peak_in_process(work: Work) -> int:
    """The peak in MiB of a new process that does a work, results included, given values not."""
    command = [sys.executable, "-m", "benchmarks.resident"]
    done = subprocess.run(
        command, input=json.dumps(asdict(work)), stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout)


def main() -> None:
    """Do a work, and print the peak in MiB."""
    work = Work(**json.load(sys.stdin))
    given = np.load(work.values) if work.values else np.empty(0)
    mode = "r+" if work.values else "r"
    with nczfs.open(work.place, mode, options=engine_options()) as dataset:
        variable = dataset.variables[work.name]
        if work.values:
            variable[...] = given

        def read(part: Sequence[tuple[int, int]]) -> None:
            variable[tuple(slice(*ends) for ends in part)]

        with ThreadPoolExecutor(work.width) as pool:
            for _ in pool.map(read, work.wanted):
                pass
    print(peak_mib() - given.nbytes // MIB)


def work_of(place: str, name: str, wanted: Sequence[Any], width: int) -> Work:
    """The reading of slices."""
    parts = [[(int(each.start), int(each.stop)) for each in part] for part in wanted]
    return Work(place, name, parts, width)


if __name__ == "__main__":
    main()
