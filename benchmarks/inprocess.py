"""The library without a mount, beside zarr-python in-process, on a directory store.

    python -m benchmarks.inprocess [--pairs N] [--layouts rows1,...] [--codecs zlib,lz4]
                                   [--rows write,full,strided,elements,memory,open]

Full, strided and single-element reads, writing 256 MiB, and opening a dataset of 1,000 variables
beside netCDF4-python. What is read is in the page cache for both (warm), and for neither (cold,
where dropping it is permitted); every dataset is opened anew for each run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import zarr
from numcodecs import Blosc, Shuffle, Zlib

import nczfs
from benchmarks.harness import LAYOUTS, SHAPE, drop_page_cache, field, paired, write

ROWS = ("write", "full", "strided", "elements", "memory", "open")
CACHES = {"warm": lambda: None, "cold": drop_page_cache}
VARIABLES = 1000
ELEMENTS = 200  # single elements read at random
CODECS: dict[str, list[dict[str, Any]]] = {
    "zlib": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
    "lz4": [{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}],
}
PEAK = """
import sys
import nczfs
with nczfs.open(sys.argv[1], options=nczfs.EngineOptions(memory_limit_bytes=64 << 20)) as dataset:
    for variable in dataset.variables.values():
        for step in range(variable.shape[0]):
            variable[step]
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    rows = arguments.rows.split(",")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        root = Path(scratch)
        values = field()
        print("| library, directory store | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
        for codec in arguments.codecs.split(","):
            for layout in arguments.layouts.split(","):
                if "write" in rows:
                    _writing(root, values, layout, codec, arguments.pairs)
                write(root / "bench.zarr", values, layout, codec)
                _reading(root / "bench.zarr", f"{codec}_{layout}", rows, arguments.pairs)
        del values
        if "memory" in rows:
            _memory(root / "bench.zarr")
        if "open" in rows:
            _opening(root, arguments.pairs)


def _reading(data: Path, name: str, rows: list[str], pairs: int) -> None:
    def theirs(read: Any) -> None:
        read(zarr.open_group(data, mode="r")[name])

    def ours(read: Any) -> None:
        with nczfs.open(str(data)) as dataset:
            read(dataset[name])

    rng = np.random.default_rng(2)
    points = [tuple(map(int, rng.integers(0, SHAPE))) for _ in range(ELEMENTS)]

    def one_by_one(array: Any) -> None:
        for point in points:
            array[point]

    def whole(array: Any) -> None:
        array[...]

    def strided(array: Any) -> None:
        array[::2, ::16, ::16]

    reads = {
        "full": ("`v[...]`", whole),
        "strided": ("`v[::2, ::16, ::16]`", strided),
        "elements": (f"{ELEMENTS} single elements", one_by_one),
    }
    for what, read in (reads[row] for row in reads if row in rows):
        for state, before in CACHES.items():
            paired(
                f"{name}: {what}, {state}",
                partial(theirs, read),
                partial(ours, read),
                before=before,
                pairs=pairs,
            )


def _memory(data: Path) -> None:
    peak = subprocess.run(
        [sys.executable, "-c", PEAK, str(data)], check=True, capture_output=True, text=True
    )
    print(f"\npeak RSS reading all with a budget of 64 MiB: {int(peak.stdout) // 1024} MiB\n")


def _writing(root: Path, values: Any, layout: str, codec: str, pairs: int) -> None:
    theirs, mine = root / "theirs.zarr", root / "mine.zarr"
    chunks = LAYOUTS[layout]

    def peer() -> None:
        filters = [Shuffle(4)] if codec == "zlib" else None
        compressor = Zlib(1) if codec == "zlib" else Blosc("lz4", 5, Blosc.SHUFFLE)
        array = zarr.open_group(theirs, mode="w", zarr_format=2).create_array(
            "v",
            shape=values.shape,
            chunks=chunks,
            dtype="f4",
            filters=filters,
            compressors=compressor,
        )
        array[...] = values

    def ours() -> None:
        with nczfs.open(str(mine), "w", format="zarr2") as dataset:
            for d, size in enumerate(values.shape):
                dataset.create_dimension(f"d{d}", size)
            variable = dataset.create_variable(
                "v", ("d0", "d1", "d2"), "f4", chunks=chunks, codecs=CODECS[codec]
            )
            variable[...] = values

    def before() -> None:
        shutil.rmtree(theirs, ignore_errors=True)
        shutil.rmtree(mine, ignore_errors=True)

    paired(f"{codec}_{layout}: write 256 MiB", peer, ours, before=before, pairs=pairs)


def _opening(root: Path, pairs: int) -> None:
    data = root / "many.zarr"
    with nczfs.open(str(data), "w") as dataset:
        dataset.create_dimension("x", 4)
        for number in range(VARIABLES):
            dataset.create_variable(
                f"v{number:04d}",
                ("x",),
                "f4",
                attributes={"units": "K", "long_name": f"n {number}"},
            )

    url = f"file://{data}#mode=nczarr,file"

    def peer() -> None:
        netCDF4.Dataset(url).close()

    def ours() -> None:
        with nczfs.open(str(data)) as dataset:
            list(dataset.variables)

    paired(f"open {VARIABLES} variables, list them: netCDF4-python", peer, ours, pairs=pairs)

    def all_of_peer() -> None:
        with netCDF4.Dataset(url) as dataset:
            for variable in dataset.variables.values():
                variable.ncattrs()

    def all_of_ours() -> None:
        with nczfs.open(str(data)) as dataset:
            for variable in dataset.variables.values():
                list(variable.attrs)

    paired(
        f"open {VARIABLES} variables, look at each: netCDF4-python",
        all_of_peer,
        all_of_ours,
        pairs=pairs,
    )


if __name__ == "__main__":
    main()
