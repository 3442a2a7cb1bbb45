"""A copy by rechunker, with its versions of zarr and dask, which are not ours.

Run by the Python of its own environment (`benchmarks.copying`): for each copy of the array ``v`` it
reads a line ``SOURCE TARGET CHUNKS`` from its input, with CHUNKS as ``1,512,512``, and says
``copied``.
"""

from __future__ import annotations

import shutil
import sys

import dask
import zarr
from numcodecs import Zstd
from rechunker import rechunk

MEMORY = "1GB"  # for each task


def main() -> None:
    """Copy as told, until the input ends."""
    for line in sys.stdin:
        source, target, chunks = line.split()
        middle = f"{target}.middle"
        plan = rechunk(
            zarr.open_group(source, mode="r"),
            {"v": tuple(map(int, chunks.split(",")))},
            MEMORY,
            target,
            target_options={"v": {"compressor": Zstd(1)}},
            temp_store=middle,
        )
        with dask.config.set(scheduler="threads"):
            plan.execute()
        shutil.rmtree(middle, ignore_errors=True)
        print("copied", flush=True)


if __name__ == "__main__":
    main()
