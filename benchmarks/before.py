"""Writing from Python, beside another version of nczfs, in seconds of the processors.

    python -m benchmarks.before CHECKOUT [--pairs N]

CHECKOUT is a directory with the other version, such as a worktree of git. Both write 64 MiB of
float32 without compression into a directory, each run in a process of its own, in turn. The ratio
is the other version's time divided by ours: above 1 this version takes less. Unlike elapsed time
it says something on a busy machine, too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.harness import printed_by

HERE = Path(__file__).resolve().parents[1]

# It runs with whichever version comes first in its path.
CASES = """
import sys, time
import numpy as np
import nczfs

data = np.random.default_rng(1).random((64, 512, 512), "f4")
at = np.random.default_rng(2).integers(0, (64, 512, 508), (3000, 3)).tolist()

def whole(v):
    v[...] = data

def halves(v):
    for row in range(64):
        v[row, :256] = data[row, :256]
        v[row, 256:] = data[row, 256:]

def points(v):
    for t, y, x in at:
        v[t, y, x : x + 4] = data[t, y, x : x + 4]

ROWS, TILES = (1, 512, 512), (8, 128, 128)
CASES = {
    "whole chunks": (ROWS, whole),
    "tiles": (TILES, whole),
    "half chunks": (ROWS, halves),
    "3,000 runs of four elements": (ROWS, points),
}
def seconds(place, chunks, write):
    with nczfs.open(place, "w") as root:
        for dimension, length in zip("tyx", data.shape):
            root.create_dimension(dimension, length)
        v = root.create_variable("v", ("t", "y", "x"), "f4", chunks=chunks, codecs=[])
        root.sync()
        began = time.process_time()
        write(v)
        root.sync()
        return time.process_time() - began

for number, (name, case) in enumerate(CASES.items()):
    # The fastest of several: the first one imports codecs, and others share the processors.
    print(name, min(seconds(f"{sys.argv[1]}/{number}-{turn}.zarr", *case) for turn in range(4)),
          sep=":")
"""


def seconds(checkout: Path) -> dict[str, float]:
    """Return the time of each case with the version in a directory."""
    with tempfile.TemporaryDirectory() as place:
        lines = (line.rpartition(":") for line in printed_by(checkout, CASES, place))
    return {name: float(value) for name, _, value in lines}


def main() -> None:
    """Print the medians of all pairs, and of their ratios."""
    parser = argparse.ArgumentParser(prog="benchmarks.before")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    began = time.monotonic()
    pairs = [(seconds(arguments.checkout), seconds(HERE)) for _ in range(arguments.pairs)]
    print("| case | before s | now s | ratio |\n| --- | --- | --- | --- |")
    for name in pairs[0][1]:
        before = statistics.median(each[name] for each, _ in pairs)
        now = statistics.median(each[name] for _, each in pairs)
        ratio = statistics.median(one[name] / other[name] for one, other in pairs)
        print(f"| {name} | {before:.3f} | {now:.3f} | {ratio:.2f} |")
    print(f"\n{len(pairs)} pairs in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
